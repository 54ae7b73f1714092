"""Servers of known truth, and a way to put load on them without the command line."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, run_closed
from obs_exporter.probe.outcome import SLO, Record
from obs_exporter.probe.request import TRITON_GENERATE, Prompt, RequestBuilder, Shape, parse_endpoint
from obs_exporter.probe.truth.behaviours import Profile
from obs_exporter.probe.truth.process import Truth, TruthProcess

FAST = Profile(ttft_s=0.02, itl_s=0.002, tokens=12)


@dataclass
class Measured:
    """What a load gave: the probe's records, the server's truth by request id, and all that it logged."""

    records: list[Record]
    truth: dict[str, Truth] = field(default_factory=dict)
    log: list[Truth] = field(default_factory=list)


Put = Callable[..., Measured]


def put_load(
    server: TruthProcess, model: str = "truth", slots: int = 2, requests: int = 4, timeout_s: float = 20.0,
    slo: SLO | None = None, shape: Shape | None = None, options: ClientOptions | None = None,
) -> Measured:  # fmt: skip
    """Put a closed-loop load on a truth server."""
    endpoint = parse_endpoint(server.url.removesuffix("/v1") if shape and shape.api == TRITON_GENERATE else server.url)
    builder = RequestBuilder(endpoint, shape or Shape(model))
    maker, free, records = RecordMaker(slo or SLO()), Slots(), list[Record]()
    level = Level("test", slots, None, requests, None)

    def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
        name = f"{model}-{index}"
        return builder.build(Prompt((("user", "hello"),), 64), name), Ticket(level, 0, index, name, scheduled_ns)

    chosen = options or ClientOptions(timeout_s=timeout_s)
    client = Client(endpoint, chosen, lambda exchange: records.append(maker.make(exchange)), free.free)
    try:
        run_closed(client, free, build, level, slots, iter(range(requests)), Stop())
    finally:
        client.close()
    log = list(server.truth())
    return Measured(records, {truth.id: truth for truth in log}, log)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """Answers with whole bodies, and logs nothing."""

    def reply(self, body: bytes, status: int = 200, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on this machine; yield the address without a path."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def read_page(url: str) -> str:
    """Return what a page on this machine says."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="session")
def truth_server() -> Iterator[TruthProcess]:
    with TruthProcess(FAST) as server:
        yield server


@pytest.fixture(scope="session")
def put() -> Put:
    return put_load


@pytest.fixture
def start_truth() -> Iterator[Callable[..., TruthProcess]]:
    """Return a function that starts a truth server of its own, ended with the test."""
    running: list[TruthProcess] = []

    def start(profile: Profile, *extra: str) -> TruthProcess:
        server = TruthProcess(profile, *extra).__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__(None, None, None)
