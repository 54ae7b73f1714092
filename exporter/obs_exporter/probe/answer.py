"""What a server's answer says: tokens, their times, and how the answer ended. Pure; no I/O.

Definitions. The first token is the first event with non-empty content, text, reasoning or tool-call text: a role-only
or empty delta, a comment and a usage chunk never count. The last token is the last such event. Times are nanoseconds of
one monotonic clock, given by the caller with each piece.
"""

from __future__ import annotations

import json
import math
from typing import Any

from obs_exporter.probe.sse import MAX_EVENT_BYTES, ErrorEvent, SSEError, SSEParser

_JSON = json.JSONDecoder()
_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal", "text")
_FAILED_FINISHES = frozenset({"error", "abort"})
"""Finish reasons with which vLLM ends a request that it gave up (`RequestStatus` in its v1/request.py)."""


def choice_text(choice: dict[str, Any]) -> str:
    """Return all text that one entry of ``choices`` carries: content, reasoning, tool-call names and arguments."""
    source = choice.get("delta") or choice.get("message") or choice
    if not isinstance(source, dict):
        return ""
    content = source.get("content")
    if len(source) == 1 and isinstance(content, str):  # what nearly every event is
        return content
    parts = [value for field in _TEXT_FIELDS if isinstance(value := source.get(field), str)]
    if isinstance(content, list):  # parts, as some servers send them
        parts += [one["text"] for one in content if isinstance(one, dict) and isinstance(one.get("text"), str)]
    if source.get("reasoning") and source.get("reasoning") == source.get("reasoning_content"):
        parts.remove(source["reasoning"])  # one text under its old and its new name
    calls = source.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    for function in (*functions, source.get("function_call")):  # the latter is what tool_calls were before
        if isinstance(function, dict):
            parts += [value for key in ("name", "arguments") if isinstance(value := function.get(key), str)]
    return "".join(parts)


class Answer:
    """One answer, built from its body piece by piece.

    ``streamed`` is false for a plain JSON body: its one "event" is the whole body. ``ambiguous_first`` is true when the
    read that brought the first token brought another one too: its time may then be the later one's. ``queue_wait_s`` is
    what the engine says of its own queue, None where it says nothing. ``endless``: an event or a plain body passed
    MAX_EVENT_BYTES: the rest is not kept, and nothing more need be read. ``ends_with_body``: this API names no end.
    """

    __slots__ = (
        "_content_type", "_held", "_json", "_keep_text", "_sse", "ambiguous_first", "done", "endless",
        "ends_with_body", "error", "events", "finish_reason", "first_ns", "first_tokens", "gaps_ns", "last_ns",
        "malformed", "payloads", "queue_wait_s", "streamed", "text", "usage_tokens",
    )  # fmt: skip

    def __init__(self, content_type: str, keep_text: bool = False, encoding: str = "") -> None:
        self.streamed = not content_type.lower().startswith("application/json")
        self._content_type = content_type
        self._sse = SSEParser()
        self._json: list[bytes] = []
        self._held = 0
        self.endless = False
        self._keep_text = keep_text
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.ambiguous_first = False
        self.events = 0
        self.payloads = 0
        self.gaps_ns: list[int] = []
        self.first_tokens: int | None = None
        self.usage_tokens: int | None = None
        self.finish_reason: str | None = None
        self.queue_wait_s: float | None = None
        self.done = False
        self.ends_with_body = False
        self.error: str | None = None
        self.malformed: str | None = None
        if encoding.strip().lower() not in ("", "identity"):
            self.malformed = f"the body is encoded ({encoding[:40]}), though the request asked for identity"
        self.text: list[str] = []

    @property
    def unfinished(self) -> bool:
        """Whether an event was begun and not ended."""
        return self.streamed and self._sse.unfinished

    def feed(self, at_ns: int, piece: bytes) -> None:
        """Take in one piece of the body that arrived at ``at_ns``."""
        if self.endless:
            return
        if not self.streamed:
            self._keep(piece)
            return
        self._held += len(piece)
        before = self.events
        had_first = self.first_ns is not None
        try:
            for data in self._sse.feed(piece):
                self._event(at_ns, data)
        except SSEError as error:
            self.malformed = self.malformed or str(error)
            self.endless = True
        if not had_first and self.events - before > 1:
            self.ambiguous_first = True

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a plain JSON body until its end."""
        self._json.append(piece)
        self._held += len(piece)
        if self._held > MAX_EVENT_BYTES:
            self._json.clear()
            self.malformed = f"a plain JSON answer passes {MAX_EVENT_BYTES} bytes"
            self.endless = True

    def close(self, at_ns: int) -> None:
        """Tell the answer that its body has ended at ``at_ns`` (a plain JSON body is read now)."""
        if not self.streamed and self._json:
            self._event(at_ns, b"".join(self._json))
            self._json.clear()
        elif self._held and not self.payloads and not self.done and not self._names_events():
            kind = self._content_type.partition(";")[0][:60] or "no content type"
            self.malformed = self.malformed or f"neither server-sent events nor JSON ({kind})"

    def _names_events(self) -> bool:
        return self._content_type.lower().startswith("text/event-stream")

    def _event(self, at_ns: int, data: bytes) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        self.payloads += 1
        if type(data) is ErrorEvent:
            self._error_event(data)
            return
        try:
            event = _parsed(str(data, "utf-8"))  # bytes would be searched for their encoding first
        except ValueError as error:  # UnicodeDecodeError is one too
            self.malformed = self.malformed or f"an event is not JSON ({error.__class__.__name__}): {data[:60]!r}"
            return
        if not isinstance(event, dict):
            self.malformed = self.malformed or f"an event is not a JSON object: {data[:60]!r}"
            return
        if event.get("error"):
            self.error = self.error or _error_text(event["error"])
            return
        if event.get("object") == "error":  # vLLM's older form: the event itself is the error
            self.error = self.error or _error_text(event)
            return
        self._usage(event.get("usage"))
        if "metrics" in event:
            self._engine_metrics(event["metrics"])
        if "text_output" in event:
            self._generated(at_ns, event)
        else:
            self._choices(at_ns, event.get("choices"))

    def _error_event(self, data: bytes) -> None:
        """Note an event of the type error, whatever it carries."""
        try:
            said = json.loads(data)
        except ValueError:
            said = data.decode("utf-8", "replace")
        if isinstance(said, dict):
            said = said.get("error") or said
        self.error = self.error or _error_text(said or "an event of the type error")

    def _usage(self, usage: object) -> None:
        if isinstance(usage, dict):
            tokens = usage.get("completion_tokens")
            if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
                self.usage_tokens = tokens

    def _engine_metrics(self, metrics: object) -> None:
        """Read the engine's own queue wait (vLLM 0.25 and newer with --enable-per-request-metrics; null for n > 1)."""
        wait = metrics.get("queue_time_ms") if isinstance(metrics, dict) else None
        if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 <= wait < math.inf:
            self.queue_wait_s = wait / 1000

    def _generated(self, at_ns: int, event: dict[str, Any]) -> None:
        """Read one response of Triton's generate extension; each tells its own tokens, and "None" until it is done.

        A backend before 24.12 tells no finish reason: there the clean end of the body is the end of the answer.
        """
        text, tokens, reason = (
            _first(event.get(name)) for name in ("text_output", "num_output_tokens", "finish_reason")
        )
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
            self.usage_tokens = (self.usage_tokens or 0) + tokens
        self.ends_with_body = reason is None
        if isinstance(reason, str) and reason not in ("", "None"):
            self._finished(reason)
        if isinstance(text, str) and text:
            self._token_event(at_ns, text)

    def _finished(self, reason: str) -> None:
        self.finish_reason = reason
        if reason in _FAILED_FINISHES:
            self.error = self.error or f"finish_reason {reason!r}"

    def _choices(self, at_ns: int, choices: object) -> None:
        if not isinstance(choices, list):
            return
        text = ""
        for choice in choices:
            if not isinstance(choice, dict):
                self.malformed = self.malformed or "an entry of choices is not a JSON object"
                continue
            text += choice_text(choice)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self._finished(reason)
        if text:
            self._token_event(at_ns, text)

    def _token_event(self, at_ns: int, text: str) -> None:
        self.events += 1
        # Kernel stamps are wall-clock times, mapped piece by piece: an adjusted clock must not run backwards here.
        at_ns = max(at_ns, self.last_ns or at_ns)
        if self.first_ns is None:
            self.first_ns = at_ns
            # With continuous usage the first event says how many tokens it brought.
            self.first_tokens = self.usage_tokens or None
        elif self.last_ns is not None:
            self.gaps_ns.append(at_ns - self.last_ns)
        self.last_ns = at_ns
        if self._keep_text:
            self.text.append(text)


def _parsed(text: str) -> object:
    """Return a JSON text's value; what ends where the value does is spared json.loads's search for blanks.

    Raises ValueError.
    """
    try:
        value, end = _JSON.raw_decode(text)
    except ValueError:
        end = -1
    return value if end == len(text) else json.loads(text)


def _first(value: object) -> object:
    """Return the first of an output's elements; Triton prints an output of one element without a list."""
    return value[0] if isinstance(value, list) and value else value


def _error_text(error: object) -> str:
    """Return a server's own error in one short line."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("type") or error
    return str(error)[:200]
