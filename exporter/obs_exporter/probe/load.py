"""How load is put on: closed loop (so many slots) and open loop (so many a second), and one request's record.

Closed: every slot sends its next request as soon as its last has ended. Open: arrival times are drawn before (Poisson)
and kept whatever the server does; a request that leaves late is measured from its scheduled time, so a slow server
cannot slow its own questions (no coordinated omission).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.exchange import Exchange
from obs_exporter.probe.outcome import SLO, Outcome, Record, count_tokens, judge, meets
from obs_exporter.probe.redact import Redactor
from obs_exporter.probe.request import Endpoint

_NAP_S = 0.5
"""The longest wait in one go: stop requests and progress are looked at this often."""


@dataclass(frozen=True, slots=True)
class Level:
    """One load on one scenario: ``concurrency`` slots (closed) or ``rate`` requests a second (open).

    It ends after ``requests`` were sent or, when that is None, after ``duration_s``.
    """

    scenario: str
    concurrency: int | None
    rate: float | None
    requests: int | None
    duration_s: float | None

    @property
    def name(self) -> str:
        """The level in words, for people."""
        load = f"concurrency {self.concurrency}" if self.concurrency is not None else f"rate {self.rate:g}/s"
        return f"{self.scenario}, {load}"


@dataclass(frozen=True, slots=True)
class Ticket:
    """What is known of a request before it is sent; ``scheduled_ns`` only in an open loop."""

    level: Level
    repeat: int
    index: int
    id: str
    scheduled_ns: int | None = None


class Stop:
    """Whether the run was asked to stop."""

    def __init__(self) -> None:
        self.requested = False


Build = Callable[[int, int | None], tuple[bytes, Ticket]]
"""(index, scheduled time or None) -> the request's bytes and its ticket."""


class Slots:
    """Counts the slots that requests have left, for a closed loop; give ``free`` to the client as on_free."""

    def __init__(self) -> None:
        self.left = 0

    def free(self) -> None:
        """Note that one request has ended."""
        self.left += 1


def run_closed(
    client: Client, slots: Slots, build: Build, level: Level, concurrency: int, indexes: Iterator[int], stop: Stop
) -> None:
    """Keep ``concurrency`` requests in flight until the indexes, the duration or the patience of the user ends."""
    slots.left = concurrency
    end_ns = (
        time.perf_counter_ns() + int(level.duration_s * 1e9) if level.requests is None and level.duration_s else None
    )
    more = True
    while more or client.busy:
        # No more than are free now: slots that come free meanwhile wait for the poll, which also reads and expires.
        for _ in range(slots.left if more else 0):
            index = next(indexes, None)
            if index is None or stop.requested or (end_ns is not None and time.perf_counter_ns() >= end_ns):
                more = False
                break
            slots.left -= 1
            client.start(*build(index, None))
            client.attend()
        if stop.requested:
            client.cancel()
        client.poll(0 if more and slots.left else _NAP_S)


def run_one(
    endpoint: Endpoint, options: ClientOptions, maker: RecordMaker, payload: bytes, ticket: Ticket, stop: Stop
) -> Record:
    """Send one request alone, on a connection of its own; return its record, that of a cancelled one when stopped.

    Raises TransportError on an unknown host, and OSError when there is no file descriptor left.
    """
    records: list[Record] = []
    client = Client(endpoint, options, lambda exchange: records.append(maker.make(exchange)))
    try:
        client.start(payload, ticket)
        while client.busy:
            if stop.requested:
                client.cancel()
            client.poll(_NAP_S)
    finally:
        client.close()
    return records[0]


def arrivals(rate: float, seed: str) -> Iterator[float]:
    """Yield the times in seconds of a Poisson process of ``rate`` events a second, from 0 on."""
    rng = random.Random(seed)  # noqa: S311 - a reproducible schedule, not a secret
    at = 0.0
    while True:
        at += rng.expovariate(rate)
        yield at


def run_open(
    client: Client, build: Build, level: Level, times: Iterator[float], indexes: Iterator[int], stop: Stop
) -> None:
    """Start a request at each of ``times`` (seconds from now), however many are in flight."""
    start_ns = time.perf_counter_ns()
    due: tuple[int, int] | None = _next_arrival(start_ns, level, times, indexes)
    while due is not None or client.busy:
        now = time.perf_counter_ns()
        while due is not None and due[1] <= now and not stop.requested:
            client.start(*build(due[0], due[1]))
            due = _next_arrival(start_ns, level, times, indexes)
        if stop.requested:
            client.cancel()
            due = None
        wait = _NAP_S if due is None else min(_NAP_S, max(0, due[1] - time.perf_counter_ns()) / 1e9)
        client.poll(wait)


def _next_arrival(
    start_ns: int, level: Level, times: Iterator[float], indexes: Iterator[int]
) -> tuple[int, int] | None:
    at = next(times, None)
    index = next(indexes, None)
    if (
        at is None
        or index is None
        or (level.requests is None and level.duration_s is not None and at > level.duration_s)
    ):
        return None
    return index, start_ns + int(at * 1e9)


class RecordMaker:
    """Turns an exchange that has ended into its record; what the server's own words repeat of a secret is hidden."""

    def __init__(
        self, slo: SLO, tokenizer: Callable[[str], int] | None = None, redactor: Redactor | None = None
    ) -> None:
        self._slo = slo
        self._tokenizer = tokenizer
        self._redactor = redactor or Redactor()

    def make(self, exchange: Exchange) -> Record:
        """Return the record. Raises ValueError for an exchange that has not ended."""
        ticket, answer, ending = exchange.tag, exchange.answer, exchange.ending
        if not isinstance(ticket, Ticket) or answer is None or ending is None:
            raise ValueError("the exchange has not ended")
        outcome, detail = judge(answer, ending)
        sent = exchange.sent_ns
        tokens, source = count_tokens(answer, self._tokenizer)
        late = _seconds(ticket.scheduled_ns, sent if sent is not None else exchange.end_ns)
        record = Record(
            scenario=ticket.level.scenario, concurrency=ticket.level.concurrency, rate=ticket.level.rate,
            repeat=ticket.repeat, index=ticket.index, id=ticket.id, outcome=outcome, good=False,
            started_at=round(exchange.started_at or time.time(), 6), status=ending.status,
            detail=self._redactor.clean(detail)[:200],
            late_s=late, own_late_s=_seconds(ticket.scheduled_ns, exchange.begun_ns),
            connect_s=_seconds(exchange.begun_ns, exchange.connected_ns),
            ttft_s=_seconds(sent, answer.first_ns), last_s=_seconds(sent, answer.last_ns),
            e2e_s=_seconds(sent, exchange.end_ns), tokens=tokens, token_source=source,
            first_tokens=answer.first_tokens or 1, events=answer.events, streamed=answer.streamed,
            ambiguous=answer.ambiguous_first, finish_reason=self._redactor.clean((answer.finish_reason or "")[:200]),
            queue_wait_s=answer.queue_wait_s, lag_s=round(exchange.lag_ns / 1e9, 9), redone=exchange.redone,
            gaps_us=tuple(gap // 1000 for gap in answer.gaps_ns),
        )  # fmt: skip
        good = outcome is Outcome.OK and meets(self._slo, record.ttft_s, record.e2e_s, record.tpot_s, late or 0.0)
        return replace(record, good=True) if good else record


def _seconds(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9
