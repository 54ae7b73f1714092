"""The event stream parser, against a second reading of the grammar and against real oddities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe import sse
from obs_exporter.probe.sse import SSEError, SSEParser

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)


def parse(stream: bytes) -> list[bytes]:
    return SSEParser().feed(stream)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\n", [b"a"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:  a\n\n", [b" a"]),
        (b": ping\n\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b"event: x\nid: 1\nretry: 3\ndata: a\n\n", [b"a"]),
        (b"database: no\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"\n\n\n", []),
    ],
)
def test_the_grammar(stream: bytes, events: list[bytes]) -> None:
    assert parse(stream) == events


@given(
    st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_any_split_gives_the_same_events(events: list[list[str]], end: str, blank: bool, cuts: list[int]) -> None:
    colon = "data: " if blank else "data:"
    # Without the optional blank, a leading one of the text itself would be taken for it.
    lines = [[text if blank else text.lstrip(" ") for text in event] for event in events]
    stream = "".join("".join(colon + text + end for text in event) + end for event in lines).encode()
    parser, got, at = SSEParser(), list[bytes](), 0
    for cut in [*sorted(cut for cut in cuts if cut < len(stream)), len(stream)]:
        got += parser.feed(stream[at:cut])
        at = cut
    assert got == ["\n".join(event).encode() for event in lines]
    assert not parser.unfinished


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_can_break_it(stream: bytes, cut: int) -> None:
    parser = SSEParser()
    assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == SSEParser().feed(stream)


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    parser = SSEParser()
    parser.feed(b"x" * 1000)
    with pytest.raises(SSEError, match="without an end"):
        parser.feed(b"x")


def test_an_event_of_endless_lines_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    parser = SSEParser()
    for _ in range(83):
        parser.feed(b"data: 12345\n")
    with pytest.raises(SSEError, match="without an end"):
        parser.feed(b"data: 12345\n")


def test_long_events_in_a_row_are_no_endless_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    parser = SSEParser()
    events = [event for _ in range(50) for event in parser.feed(b"data: " + b"x" * 600 + b"\n\ndata: y\n")]
    assert len(events) == 50


def test_it_says_when_an_event_is_not_finished() -> None:
    parser = SSEParser()
    parser.feed(b"data: a\n")
    assert parser.unfinished
    parser.feed(b"\n")
    assert not parser.unfinished
