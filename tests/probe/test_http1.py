"""The response parser: framings, any split, and what is not HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.http1 import HTTPError, ResponseParser

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def chunked(pieces: list[bytes], trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x;note=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


def feed(parser: ResponseParser, stream: bytes, cuts: list[int]) -> bytes:
    body, at = b"", 0
    for cut in [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]:
        body += parser.feed(stream[at:cut])
        at = cut
    return body


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 500), max_size=12))
def test_chunks_split_anywhere(pieces: list[bytes], cuts: list[int]) -> None:
    parser = ResponseParser()
    assert feed(parser, chunked(pieces, b"X-Trailer: 1\r\n"), cuts) == b"".join(pieces)
    assert parser.done
    assert parser.keep_alive
    assert not parser.leftover


@given(st.binary(max_size=100), st.lists(st.integers(0, 200), max_size=8))
def test_content_length_split_anywhere(body: bytes, cuts: list[int]) -> None:
    parser = ResponseParser()
    assert feed(parser, HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body), cuts) == body
    assert parser.done


def test_a_body_without_framing_ends_with_the_connection() -> None:
    parser = ResponseParser()
    assert parser.feed(HEAD + b"\r\nabc") == b"abc"
    assert not parser.done
    assert parser.end()
    assert not parser.keep_alive


@pytest.mark.parametrize("stream", [HEAD, HEAD + b"Content-Length: 9\r\n\r\nabc", chunked([b"abc"])[:-5], b""])
def test_an_early_end_is_not_whole(stream: bytes) -> None:
    parser = ResponseParser()
    parser.feed(stream)
    assert not parser.end()


def test_interim_answers_are_passed_over() -> None:
    parser = ResponseParser()
    assert parser.feed(b"HTTP/1.1 100 Continue\r\n\r\n") == b""
    assert parser.status == 0
    assert parser.feed(HEAD + b"Content-Length: 1\r\n\r\na") == b"a"
    assert parser.status == 200


@pytest.mark.parametrize(
    ("head", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
    ],
)
def test_who_keeps_the_connection(head: bytes, keep_alive: bool) -> None:
    parser = ResponseParser()
    parser.feed(head + b"Content-Length: 0\r\n\r\n")
    assert parser.done
    assert parser.keep_alive is keep_alive


@pytest.mark.parametrize(
    "stream",
    [
        b"SSH-2.0-x",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 two OK\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
    ],
)
def test_what_is_not_http_is_refused(stream: bytes) -> None:
    with pytest.raises(HTTPError):
        ResponseParser().feed(stream)


def test_a_head_without_end_is_refused() -> None:
    parser = ResponseParser()
    parser.feed(HEAD + b"X: " + b"x" * 60_000)
    with pytest.raises(HTTPError, match="passes"):
        parser.feed(b"x" * 10_000)


def test_bytes_after_the_end_are_seen() -> None:
    parser = ResponseParser()
    assert parser.feed(HEAD + b"Content-Length: 1\r\n\r\nab") == b"a"
    assert parser.leftover


@given(st.binary(max_size=200))
def test_only_its_own_error_is_raised(stream: bytes) -> None:
    parser = ResponseParser()
    try:
        parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + stream)
    except HTTPError:
        return
    assert parser.status == 200
