"""What the truth server can do: each behaviour is a script of writes with their times. Pure; no I/O.

The name of the model in a request chooses the behaviour, so one server plays them all. Offsets are seconds from the
moment the server has read the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Profile:
    """The true times of a healthy answer: first token at ``ttft_s``, then one event each ``itl_s``."""

    ttft_s: float = 0.05
    itl_s: float = 0.01
    tokens: int = 32
    tokens_per_event: int = 1

    @property
    def e2e_s(self) -> float:
        """The true end of the answer, which comes with its last token."""
        return self.ttft_s + (self.events - 1) * self.itl_s

    @property
    def events(self) -> int:
        """How many token events an answer has."""
        return -(-self.tokens // self.tokens_per_event)


@dataclass(frozen=True, slots=True)
class Script:
    """Writes in order as (offset, bytes), and what follows the last: keep, close, reset or hang."""

    writes: tuple[tuple[float, bytes], ...]
    end: str = "keep"
    tokens: int = 0


HEAD_SSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
    b"Server: truth\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    """Return ``data`` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(delta: dict[str, Any] | None, finish: str | None = None, usage: int | None = None) -> bytes:
    """Return one chat completion chunk as an event; with no delta, the usage chunk."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    body: dict[str, Any] = {
        "id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1700000000, "model": "truth",
        "choices": choices,
    }  # fmt: skip
    if usage is not None:
        body["usage"] = {"prompt_tokens": 40, "total_tokens": 40 + usage, "completion_tokens": usage}
    return b"data: " + _json(body) + b"\n\n"


DONE = b"data: [DONE]\n\n"
ROLE = event({"role": "assistant", "content": ""})

Event = tuple[float, bytes]


def _events(profile: Profile, usage: bool = True, continuous: bool = False, role_first: bool = False) -> list[Event]:
    """Return the events of a healthy answer with their times."""
    events: list[Event] = [(0.0 if role_first else profile.ttft_s, ROLE)]
    sent = 0
    for number in range(profile.events):
        count = min(profile.tokens_per_event, profile.tokens - sent)
        sent += count
        finish = "stop" if sent == profile.tokens else None
        at = profile.ttft_s + number * profile.itl_s
        events.append((at, event({"content": " wörd" * count}, finish, sent if continuous else None)))
    if usage:
        events.append((profile.e2e_s, event(None, usage=profile.tokens)))
    events.append((profile.e2e_s, DONE))
    return events


def _script(events: list[Event], tokens: int, finished: bool = True, end: str = "keep") -> Script:
    """Return the script of an SSE answer: events of the same time go out in one write, each in a chunk of its own."""
    writes: list[tuple[float, bytes]] = []
    for at, data in events:
        if writes and writes[-1][0] == at:
            writes[-1] = (at, writes[-1][1] + chunk(data))
        else:
            writes.append((at, chunk(data)))
    if not writes:
        writes = [(0.0, b"")]
    writes[0] = (writes[0][0], HEAD_SSE + writes[0][1])
    if finished:
        writes[-1] = (writes[-1][0], writes[-1][1] + LAST_CHUNK)
    return Script(tuple(writes), end, tokens)


def _error(profile: Profile) -> Script:
    cut = _events(profile)[: min(10, profile.events) + 1]
    cut.append(
        (cut[-1][0], b'data: {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}\n\n')
    )
    cut.append((cut[-1][0], DONE))
    return _script(cut, len(cut) - 3)


def _truncated(profile: Profile) -> Script:
    cut = _events(profile)[: max(2, profile.events // 2) + 1]
    return _script(cut[:-1], len(cut) - 2, finished=False, end="close")


def _quiet_end(profile: Profile) -> Script:
    """A clean end of the body after half the tokens: no finish reason, no [DONE]."""
    cut = _events(profile)[: max(2, profile.events // 2) + 1]
    return _script(cut[:-1], len(cut) - 2)


def _stall(profile: Profile) -> Script:
    return _script(_events(profile)[:2], 1, finished=False, end="hang")


def _empty(profile: Profile) -> Script:
    return _script([(profile.ttft_s, ROLE), (profile.ttft_s, event({}, "stop")), (profile.ttft_s, DONE)], 0)


def _malformed(profile: Profile) -> Script:
    events = _events(profile)
    events[2] = (events[2][0], b'data: {"choices": [{"delta": {"content": "x"\n\n')
    return _script(events, profile.tokens)


def _plain(status: bytes, body: bytes, at: float, tokens: int = 0) -> Script:
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    return Script(((at, head + body),), "keep", tokens)


def _not_streamed(profile: Profile) -> Script:
    message = {"role": "assistant", "content": " word" * profile.tokens}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"completion_tokens": profile.tokens},
    }
    return _plain(b"200 OK", _json(body), profile.e2e_s, profile.tokens)


def _mapped(change: Callable[[bytes], bytes]) -> Callable[[Profile], Script]:
    """Return a behaviour that writes every healthy event in another way."""

    def behave(profile: Profile) -> Script:
        return _script([(at, change(data)) for at, data in _events(profile)], profile.tokens)

    return behave


def _two_data_lines(data: bytes) -> bytes:
    return data.replace(b',"choices"', b'\ndata: ,"choices"')


def _split(profile: Profile) -> Script:
    """Every byte in a chunk of its own, inside characters too; each event in one write, so that its time is one."""
    whole = _script(_events(profile), profile.tokens)
    writes = []
    for at, data in _events(profile):
        writes.append((at, b"".join(chunk(data[i : i + 1]) for i in range(len(data)))))
    writes[0] = (writes[0][0], HEAD_SSE + writes[0][1])
    writes[-1] = (writes[-1][0], writes[-1][1] + LAST_CHUNK)
    return replace(whole, writes=tuple(writes))


def _no_done(profile: Profile) -> Script:
    return _script(_events(profile)[:-1], profile.tokens)


def _field(name: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(b'"content":" w', b'"%b":" w' % name.encode())


def _generated(profile: Profile, additional: bool = True) -> Script:
    """Triton's generate_stream: no [DONE]; finish reason and token counts where the backend is new enough."""
    events: list[Event] = []
    for number in range(profile.events):
        count = min(profile.tokens_per_event, profile.tokens - number * profile.tokens_per_event)
        body: dict[str, Any] = {"model_name": "truth", "model_version": "1", "text_output": " wörd" * count}
        if additional:
            last = number == profile.events - 1
            body |= {"finish_reason": "stop" if last else "None", "num_output_tokens": count}
        events.append((profile.ttft_s + number * profile.itl_s, b"data: " + _json(body) + b"\n\n"))
    return _script(events, profile.tokens)


def _generated_whole(profile: Profile) -> Script:
    body = {"model_name": "truth", "text_output": " word" * profile.tokens, "finish_reason": "length"}
    return _plain(b"200 OK", _json(body | {"num_output_tokens": profile.tokens}), profile.e2e_s, profile.tokens)


def _generate_error(profile: Profile) -> Script:
    whole = _generated(profile)
    return replace(
        whole,
        writes=(*whole.writes[:2], (whole.writes[2][0], chunk(b'data: {"error":"engine died"}\n\n') + LAST_CHUNK)),
    )


def _until_close(profile: Profile) -> Script:
    """A body without framing: it ends with the connection (HTTP/1.0 proxies)."""
    writes = list(_events(profile))
    writes[0] = (writes[0][0], b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + writes[0][1])
    return Script(tuple(writes), "close", profile.tokens)


BEHAVIOURS: dict[str, Callable[[Profile], Script]] = {
    "healthy": lambda p: _script(_events(p), p.tokens),
    "role-first": lambda p: _script(_events(p, role_first=True), p.tokens),
    "no-usage": lambda p: _script(_events(p, usage=False), p.tokens),
    "continuous-usage": lambda p: _script(_events(p, continuous=True), p.tokens),
    "four-per-event": lambda p: _script(_events(replace(p, tokens_per_event=4)), p.tokens),
    "four-continuous": lambda p: _script(_events(replace(p, tokens_per_event=4), continuous=True), p.tokens),
    "four-no-usage": lambda p: _script(_events(replace(p, tokens_per_event=4), usage=False), p.tokens),
    "crlf": _mapped(lambda data: data.replace(b"\n", b"\r\n")),
    "cr": _mapped(lambda data: data.replace(b"\n", b"\r")),
    "no-space": _mapped(lambda data: data.replace(b"data: ", b"data:")),
    "comments": _mapped(lambda data: b": ping\n\n" + b"event: message\nid: 7\nretry: 10\n" + data),
    "two-data-lines": _mapped(_two_data_lines),
    "line-separator": _mapped(lambda data: data.replace("wörd".encode(), "w\u2028\u0085rd".encode())),
    "split": _split,
    "until-close": _until_close,
    "triton-generate": _generated,
    "triton-generate-old": lambda p: _generated(p, additional=False),
    "triton-generate-plain": _generated_whole,
    "triton-generate-error": _generate_error,
    "no-done": _no_done,
    "reasoning": _mapped(_field("reasoning_content")),
    "not-streamed": _not_streamed,
    "error-event": _error,
    "truncated": _truncated,
    "quiet-end": _quiet_end,
    "stall": _stall,
    "empty": _empty,
    "malformed-json": _malformed,
    "malformed-http": lambda p: Script(((p.ttft_s, b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),), "close"),
    "http-500": lambda p: _plain(b"500 Internal Server Error", b'{"error":{"message":"no"}}', p.ttft_s),
    "reset": lambda p: Script(((p.ttft_s, b""),), "reset"),
}

FAULTS: tuple[str, ...] = (
    "empty", "error-event", "http-500", "malformed-http", "malformed-json", "quiet-end", "reset", "stall",
    "triton-generate-error", "truncated",
)  # fmt: skip
"""The behaviours that no probe may call a success."""
