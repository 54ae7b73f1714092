"""The engine with its serving layer, moved by whoever owns the clock: a simulation, or a live server."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

from obs_exporter.simulator.clock import to_ns
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.engine import EngineCore
from obs_exporter.simulator.events import (
    Admitted,
    Arrived,
    CameUp,
    Dispatched,
    Ended,
    Event,
    EventLog,
    Request,
    Scheduled,
    Stepped,
    WentDown,
)


def _ignore(event: Event) -> None:
    """Nobody listens."""
    del event


class World:
    """Layer, engine and incidents. ``submit`` and ``abort`` act now; ``advance`` lets time pass.

    ``on_scheduled`` and ``on_step`` hear of every step, ``on_end`` of every request that ended, in order of time.
    """

    def __init__(self, config: Config, seed: int) -> None:
        self.config = config
        self.log = EventLog()
        self.on_step: Callable[[Stepped], None] = _ignore
        self.on_scheduled: Callable[[Scheduled], None] = _ignore
        self.on_end: Callable[[Ended], None] = _ignore
        self._rng = random.Random(f"engine {seed}")  # noqa: S311 - the same on each run, not a secret
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = 0
        self._queue: deque[Request] = deque()
        self._open: dict[int, str] = {}
        """Where each request is: on its way, in the layer's queue, handed over, or in the engine."""
        self._held: set[int] = set()
        self._handing_over = False
        self._settling = False
        """Several requests may end with one step: the next step starts after all of them have left."""
        self._core: EngineCore | None = None
        self._come_up(0)
        for restart in config.restarts:
            self._at(to_ns(restart.at), self._go_down)
            self._at(to_ns(restart.at + restart.down_s), self._come_up)

    @property
    def up(self) -> bool:
        """Whether the engine's process runs."""
        return self._core is not None

    @property
    def open_requests(self) -> int:
        """Requests that have not ended."""
        return len(self._open)

    def next_time(self) -> int | None:
        """When something happens next without anybody's doing, in nanoseconds."""
        times = [self._due[0][0]] if self._due else []
        if self._core is not None and self._core.step_ends is not None:
            times.append(self._core.step_ends)
        return min(times, default=None)

    def advance(self, until: int) -> None:
        """Let everything happen that is due at ``until`` or before."""
        while (t := self.next_time()) is not None and t <= until:
            core = self._core
            if core is not None and core.step_ends == t:
                self._finish_step(core, t)
            else:
                heappop(self._due)[2](t)

    def submit(self, t: int, request: Request) -> None:
        """A client's request reaches the layer."""
        self.log.append(Arrived(t, request))
        self._open[request.id] = "layer"
        if self._core is None and not self.config.layer.holds_when_down:
            self._end(t, request.id, "refused")
            return
        overhead = to_ns(self.config.layer.overhead_s)
        if overhead:
            self._at(t + overhead, partial(self._enqueue_late, request))
        else:
            self._enqueue(t, request)

    def abort(self, t: int, request_id: int) -> None:
        """The client hung up. Nothing happens if the request has ended."""
        where = self._open.get(request_id)
        if where is None:
            return
        if where == "engine" and self._core is not None:
            self._core.abort(request_id)
            self._core.wake(t)
        self._queue = deque(request for request in self._queue if request.id != request_id)
        self._end(t, request_id, "aborted")

    def restart(self, t: int, down_s: float) -> None:
        """Let the engine's process die now and come back ``down_s`` later."""
        self._go_down(t)
        self._at(t + to_ns(down_s), self._come_up)

    def _emit(self, event: Event) -> None:
        self.log.append(event)
        if isinstance(event, Scheduled):
            self.on_scheduled(event)

    def _at(self, t: int, action: Callable[[int], None]) -> None:
        self._order += 1
        heappush(self._due, (t, self._order, action))

    def _enqueue(self, t: int, request: Request) -> None:
        if request.id in self._open:
            self._queue.append(request)
            self._dispatch(t)

    def _dispatch(self, t: int) -> None:
        """Hand over the next requests, as far as the layer's limits allow."""
        layer = self.config.layer
        while self._queue and self._core is not None and not self._handing_over:
            if layer.max_ongoing and len(self._held) >= layer.max_ongoing:
                return
            request = self._queue.popleft()
            self._held.add(request.id)
            self.log.append(Dispatched(t, request.id))
            if layer.handover_s:
                self._handing_over = True
                self._at(t + to_ns(layer.handover_s), partial(self._handed_over, request))
            else:
                self._admit(t, request)

    def _enqueue_late(self, request: Request, t: int) -> None:
        self._enqueue(t, request)

    def _handed_over(self, request: Request, t: int) -> None:
        self._handing_over = False
        if request.id in self._open:
            self._admit(t, request)
        self._dispatch(t)

    def _admit(self, t: int, request: Request) -> None:
        if self._core is None:
            self._end(t, request.id, "lost")
            return
        self._open[request.id] = "engine"
        self.log.append(Admitted(t, request.id))
        self._core.add(request)
        if not self._settling:
            self._core.wake(t)

    def _finish_step(self, core: EngineCore, t: int) -> None:
        stepped = core.finish_step()
        self.on_step(stepped)
        self._settling = True
        for request_id in stepped.finished:
            self._end(t, request_id, "ok")
        self._settling = False
        core.wake(t)

    def _end(self, t: int, request_id: int, outcome: str) -> None:
        if self._open.pop(request_id, None) is None:
            return
        ended = Ended(t, request_id, outcome)
        self.log.append(ended)
        self._held.discard(request_id)
        self.on_end(ended)
        self._dispatch(t)

    def _go_down(self, t: int) -> None:
        core, self._core = self._core, None
        if core is None:
            return
        self.log.append(WentDown(t))
        inside = core.ids
        if not self.config.layer.holds_when_down:
            inside = list(self._open)
            self._queue.clear()
        for request_id in inside:
            self._end(t, request_id, "lost")

    def _come_up(self, t: int) -> None:
        if self._core is None:
            self._core = EngineCore(self.config.engine, self._emit, self._rng)
            self.log.append(CameUp(t))
            self._dispatch(t)
