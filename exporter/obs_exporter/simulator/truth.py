"""The exact truth of a run, to hold beside what pages and logs say."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property

from obs_exporter.simulator.clock import to_seconds
from obs_exporter.simulator.events import (
    Admitted,
    Arrived,
    CameUp,
    Dispatched,
    Ended,
    Event,
    Request,
    Scheduled,
    Stepped,
    WentDown,
)


@dataclass(slots=True)
class RequestTruth:
    """One request's life in nanoseconds; ``None`` where it did not get that far.

    ``queue_wait`` is vLLM V1's: from QUEUED in the core to first SCHEDULED; ``queue_wait_v0`` counts from the arrival
    at the engine. ``requeue_wait`` is the further waiting after preemptions, which both leave out. Seconds.
    """

    request: Request
    arrived: int
    dispatched: int | None = None
    admitted: int | None = None
    queued: int | None = None
    scheduled: int | None = None
    token_times: list[int] = field(default_factory=list)
    ended: int | None = None
    outcome: str = "open"
    preemptions: int = 0
    cached_tokens: int = 0
    requeue_wait_ns: int = 0
    queue_wait_ns: int = 0
    waiting_since: int | None = None

    @property
    def layer_wait(self) -> float | None:
        """Seconds from the arrival at the layer to the arrival at the engine."""
        return _between(self.arrived, self.admitted)

    @property
    def queue_wait(self) -> float | None:
        """Seconds in the engine core's queue before first scheduled."""
        return _between(self.queued, self.scheduled)

    @property
    def queue_wait_v0(self) -> float | None:
        """Seconds from the arrival at the engine to first scheduled."""
        return _between(self.admitted, self.scheduled)

    @property
    def requeue_wait(self) -> float:
        """Seconds in the queue again after preemptions."""
        return to_seconds(self.requeue_wait_ns)

    @property
    def ttft(self) -> float | None:
        """Seconds from the arrival at the engine to the first token."""
        return _between(self.admitted, self.token_times[0]) if self.token_times else None

    @property
    def client_ttft(self) -> float | None:
        """Seconds from the arrival at the layer to the first token."""
        return _between(self.arrived, self.token_times[0]) if self.token_times else None

    @property
    def e2e(self) -> float | None:
        """Seconds from the arrival at the engine to the last token of a complete answer."""
        return _between(self.admitted, self.ended) if self.outcome == "ok" else None

    @property
    def client_e2e(self) -> float | None:
        """Seconds from the arrival at the layer to the last token of a complete answer."""
        return _between(self.arrived, self.ended) if self.outcome == "ok" else None

    @property
    def inter_token_latencies(self) -> list[float]:
        """Seconds between each two tokens."""
        return [to_seconds(b - a) for a, b in zip(self.token_times, self.token_times[1:], strict=False)]


def _between(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else to_seconds(end - start)


@dataclass(frozen=True)
class Truth:
    """All that happened up to ``t`` seconds.

    The series are right-continuous steps of (nanoseconds, value from then on): requests in the core's queue, in its
    running batch, KV blocks in use, and requests that the layer holds back before the engine.
    """

    t: float
    requests: tuple[RequestTruth, ...]
    waiting: tuple[tuple[int, int], ...]
    running: tuple[tuple[int, int], ...]
    used_blocks: tuple[tuple[int, int], ...]
    layer_waiting: tuple[tuple[int, int], ...]
    usable_blocks: int
    preemptions: int
    t_ns: int

    @cached_property
    def finished(self) -> tuple[RequestTruth, ...]:
        """The requests that were answered completely, in order of arrival."""
        return tuple(request for request in self.requests if request.outcome == "ok")

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests that had their first token."""
        return sum(request.request.prompt_tokens for request in self.requests if request.token_times)

    @property
    def output_tokens(self) -> int:
        """Output tokens, of incomplete answers too."""
        return sum(len(request.token_times) for request in self.requests)

    @property
    def kv_usage(self) -> float:
        """Share of the usable KV blocks in use at ``t``."""
        return self.used_blocks[-1][1] / self.usable_blocks

    def waiting_seconds(self) -> float:
        """The integral of the requests waiting in the core over time, re-queued ones included."""
        return to_seconds(integral(self.waiting, self.t_ns))

    def layer_waiting_seconds(self) -> float:
        """The integral of the requests held back by the layer over time."""
        return to_seconds(integral(self.layer_waiting, self.t_ns))

    def kv_usage_seconds(self) -> float:
        """The integral of the KV usage (0 to 1) over time."""
        return to_seconds(integral(self.used_blocks, self.t_ns)) / self.usable_blocks

    def mean_queue_wait(self) -> float | None:
        """Mean ``queue_wait`` of the finished requests, in seconds; None if there is none."""
        waits = [request.queue_wait for request in self.finished if request.queue_wait is not None]
        return sum(waits) / len(waits) if waits else None


def integral(series: tuple[tuple[int, int], ...] | list[tuple[int, int]], until: int) -> int:
    """The integral of a step series up to ``until``, in value times nanoseconds: exact."""
    total = 0
    for (start, value), (end, _) in zip(series, (*series[1:], (until, 0)), strict=True):
        total += value * (min(end, until) - min(start, until))
    return total


def value_at(series: tuple[tuple[int, int], ...], t: int) -> int:
    """The value of a step series at ``t``."""
    return series[max(0, bisect_right(series, t, key=lambda step: step[0]) - 1)][1]


class Recorder:
    """Builds the truth from events."""

    def __init__(self, usable_blocks: int) -> None:
        self.requests: dict[int, RequestTruth] = {}
        self.waiting: list[tuple[int, int]] = [(0, 0)]
        self.running: list[tuple[int, int]] = [(0, 0)]
        self.used_blocks: list[tuple[int, int]] = [(0, 0)]
        self.layer_waiting: list[tuple[int, int]] = [(0, 0)]
        self.preemptions = 0
        self._usable_blocks = usable_blocks

    def at(self, t: int) -> Truth:
        """The truth so far, for time ``t``."""
        requests = tuple(replace(one, token_times=one.token_times[:]) for one in self.requests.values())
        return Truth(
            t=to_seconds(t),
            requests=requests,
            waiting=tuple(self.waiting),
            running=tuple(self.running),
            used_blocks=tuple(self.used_blocks),
            layer_waiting=tuple(self.layer_waiting),
            usable_blocks=self._usable_blocks,
            preemptions=self.preemptions,
            t_ns=t,
        )

    def fold(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Arrived():
                self.requests[event.request.id] = RequestTruth(event.request, event.t)
                self._layer(event.t, +1)
            case Dispatched():
                self.requests[event.id].dispatched = event.t
            case Admitted():
                self.requests[event.id].admitted = event.t
                self._layer(event.t, -1)
            case Scheduled():
                self._scheduled(event)
            case Stepped():
                for request_id in event.tokens:
                    if self.requests[request_id].outcome == "open":
                        self.requests[request_id].token_times.append(event.t)
                self._counts(event)
            case Ended():
                request = self.requests[event.id]
                request.ended, request.outcome = event.t, event.outcome
                if request.admitted is None:
                    self._layer(event.t, -1)
            case WentDown():
                for request in self.requests.values():
                    self._leave_queue(request, event.t)
                for series in (self.waiting, self.running, self.used_blocks):
                    _step(series, event.t, 0)
            case CameUp():
                pass

    def _scheduled(self, event: Scheduled) -> None:
        for request_id in event.queued:
            self.requests[request_id].queued = self.requests[request_id].waiting_since = event.t
        for request_id, hit in zip(event.started, event.hits, strict=True):
            request = self.requests[request_id]
            request.scheduled, request.cached_tokens = event.t, hit
        for request_id in (*event.started, *event.resumed, *event.aborted):
            self._leave_queue(self.requests[request_id], event.t)
        for request_id in event.preempted:
            request = self.requests[request_id]
            request.preemptions += 1
            request.waiting_since = event.t
        self.preemptions += len(event.preempted)
        self._counts(event)

    def _leave_queue(self, request: RequestTruth, t: int) -> None:
        if request.waiting_since is None:
            return
        if request.preemptions:
            request.requeue_wait_ns += t - request.waiting_since
        else:
            request.queue_wait_ns += t - request.waiting_since
        request.waiting_since = None

    def _counts(self, event: Scheduled | Stepped) -> None:
        _step(self.waiting, event.t, event.waiting)
        _step(self.running, event.t, event.running)
        _step(self.used_blocks, event.t, event.used_blocks)

    def _layer(self, t: int, change: int) -> None:
        _step(self.layer_waiting, t, self.layer_waiting[-1][1] + change)


def _step(series: list[tuple[int, int]], t: int, value: int) -> None:
    if series[-1][0] == t:
        series[-1] = (t, value)
    elif series[-1][1] != value:
        series.append((t, value))
