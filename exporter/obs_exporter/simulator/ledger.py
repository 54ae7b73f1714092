"""What the engine and the layer have counted and observed, in the process that counts it. Faces only print it.

A measure is a name such as ``ttft`` or ``success:length``. The engine books its numbers when a step ends, as vLLM
does: without a step, no number moves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from obs_exporter.simulator.clock import NS
from obs_exporter.simulator.events import (
    Admitted,
    Ended,
    Event,
    Request,
    Scheduled,
    Stepped,
)


class Buckets:
    """A histogram: how many observations fell into each bucket, and their sum."""

    __slots__ = ("counts", "edges", "sum")

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.counts = [0] * (len(edges) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Book one observation; an edge belongs to the bucket that it closes."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    @property
    def midpoint_sum(self) -> float:
        """The sum as Ray's OpenTelemetry path rebuilds it.

        Every observation is replayed at its bucket's midpoint: the first at half its edge, the last at twice its lower
        edge (Ray 2.52 and later, reporter_agent).
        """
        edges = self.edges
        middles = [edges[0] / 2, *((a + b) / 2 for a, b in pairwise(edges)), 2 * edges[-1]]
        return sum(count * middle for count, middle in zip(self.counts, middles, strict=True))


Edges = Mapping[str, tuple[tuple[float, ...], ...]]
"""For each observed measure, the bucket edges of all histograms that are kept of it."""


class Ledger:
    """Counters, gauges and histograms of one process since ``started``."""

    def __init__(self, edges: Edges, started: int) -> None:
        self.started = started
        self.moved: int | None = None
        """When its gauges were last set."""
        self.counters: defaultdict[str, float] = defaultdict(float)
        self.gauges: dict[str, float] = {}
        self.histograms = {(name, one): Buckets(one) for name, several in edges.items() for one in several}
        self._by_measure = {name: [self.histograms[name, one] for one in several] for name, several in edges.items()}

    def observe(self, measure: str, value: float) -> None:
        """Book one observation in every histogram of that measure."""
        for histogram in self._by_measure.get(measure, ()):
            histogram.observe(value)


@dataclass(slots=True)
class _Life:
    """What the engine remembers of a request that is inside."""

    request: Request
    admitted: int
    queued: int = 0
    scheduled: int = 0
    first: int = 0
    last: int = 0
    produced: int = 0
    preemptions: int = 0
    hit: int = 0
    flushed: int = 0


class EngineLedger(Ledger):
    """The numbers of one engine process, from its start to its end."""

    def __init__(self, edges: Edges, usable_blocks: int, started: int, flush: int = 0) -> None:
        super().__init__(edges, started)
        self.gauges = {"running": 0, "waiting": 0, "waiting:capacity": 0, "kv_usage": 0, "pending": 0, "streaming": 0}
        self._flush = flush
        self._usable_blocks = usable_blocks
        self._inside: dict[int, _Life] = {}
        self._unbooked: defaultdict[str, float] = defaultdict(float)

    def admit(self, event: Admitted, request: Request) -> None:
        """The front end got a request."""
        self._inside[event.id] = _Life(request, event.t)
        self.counters["submitted"] += 1
        self.gauges["pending"] += 1

    def fold(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Scheduled():
                self._scheduled(event)
            case Stepped():
                self._stepped(event)
            case Ended():
                life = self._inside.pop(event.id, None)
                if life is not None:
                    self.counters[f"cut:{event.outcome}"] += 1
                    self.gauges["streaming" if life.produced else "pending"] -= 1

    def _scheduled(self, event: Scheduled) -> None:
        inside = self._inside
        for request_id in event.queued:
            if request_id in inside:
                inside[request_id].queued = event.t
        for request_id, hit in zip(event.started, event.hits, strict=True):
            if request_id in inside:
                life = inside[request_id]
                life.scheduled, life.hit = event.t, hit
                self._unbooked["prefix_queries"] += life.request.prompt_tokens
                self._unbooked["prefix_hits"] += hit
                self._unbooked["cached_by:device"] += hit
        for request_id in event.preempted:
            self._unbooked["preemptions"] += 1
            if request_id in inside:
                inside[request_id].preemptions += 1

    def _stepped(self, event: Stepped) -> None:
        counters = self.counters
        for measure, value in self._unbooked.items():
            counters[measure] += value
        self._unbooked.clear()
        tokens = prompt_tokens = 0
        for request_id in event.tokens:
            life = self._inside.get(request_id)
            if life is not None:
                tokens += 1
                prompt_tokens += self._token(life, event.t)
        counters["generation_tokens"] += tokens
        counters["prompt_tokens"] += prompt_tokens
        self.observe("iteration_tokens", prompt_tokens + tokens)
        for request_id in event.finished:
            life = self._inside.pop(request_id, None)
            if life is not None:
                self._finished(life, event.t)
        self.moved = event.t
        usage = event.used_blocks / self._usable_blocks
        self.gauges.update(running=event.running, waiting=event.waiting, kv_usage=usage)
        self.gauges["waiting:capacity"] = event.waiting

    def _token(self, life: _Life, t: int) -> int:
        """Book one token; return the prompt tokens that it completes."""
        life.produced += 1
        last, life.last = life.last, t
        if self._flush:
            self._burst(life, t)
        if life.produced > 1:
            self.observe("itl", (t - last) / NS)
            return 0
        life.first = t
        self.gauges["pending"] -= 1
        self.gauges["streaming"] += 1
        self.counters["started"] += 1
        self.observe("ttft", (t - life.admitted) / NS)
        self.counters["prompt_source:local_cache_hit"] += life.hit
        self.counters["prompt_source:local_compute"] += life.request.prompt_tokens - life.hit
        return life.request.prompt_tokens

    def _burst(self, life: _Life, t: int) -> None:
        """Book the burst in which a token leaves the layer: bursts come at whole periods after the request."""
        burst = life.admitted - (life.admitted - t) // self._flush * self._flush
        if life.produced == 1:
            self.observe("first_burst_ms", (burst - life.admitted) / NS * 1000)
        elif burst != life.flushed:
            self.observe("burst_ms", (burst - life.flushed) / NS * 1000)
        life.flushed = burst

    def _finished(self, life: _Life, t: int) -> None:
        request, produced = life.request, life.produced
        self.counters["finished"] += 1
        self.gauges["streaming"] -= 1
        if self._flush:
            self.observe("stream_ms", (life.flushed - life.admitted) / NS * 1000)
        self.counters[f"success:{request.finish_reason}"] += 1
        decode = (life.last - life.first) / NS
        for measure, value in (
            ("e2e", (t - life.admitted) / NS),
            ("queue", (life.scheduled - life.queued) / NS),
            ("queue_v0", (life.scheduled - life.admitted) / NS),
            ("prefill", (life.first - life.scheduled) / NS),
            ("decode", decode),
            ("inference", (life.last - life.scheduled) / NS),
            ("tpot", decode / (produced - 1) if produced > 1 else 0.0),
            ("prompt_len", request.prompt_tokens),
            ("output_len", produced),
            ("max_tokens", request.max_tokens),
            ("n", 1),
            ("request_preemptions", life.preemptions),
            ("kv_computed", request.prompt_tokens - life.hit),
        ):
            self.observe(measure, value)
