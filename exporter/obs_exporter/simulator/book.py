"""The serving layer's numbers, and all the ledgers of a stack through the restarts of its engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from obs_exporter.simulator.clock import NS
from obs_exporter.simulator.events import Admitted, Arrived, CameUp, Dispatched, Ended, Event, Request, WentDown
from obs_exporter.simulator.ledger import Edges, EngineLedger, Ledger

ROUTER_BACKOFF_S = (0.0, 0.05, 0.15, 0.35, 0.75)
"""When a request that no replica takes is offered again, in seconds after it was first; then every 0.5 s (a model)."""


class LayerLedger(Ledger):
    """The numbers of the serving layer: what it received, held back, handed over and answered."""

    def __init__(self, edges: Edges, started: int, held_back: Mapping[int, int] | None = None) -> None:
        super().__init__(edges, started)
        self._open = {request_id: [arrived] for request_id, arrived in (held_back or {}).items()}
        self.gauges = {"queued": len(self._open), "ongoing": len(self._open), "at_replica": 0}

    @property
    def held_back(self) -> dict[int, int]:
        """Arrival times of the requests that have not been handed over."""
        return {request_id: times[0] for request_id, times in self._open.items() if len(times) == 1}

    def fold(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Arrived():
                self._open[event.request.id] = [event.t]
                self.counters["arrived"] += 1
                self._move("queued", +1, "ongoing", +1)
            case Dispatched():
                self._dispatched(event, self._open[event.id])
            case Admitted():
                self._admitted(event, self._open[event.id])
            case Ended():
                self._ended(event, self._open.pop(event.id))
            case _:
                return
        self.moved = event.t

    def _move(self, *changes: str | int) -> None:
        for gauge, change in zip(changes[::2], changes[1::2], strict=True):
            self.gauges[str(gauge)] += int(change)

    def _dispatched(self, event: Dispatched, times: list[int]) -> None:
        times.append(event.t)
        self.counters["dispatched"] += 1
        self._move("queued", -1, "at_replica", +1)
        waited = (event.t - times[0]) / NS
        self.observe("hop_ms", 0.0)
        for attempt in _attempts(waited):
            self.observe("router_attempt_ms", attempt * 1000)

    def _admitted(self, event: Admitted, times: list[int]) -> None:
        arrived, dispatched = times
        self.counters["admitted"] += 1
        for measure, duration in (
            ("request_us", event.t - arrived),
            ("queue_us", dispatched - arrived),
            ("handover_us", event.t - dispatched),
        ):
            self.counters[measure] += duration // 1000

    def _ended(self, event: Ended, times: list[int]) -> None:
        self._move("ongoing", -1, "at_replica" if len(times) > 1 else "queued", -1)
        self.counters[f"ended:{event.outcome}"] += 1
        if event.outcome == "ok":
            self.observe("http_s", (event.t - times[0]) / NS)
            self.observe("http_ms", (event.t - times[0]) / NS * 1000)
            self.observe("replica_ms", (event.t - times[1]) / NS * 1000)


def _attempts(waited: float) -> list[float]:
    """Seconds after the arrival at which the router offered a request, the last time with success."""
    attempts = [after for after in ROUTER_BACKOFF_S if after < waited]
    while attempts and len(attempts) >= len(ROUTER_BACKOFF_S) and attempts[-1] + 0.5 < waited:
        attempts.append(attempts[-1] + 0.5)
    return [*attempts, waited]


class Book:
    """The ledgers of a stack. Each restart of the engine opens a new engine ledger.

    The layer's ledger lives on where the layer is a process of its own (Ray), else it starts anew too.
    """

    def __init__(
        self,
        edges: Iterable[tuple[str, tuple[float, ...]]],
        usable_blocks: int,
        layer_survives: bool,
        flush: int = 0,
        first: tuple[tuple[str, float], ...] = (),
    ) -> None:
        collected: defaultdict[str, dict[tuple[float, ...], None]] = defaultdict(dict)
        for measure, one in edges:
            collected[measure][one] = None
        self._edges = {measure: tuple(several) for measure, several in collected.items()}
        self._usable_blocks = usable_blocks
        self._layer_survives = layer_survives
        self._flush = flush
        self._first = first
        self._requests: dict[int, Request] = {}
        self.engines: list[EngineLedger] = []
        self.replicas: list[LayerLedger] = []
        """What each engine process knows of the layer's requests: its own part of them."""
        self.layer = LayerLedger(self._edges, 0)
        self.up = False

    @property
    def engine(self) -> EngineLedger:
        """The ledger of the engine process that runs, or ran last."""
        return self.engines[-1]

    def fold(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case CameUp():
                self.up = True
                self.engines.append(EngineLedger(self._edges, self._usable_blocks, event.t, self._flush))
                for measure, value in self._first:
                    self.engine.observe(measure, value)
                self.replicas.append(LayerLedger(self._edges, event.t, self.layer.held_back))
                if not self._layer_survives:
                    self.layer = LayerLedger(self._edges, event.t)
                return
            case WentDown():
                self.up = False
                return
            case Arrived():
                self._requests[event.request.id] = event.request
            case Admitted():
                self.engine.admit(event, self._requests[event.id])
            case Ended():
                self._requests.pop(event.id, None)
        self.engine.fold(event)
        self.replicas[-1].fold(event)
        self.layer.fold(event)
