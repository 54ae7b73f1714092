"""A deadline for a whole HTTP exchange: requests bounds each wait for bytes, and a dripping server never waits long.

A watch remembers the socket of the exchange that its thread has under way; when the time is up, or when the program
ends, the socket is shut down from another thread, and the read that hangs on it comes back at once.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

_thread = threading.local()


class Watch:
    """The exchange that is under way; ``expired`` says that it was cut."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.expired = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def see(self, found: socket.socket | None) -> None:
        """Remember the socket of the exchange; one that comes too late is cut at once."""
        with self._lock:
            self._socket = found
            late = self.expired
        if late:
            self.cut()

    def cut(self) -> None:
        """Shut the socket down, so that whoever reads from it comes back."""
        with self._lock:
            self.expired = True
            found = self._socket
        if found is not None:
            try:
                found.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it has ended by itself


@contextmanager
def within(seconds: float, watch: Watch) -> Iterator[None]:
    """Cut the exchange of this thread when the time is up."""
    timer = threading.Timer(seconds, watch.cut)
    timer.daemon = True
    _thread.watch = watch
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _thread.watch = None


def _sent(connection: HTTPConnection) -> None:
    """Tell the watch of this thread which socket carries its request."""
    watch: Watch | None = getattr(_thread, "watch", None)
    if watch is not None:
        watch.see(connection.sock)


class _Plain(HTTPConnection):
    def request(self, *args: Any, **kwargs: Any) -> None:
        super().request(*args, **kwargs)
        _sent(self)


class _Secure(HTTPSConnection):
    def request(self, *args: Any, **kwargs: Any) -> None:
        super().request(*args, **kwargs)
        _sent(self)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


class WatchedAdapter(HTTPAdapter):
    """requests' adapter over connections that tell the watch of their thread."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make a pool manager of watched connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
