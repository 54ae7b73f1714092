"""HTTP/2: the same bounds as without, whatever the frames are cut into; what is no HTTP/2 is told."""

from __future__ import annotations

import importlib.util
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.cli import main
from obs_exporter.probe.client import ClientOptions
from obs_exporter.probe.http1 import ResponseParser
from obs_exporter.probe.http2 import ClientLayer, HTTP2Error, ServerLayer
from obs_exporter.probe.outcome import Outcome
from obs_exporter.probe.request import Shape
from obs_exporter.probe.results import read_result
from obs_exporter.probe.transport import TLSOptions
from obs_exporter.probe.truth import seal
from obs_exporter.probe.truth.behaviours import BEHAVIOURS, Profile
from obs_exporter.probe.truth.process import Truth, TruthProcess

from .conftest import FAST, Put

REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h:1\r\nX-Request-Id: a\r\nContent-Length: %d\r\n\r\n%b"
SEALED = pytest.param(True, marks=pytest.mark.skipif(not seal.available(), reason="no anonymous cipher"))


class Front(TruthProcess):
    """A server that no truth is known of."""

    def __init__(self, url: str) -> None:
        super().__init__(FAST)
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    def truth(self) -> list[Truth]:
        return []


def options_for(tls: bool) -> ClientOptions:
    return ClientOptions(timeout_s=10, http2=True, tls=seal.AnonymousTLS() if tls else TLSOptions())


@pytest.mark.parametrize("tls", [False, SEALED])
def test_the_truth_over_http2_is_that_without(put: Put, truth_server: TruthProcess, tls: bool) -> None:
    with TruthProcess(FAST, tls=tls) as server:
        for behaviour in (
            "healthy",
            "split",
            "comments",
            "not-streamed",
            "error-event",
            "truncated",
            "http-500",
            "empty",
        ):
            got = put(server, behaviour, slots=2, requests=6, options=options_for(tls))
            plain = put(truth_server, behaviour, slots=2, requests=6)
            assert [record.outcome for record in got.records] == [record.outcome for record in plain.records]
            assert [record.tokens for record in got.records] == [record.tokens for record in plain.records]
            for record in got.records:
                assert record.ttft_s is None or record.ttft_s >= got.truth[record.id].ttft_s
            if behaviour == "healthy":
                assert sum(record.connect_s is not None for record in got.records) == 2


@pytest.mark.parametrize("tls", [False, SEALED])
def test_a_request_larger_than_the_windows(put: Put, tls: bool) -> None:
    with TruthProcess(FAST, tls=tls) as server:
        shape = Shape("healthy", extra={"padding": "x" * 3_000_000})
        got = put(server, slots=2, requests=4, shape=shape, options=options_for(tls))
    assert [record.outcome for record in got.records] == [Outcome.OK] * 4


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.sampled_from(["healthy", "not-streamed", "http-500"]))
def test_frames_may_be_cut_anywhere(sizes: list[int], behaviour: str) -> None:
    client, server = ClientLayer("http"), ServerLayer()
    body = b"x" * 100_000
    sent = client.request(REQUEST % (len(body), body))
    asked = server.take(sent)
    for _ in range(10):  # windows open as each side hears of the other
        client.receive(server.outgoing())
        asked += server.take(client.outgoing())
    head, _, got = asked.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"\r\nx-request-id: a" in head
    assert got == body

    writes = [data for _, data in BEHAVIOURS[behaviour](Profile(0, 0, 5)).writes]
    plain, expected = ResponseParser(), b""
    for data in writes:
        expected += plain.feed(data)
    frames = b"".join(server.give(data) for data in writes)
    parser, answer, at, turn = ResponseParser(), b"", 0, 0
    while at < len(frames):
        size = sizes[turn % len(sizes)]
        answer += parser.feed(client.receive(frames[at : at + size]))
        at, turn = at + size, turn + 1
    assert (answer, parser.status, parser.done, parser.leftover) == (expected, plain.status, True, False)
    assert parser.headers["content-type"] == plain.headers["content-type"]


@given(st.binary(min_size=1, max_size=200))
def test_rubbish_is_told_not_raised_as_something_else(data: bytes) -> None:
    client = ClientLayer("http")
    client.request(REQUEST % (0, b""))
    with suppress(HTTP2Error):  # nothing else may come out, and no body
        assert client.receive(data) == b""


def test_a_stream_that_is_reset_and_a_connection_that_ends() -> None:
    client, server = ClientLayer("http"), ServerLayer()
    server.take(client.request(REQUEST % (0, b"")))
    with pytest.raises(HTTP2Error, match=r"reset the stream \(INTERNAL_ERROR\)"):
        client.receive(server.outgoing() + server.give(b"SSH-2.0\r\n\r\n"))


@contextmanager
def answering(data: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve one connection: say ``data`` once something has come."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one() -> None:
        line, _ = listener.accept()
        with line:
            try:
                secured = context.wrap_socket(line, server_side=True) if context else line
                secured.recv(65536)
                secured.sendall(data)
                secured.recv(65536)
                secured.close()
            except OSError:
                return

    thread = threading.Thread(target=one, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(5)


def test_a_server_without_http2_is_named_so(put: Put) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        got = put(Front(f"http://127.0.0.1:{port}/v1"), slots=1, requests=1, options=options_for(False))
    assert got.records[0].outcome is Outcome.CONNECT
    assert "HTTP/2: the server answers in HTTP/1" in got.records[0].detail
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    options = ClientOptions(http2=True, tls=TLSOptions(insecure=True))
    with answering(b"", context) as port:
        got = put(Front(f"https://127.0.0.1:{port}/v1"), slots=1, requests=1, options=options)
    assert got.records[0].outcome is Outcome.CONNECT
    assert "does not speak HTTP/2" in got.records[0].detail


def test_the_commands(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    command = ["run", "--url", truth_server.url, "--http2", "--concurrency", "2", "--requests-per-level", "4",
               "--repeats", "1", "--output", str(output)]  # fmt: skip
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    result = read_result(output)
    assert result["levels"][0]["goodput"] == 1.0
    assert result["load"]["http2"] is True
    assert [entry["http2"] for entry in result["calibration"]] == [True]
    done = CliRunner().invoke(main, ["calibrate", "--concurrency", "1", "--http2"])
    assert done.exit_code == 0, done.output
    assert "concurrency 1 over HTTP/2: TTFT error" in done.output


def test_what_it_needs_is_said(truth_server: TruthProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["run", "--url", truth_server.url, "--http2", "--proxy", "http://127.0.0.1:1"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "needs an https target" in done.output
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    for command in (["run", "--url", truth_server.url, "--http2"], ["calibrate", "--http2"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 2
        assert "pip install 'llm-serving-observability[http2]'" in done.output
