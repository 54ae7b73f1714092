"""Fetching: every way in which a server can be wrong ends in one word and a sentence, within time and size."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from obs_exporter.sources.scrape import Access, FetchError, Scraper, metrics_url, redacted

BODY = b"# TYPE vllm:x gauge\nvllm:x 1\n"


def _fails(url: str, **access: Any) -> FetchError:
    scraper = Scraper(Access(url, **access))
    try:
        with pytest.raises(FetchError) as caught:
            scraper.fetch()
    finally:
        scraper.close()
    return caught.value


def test_it_asks_for_plain_text_over_one_connection(serve: Callable[..., Any], fixed: Callable[..., Any]) -> None:
    ports = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        ports.append(handler.client_address[1])
        fixed(BODY)(handler)

    server = serve(answer)
    scraper = Scraper(Access(server.url))
    assert [scraper.fetch().body for _ in range(3)] == [BODY] * 3
    scraper.close()
    path, headers = server.requests[0]
    assert path == "/metrics"
    assert headers["accept"] == "text/plain;version=0.0.4"
    assert len(set(ports)) == 1


def test_gzip_is_asked_for_and_undone(serve: Callable[..., Any]) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = gzip.compress(BODY)
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server = serve(answer)
    scraper = Scraper(Access(server.url))
    assert scraper.fetch().body == BODY
    scraper.close()
    assert "gzip" in server.requests[0][1]["accept-encoding"]


def test_a_dead_port_refuses() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = _fails(f"127.0.0.1:{port}")
    assert error.reason == "connect"
    assert "refused" in str(error)


def test_an_unknown_host() -> None:
    assert _fails("http://no-such-host.invalid:1").reason == "connect"


@pytest.mark.parametrize("status", [204, 301, 401, 404, 500])
def test_other_statuses_are_said(serve: Callable[..., Any], fixed: Callable[..., Any], status: int) -> None:
    error = _fails(serve(fixed(b"", status=status)).url)
    assert error.reason == "http_status"
    assert str(status) in str(error)


def test_a_server_that_never_answers(serve: Callable[..., Any]) -> None:
    done = threading.Event()
    started = time.monotonic()
    error = _fails(serve(lambda _: done.wait(20)).url, timeout=0.3)
    done.set()
    assert error.reason == "timeout"
    assert time.monotonic() - started < 10


def test_a_server_that_drips_is_cut_off_in_time(serve: Callable[..., Any]) -> None:
    stop = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.02):
            handler.wfile.write(b"# HELP x y\n" * 7000)

    error = _fails(serve(answer).url, timeout=0.5)
    stop.set()
    assert error.reason in ("timeout", "too_large")


def test_an_endless_body_stops_at_the_limit(serve: Callable[..., Any]) -> None:
    sent = 0

    def answer(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        for _ in range(16 * 1024):
            handler.wfile.write(b"x" * 65536)
            sent += 65536

    error = _fails(serve(answer).url, max_bytes=1_000_000)
    assert error.reason == "too_large"
    assert sent < 100_000_000


def test_a_compressed_bomb_stops_at_the_limit(serve: Callable[..., Any]) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(bomb)))
        handler.end_headers()
        handler.wfile.write(bomb)

    assert _fails(serve(answer).url, max_bytes=1_000_000).reason == "too_large"


def test_a_body_shorter_than_promised_is_broken(serve: Callable[..., Any]) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(BODY)
        handler.close_connection = True

    assert _fails(serve(answer).url).reason in ("broken", "connect")


def test_a_port_that_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def rubbish() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x00\x01 hello\r\n\r\n")

        threading.Thread(target=rubbish, daemon=True).start()
        assert _fails(f"127.0.0.1:{listener.getsockname()[1]}").reason == "connect"


def test_https_to_a_plain_port_is_a_tls_error(serve: Callable[..., Any], fixed: Callable[..., Any]) -> None:
    assert _fails(serve(fixed(BODY)).url.replace("http:", "https:")).reason == "tls"


def test_the_token_is_sent_and_never_shown(
    serve: Callable[..., Any], fixed: Callable[..., Any], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    server = serve(fixed(b"", status=401))
    error = _fails(server.url.replace("//", "//user:pa55@"), bearer_token_file=str(token))
    assert server.requests[0][1]["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(error)
    assert "pa55" not in str(error)


def test_a_missing_token_file_is_said(tmp_path: Path) -> None:
    error = _fails("127.0.0.1:1", bearer_token_file=str(tmp_path / "none"))
    assert error.reason == "token"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
        ("http://h", "http://h/metrics"),
        ("https://h/", "https://h/metrics"),
        ("http://h/x/metrics?y=1", "http://h/x/metrics?y=1"),
        ("http://[::1]:80", "http://[::1]:80/metrics"),
    ],
)
def test_urls_are_completed(given: str, expected: str) -> None:
    assert metrics_url(given) == expected


@pytest.mark.parametrize("given", ["ftp://h", "http://", "http://h:notaport", "http://h:99999", "file:///etc/passwd"])
def test_what_is_no_url_is_refused(given: str) -> None:
    with pytest.raises(ValueError):
        metrics_url(given)


def test_redaction_keeps_host_and_path_only() -> None:
    assert redacted("http://user:pw@h:1/p?token=x#y") == "http://h:1/p"
    assert redacted("user:pw@h:1/p?token=x") == "h:1/p"


def _dripping(headers: bytes, drip: bytes) -> tuple[str, Callable[[], None]]:
    """A server that sends its headers, or only a part of them, and then a few bytes again and again for ever."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(4096)
                connection.sendall(headers)
                while not stop.wait(0.05):
                    connection.sendall(drip)
            except OSError:
                return

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()

    def close() -> None:
        stop.set()
        listener.close()

    return f"http://127.0.0.1:{listener.getsockname()[1]}", close


@pytest.mark.parametrize(
    ("headers", "drip"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    ],
    ids=["length", "close", "chunked", "headers"],
)
def test_the_time_out_bounds_the_whole_exchange_however_it_drips(headers: bytes, drip: bytes) -> None:
    url, close = _dripping(headers, drip)
    started = time.monotonic()
    error = _fails(url, timeout=0.5)
    close()
    assert error.reason == "timeout"
    assert time.monotonic() - started < 10


def test_closing_cuts_a_fetch_that_hangs() -> None:
    url, close = _dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x")
    scraper = Scraper(Access(url, timeout=60))
    threading.Timer(0.3, scraper.close).start()
    started = time.monotonic()
    with pytest.raises(FetchError):
        scraper.fetch()
    close()
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo", "a b", "t\u00f6ken", "t\u20acken", "a\tb"])
def test_what_is_no_token_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    token = tmp_path / "token"
    token.write_text(text, encoding="utf-8")
    error = _fails("127.0.0.1:1", bearer_token_file=str(token))
    assert error.reason == "token"
    assert not text.strip() or text not in str(error)


def test_the_token_goes_to_its_own_server_only(
    serve: Callable[..., Any], fixed: Callable[..., Any], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    page, other = serve(fixed(BODY)), serve(fixed(b"{}"))
    scraper = Scraper(Access(page.url, bearer_token_file=str(token)))
    scraper.fetch()
    scraper.fetch(url=f"{other.url}/version")
    scraper.close()
    assert "authorization" in page.requests[0][1]
    assert "authorization" not in other.requests[0][1]


def test_a_password_with_slashes_is_not_shown() -> None:
    with pytest.raises(ValueError) as caught:
        metrics_url("http://user:PA/SSW0RD@127.0.0.1:1/metrics")
    assert "PA" not in str(caught.value)
    assert "SSW0RD" not in str(caught.value)
