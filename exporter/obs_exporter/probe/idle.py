"""Connections that no request uses now: kept open for the next one, and looked at before they are used again."""

from __future__ import annotations

import select
import time

from obs_exporter.probe.transport import Transport

_REUSE_WITHIN_NS = 1_000_000_000
"""A connection idle for longer is not used again: the server may be about to close it: that would look a fault."""


class IdlePool:
    """The idle connections of one client. They stay in its epoll, so that a close by the server is seen."""

    def __init__(self, poll: select.epoll) -> None:
        self._poll = poll
        self._idle: dict[int, tuple[Transport, int]] = {}

    def __contains__(self, fd: int) -> bool:
        """Whether this connection is idle."""
        return fd in self._idle

    def put(self, transport: Transport) -> None:
        """Keep a connection whose last answer was whole."""
        self._idle[transport.fd] = (transport, time.perf_counter_ns())

    def take(self) -> Transport | None:
        """Return the connection that was used last, or None. Those that the server has closed are dropped first."""
        oldest_ns = time.perf_counter_ns() - _REUSE_WITHIN_NS
        while self._idle:
            fd = next(reversed(self._idle))
            transport, since = self._idle[fd]
            if since >= oldest_ns and transport.quiet():
                del self._idle[fd]
                return transport
            self.drop(fd)
        return None

    def drop(self, fd: int) -> None:
        """Close one connection."""
        transport, _ = self._idle.pop(fd)
        self._poll.unregister(fd)
        transport.close()

    def clear(self) -> None:
        """Close all of them."""
        for fd in list(self._idle):
            self.drop(fd)
