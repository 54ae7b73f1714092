"""What counts as a token, and what an answer says of its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from obs_exporter.probe import answer as answers
from obs_exporter.probe import sse
from obs_exporter.probe.answer import Answer, choice_text
from obs_exporter.probe.outcome import Ending, Outcome, count_tokens, judge

WHOLE = Ending(200, True)


def event(**delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode() + b"\n\n"


def answer(*pieces: bytes) -> Answer:
    found = Answer("text/event-stream")
    for at, piece in enumerate(pieces, 1):
        found.feed(at, piece)
    found.close(len(pieces))
    return found


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"content": "", "reasoning": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"content": None, "tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
    ],
)
def test_these_are_first_tokens(delta: dict[str, object]) -> None:
    assert answer(event(role="assistant", content=""), event(**delta)).first_ns == 2


@pytest.mark.parametrize(
    "piece",
    [
        event(role="assistant"),
        event(content=""),
        event(content=None),
        event(tool_calls=[]),
        b": ping\n\n",
        event(tool_calls=[{"index": 0, "id": "a", "function": {"name": "", "arguments": ""}}]),
        b'data: {"choices": [], "usage": {"completion_tokens": 5}}\n\n',
        b"data: [DONE]\n\n",
    ],
)
def test_these_are_not(piece: bytes) -> None:
    assert answer(piece).first_ns is None


def test_completions_text_counts() -> None:
    found = answer(b'data: {"choices": [{"index": 0, "text": "a"}]}\n\n')
    assert found.events == 1


def test_gaps_and_last_token_leave_out_what_is_no_token() -> None:
    found = answer(event(content="a"), event(content=""), event(content="b"), b"data: [DONE]\n\n")
    assert (found.first_ns, found.last_ns, found.gaps_ns) == (1, 3, [2])


def test_a_first_token_that_came_with_another_is_ambiguous() -> None:
    assert answer(event(content="a") + event(content="b")).ambiguous_first
    assert not answer(event(content="a"), event(content="b") + event(content="c")).ambiguous_first
    assert not answer(event(role="assistant", content="") + event(content="a")).ambiguous_first


@pytest.mark.parametrize(
    ("pieces", "ending", "outcome"),
    [
        ([event(content="a"), b"data: [DONE]\n\n"], WHOLE, Outcome.OK),
        ([b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}\n\n'], WHOLE, Outcome.OK),
        ([event(content="a")], WHOLE, Outcome.TRUNCATED),
        ([event(content="a"), b"data: [DONE]\n\n"], Ending(200, False), Outcome.TRUNCATED),
        ([event(role="assistant"), b"data: [DONE]\n\n"], WHOLE, Outcome.EMPTY),
        ([], WHOLE, Outcome.EMPTY),
        (
            [event(content="a"), b'data: {"error": {"message": "x"}}\n\n', b"data: [DONE]\n\n"],
            WHOLE,
            Outcome.STREAM_ERROR,
        ),
        ([event(content="a"), b"event: error\ndata: gone\n\n", b"data: [DONE]\n\n"], WHOLE, Outcome.STREAM_ERROR),
        ([event(content="a"), b'event: error\ndata: {"x": 1}\n\n', b"data: [DONE]\n\n"], WHOLE, Outcome.STREAM_ERROR),
        ([event(content="a"), b"event:error\n\n", b"data: [DONE]\n\n"], WHOLE, Outcome.STREAM_ERROR),
        (
            [event(content="a"), b'data: {"object":"error","message":"x","code":500}\n\n', b"data: [DONE]\n\n"],
            WHOLE,
            Outcome.STREAM_ERROR,
        ),
        ([b"event: message\n" + event(content="a"), b"event: errors\ndata: [DONE]\n\n"], WHOLE, Outcome.OK),
        ([b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"abort"}]}\n\n'], WHOLE, Outcome.STREAM_ERROR),
        ([event(content="a"), b"data: {\n\n", b"data: [DONE]\n\n"], WHOLE, Outcome.MALFORMED),
        ([event(content="a"), b"data: 7\n\n", b"data: [DONE]\n\n"], WHOLE, Outcome.MALFORMED),
        ([event(content="a"), b"data: \xff\n\n", b"data: [DONE]\n\n"], WHOLE, Outcome.MALFORMED),
        ([event(content="a"), b'data: {"choices": [3]}\n\n', b"data: [DONE]\n\n"], WHOLE, Outcome.MALFORMED),
        ([event(content="a"), b"data: [DONE]\n\n"], Ending(503, True), Outcome.HTTP_ERROR),
        ([event(content="a"), b"data: [DONE]\n\n"], Ending(200, False, Outcome.TIMEOUT, "x"), Outcome.TIMEOUT),
    ],
)
def test_outcomes(pieces: list[bytes], ending: Ending, outcome: Outcome) -> None:
    assert judge(answer(*pieces), ending)[0] is outcome


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (b'data: {"object":"error","message":"engine died","type":"x"}\n\n', "engine died"),
        (b'event: error\ndata: {"error":{"message":"no memory"}}\n\n', "no memory"),
        (b'event: error\ndata: {"message":"no luck"}\n\n', "no luck"),
        (b"event: error\ndata: plain words\n\n", "plain words"),
    ],
)
def test_the_servers_own_words_are_the_detail(piece: bytes, words: str) -> None:
    assert judge(answer(event(content="a"), piece), WHOLE) == (Outcome.STREAM_ERROR, words)


def test_an_error_events_type_ends_with_it() -> None:
    found = answer(b"event: error\ndata: x\n\n", event(content="a"))
    assert found.events == 1


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "", "text/plain"])
def test_a_page_is_no_answer(kind: str) -> None:
    found = Answer(kind)
    found.feed(1, b"<!DOCTYPE html>\n<html><title>Welcome</title>\n\n</html>\n")
    found.close(2)
    outcome, detail = judge(found, WHOLE)
    assert outcome is Outcome.MALFORMED
    assert kind.partition(";")[0] in detail


def test_events_of_another_content_type_are_events() -> None:
    found = Answer("text/plain")
    found.feed(1, event(content="a") + b"data: [DONE]\n\n")
    found.close(2)
    assert judge(found, WHOLE)[0] is Outcome.OK


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_endless_answer_is_malformed_and_not_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 5000)
    monkeypatch.setattr(answers, "MAX_EVENT_BYTES", 5000)
    found = Answer(kind)
    for at in range(100):
        found.feed(at, b"data: " + b"x" * 94)
    found.close(100)
    assert found.endless
    assert judge(found, Ending(200, False))[0] is Outcome.MALFORMED


def test_tokens_come_from_usage_then_tokenizer_then_chunks() -> None:
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 7}}\n\n'
    found = Answer("text/event-stream", keep_text=True)
    found.feed(1, event(content="a b c"))
    assert count_tokens(found, None) == (1, "chunks")
    assert count_tokens(found, lambda text: len(text.split())) == (3, "tokenizer")
    found.feed(2, usage)
    assert count_tokens(found, lambda text: len(text.split())) == (7, "usage")


def test_a_plain_json_answer_is_one_event_at_its_end() -> None:
    found = Answer("application/json; charset=utf-8")
    body = json.dumps(
        {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 4}}
    )
    found.feed(1, body[:10].encode())
    found.feed(2, body[10:].encode())
    found.close(9)
    assert (found.streamed, found.first_ns, found.usage_tokens) == (False, 9, 4)
    assert judge(found, WHOLE)[0] is Outcome.OK


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"reasoning": "tok ", "reasoning_content": "tok "}, "tok "),  # one text under two names
        ({"reasoning": "a", "reasoning_content": "b"}, "ba"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]}, "ab"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "f{}"),
        ({"tool_calls": [{"function": {"name": "f"}}, None, {"function": 3}]}, "f"),
        ({"content": None, "role": "assistant"}, ""),
    ],
)
def test_text_in_all_its_forms(delta: dict[str, Any], text: str) -> None:
    assert choice_text({"delta": delta}) == text


def test_an_encoded_body_is_named() -> None:
    made = Answer("text/event-stream", encoding="gzip")
    made.feed(1, b"\x1f\x8b\x08")
    assert "encoded (gzip)" in str(made.malformed)
    assert Answer("text/event-stream", encoding="identity").malformed is None


def test_an_end_inside_an_event_is_named() -> None:
    cut = answer(event(content="a"), b"data: [DONE]\n")
    assert judge(cut, WHOLE) == (
        Outcome.TRUNCATED, "neither a finish reason nor [DONE]; it ends inside an event, whose empty line never came",
    )  # fmt: skip
