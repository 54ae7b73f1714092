"""One finished request as a value, and how it is judged: its outcome, its token count, good or not. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from obs_exporter.probe.answer import Answer


class Outcome(StrEnum):
    """How a request ended. Exactly one applies; everything but OK is a miss and never enters a latency histogram."""

    OK = "ok"
    HTTP_ERROR = "http_error"
    CONNECT = "connect"
    TIMEOUT = "timeout"
    STREAM_ERROR = "stream_error"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    MALFORMED = "malformed"
    CANCELLED = "cancelled"


MEANINGS: dict[Outcome, str] = {
    Outcome.OK: "HTTP 200, at least one token, a finish reason or [DONE], no error event",
    Outcome.HTTP_ERROR: "an HTTP status other than 200",
    Outcome.CONNECT: "refused, unreachable, TLS failure, or closed before any byte of an answer",
    Outcome.TIMEOUT: "not finished within the timeout",
    Outcome.STREAM_ERROR: "an error event, or a finish reason that says error or abort",
    Outcome.TRUNCATED: "the body stopped early, or ended with neither a finish reason nor [DONE]",
    Outcome.EMPTY: "a whole answer without a single token",
    Outcome.MALFORMED: "not HTTP, not server-sent events, or not the JSON of the API",
    Outcome.CANCELLED: "cut by the probe's own stop: in no denominator, only counted",
}

FAILURES: tuple[Outcome, ...] = tuple(o for o in Outcome if o not in (Outcome.OK, Outcome.CANCELLED))


@dataclass(frozen=True, slots=True)
class SLO:
    """The limits of a good request, in seconds; ``tpot_s`` is optional."""

    ttft_s: float = 0.5
    e2e_s: float = 10.0
    tpot_s: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One finished request: a line of the requests file. Times are seconds; None means "not observed".

    ``started_at`` is wall-clock time (Unix seconds) of the send. ``ttft_s`` and ``e2e_s`` count from the moment the
    request's bytes were handed to the kernel; in an open loop ``late_s`` is how long after its scheduled time that was
    (``own_late_s``: how long after it the probe began; the rest is the connection's), and the SLOs are judged from the
    schedule. ``gaps_us`` are the times between token events in microseconds.
    ``lag_s`` is the longest time between a piece's arrival in the kernel and its read. ``queue_wait_s`` is the engine's
    own queue wait where the answer tells it. ``redone``: the server closed a kept connection before any byte
    of an answer, and the request was sent again on a new one; the times are those of the second send.
    """

    scenario: str
    concurrency: int | None
    rate: float | None
    repeat: int
    index: int
    id: str
    outcome: Outcome
    good: bool
    started_at: float
    detail: str = ""
    status: int = 0
    late_s: float | None = None
    own_late_s: float | None = None
    connect_s: float | None = None
    ttft_s: float | None = None
    last_s: float | None = None
    e2e_s: float | None = None
    tokens: int = 0
    token_source: str = ""
    first_tokens: int = 1
    events: int = 0
    streamed: bool = True
    ambiguous: bool = False
    finish_reason: str = ""
    lag_s: float = 0.0
    queue_wait_s: float | None = None
    redone: bool = False
    gaps_us: tuple[int, ...] = ()

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first event (TPOT), or None for fewer tokens than that takes."""
        after = self.tokens - self.first_tokens
        if self.ttft_s is None or self.last_s is None or not self.streamed or after < 1 or self.events < 2:
            return None
        return (self.last_s - self.ttft_s) / after

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        found = {name: getattr(self, name) for name in _FIELDS}  # dataclasses.asdict would copy every gap by itself
        return found | {"outcome": str(self.outcome), "gaps_us": list(self.gaps_us)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """Build a record from its JSON values; those of a newer version are left out. Raises ValueError."""
        load = {name: data.get(name) for name in ("concurrency", "rate")}
        own = load | {name: data[name] for name in _FIELDS if data.get(name) is not None}
        try:
            return cls(**own | {"outcome": Outcome(data["outcome"]), "gaps_us": tuple(data.get("gaps_us") or ())})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a request record: {error}") from None


_FIELDS = tuple(field.name for field in fields(Record))


@dataclass(frozen=True, slots=True)
class Ending:
    """How the transport ended a request.

    ``failure`` is CONNECT, TIMEOUT, MALFORMED or CANCELLED when the transport itself failed, else None; ``whole`` says
    whether the body ended by its own framing.
    """

    status: int
    whole: bool
    failure: Outcome | None = None
    detail: str = ""


def judge(answer: Answer, ending: Ending) -> tuple[Outcome, str]:
    """Return the outcome of one request and a short reason ("" for OK)."""
    if ending.failure is not None:
        return ending.failure, ending.detail
    if ending.status != 200:
        said = f": {answer.error}" if answer.error else ""
        return Outcome.HTTP_ERROR, f"HTTP {ending.status}{said}" if ending.status else "no status"
    if answer.error is not None:
        return Outcome.STREAM_ERROR, answer.error
    if answer.malformed is not None:
        return Outcome.MALFORMED, answer.malformed
    if not ending.whole:
        return Outcome.TRUNCATED, ending.detail or "the connection ended inside the body"
    ended = answer.done or answer.finish_reason is not None or answer.ends_with_body
    if not answer.events and (ended or not answer.payloads):
        return Outcome.EMPTY, "no token in the answer"
    if not ended:
        cut = "; it ends inside an event, whose empty line never came" if answer.unfinished else ""
        return Outcome.TRUNCATED, f"neither a finish reason nor [DONE]{cut}"
    return Outcome.OK, ""


def count_tokens(answer: Answer, tokenizer: Callable[[str], int] | None) -> tuple[int, str]:
    """Return the output tokens and where the number comes from: usage, tokenizer or chunks."""
    if answer.usage_tokens:
        return answer.usage_tokens, "usage"
    if tokenizer is not None and answer.text:
        return tokenizer("".join(answer.text)), "tokenizer"
    return answer.events, "chunks" if answer.events else ""


def meets(slo: SLO, ttft_s: float | None, e2e_s: float | None, tpot_s: float | None, late_s: float) -> bool:
    """Return whether the latencies meet every limit; ``late_s`` is added to TTFT and E2E (open loop)."""
    if ttft_s is None or e2e_s is None or ttft_s + late_s > slo.ttft_s or e2e_s + late_s > slo.e2e_s:
        return False
    return slo.tpot_s is None or tpot_s is None or tpot_s <= slo.tpot_s
