"""A small HTTP server for pages of metrics, the same for the exporter and the probe. WSGI, no framework."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

Environ = dict[str, Any]
Respond = Callable[[str, list[tuple[str, str]]], Any]
Wsgi = Callable[[Environ, Respond], Iterable[bytes]]
TEXT = "text/plain; charset=utf-8"


def split_address(text: str) -> tuple[str, int] | None:
    """Split HOST:PORT (":PORT" means every address, "[::1]:PORT" IPv6); None for a text that is none."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        return None
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving the host out


def reply(respond: Respond, status: str, body: str, content_type: str = TEXT) -> Iterable[bytes]:
    """Answer with a whole text."""
    data = body.encode()
    respond(status, [("Content-Type", content_type), ("Content-Length", str(len(data)))])
    return [data]


class _Server(ThreadingMixIn, WSGIServer):
    """One thread a connection; an open connection does not keep the process alive."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of clients that hang up in the middle."""


class _V6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    """No line a request, and no waiting for ever on a client that sends nothing."""

    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """Stay quiet."""


def bind(app: Wsgi, address: tuple[str, int]) -> WSGIServer:
    """Bind a server to HOST and PORT (0: any free one). Raises ``OSError`` where that cannot be."""
    kind = _V6 if ":" in address[0] else _Server
    return make_server(address[0], address[1], app, server_class=kind, handler_class=_Quiet)


def run_in_thread(server: WSGIServer) -> threading.Thread:
    """Serve in the background until ``server.shutdown()``."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True, name="http")
    thread.start()
    return thread
