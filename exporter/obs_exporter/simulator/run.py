"""Pure simulation: a virtual clock, no I/O, the same bytes for the same configuration and seed."""

from __future__ import annotations

import random
from heapq import heappop, heappush

from obs_exporter.simulator.clock import to_ns, to_seconds
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import Ended, Request
from obs_exporter.simulator.faces import FACES, Face, PageUnavailableError
from obs_exporter.simulator.logs import LogLine
from obs_exporter.simulator.truth import Recorder, Truth, value_at
from obs_exporter.simulator.workload import Closed, Idle, open_loop_times
from obs_exporter.simulator.world import World


class _Clients:
    """Everybody who sends requests: draws their lengths, and in a closed loop sends the next one after the last."""

    def __init__(self, config: Config, seed: int) -> None:
        self._config = config
        self._rng = random.Random(f"clients {seed}")  # noqa: S311 - the same on each run, not a secret
        self._due: list[tuple[int, int, Closed | None, int]] = []
        self._order = 0
        self._loops: dict[int, tuple[Closed, int]] = {}
        self._next_id = 0
        start = 0.0
        for phase in config.phases:
            end = to_ns(start + phase.seconds)
            if isinstance(phase, Closed):
                for _ in range(phase.clients):
                    self._push(to_ns(start), phase, end)
            elif not isinstance(phase, Idle):
                for offset in open_loop_times(phase, self._rng):
                    self._push(to_ns(start + offset), None, end)
            start += phase.seconds

    def _push(self, t: int, phase: Closed | None, end: int) -> None:
        self._order += 1
        heappush(self._due, (t, self._order, phase, end))

    @property
    def next_time(self) -> int | None:
        """When the next request is sent, as far as is known now."""
        return self._due[0][0] if self._due else None

    def send(self, world: World, hang_ups: list[tuple[int, int]]) -> None:
        """Send the next request."""
        t, _, phase, end = heappop(self._due)
        self._next_id += 1
        request = self._draw(self._next_id)
        if phase is not None:
            self._loops[request.id] = (phase, end)
        abandon = self._config.abandon
        if abandon is not None and self._rng.random() < abandon.share:
            heappush(hang_ups, (t + to_ns(abandon.after_s), request.id))
        world.submit(t, request)

    def ended(self, ended: Ended) -> None:
        """In a closed loop, plan the client's next request; a refused client tries again a second later."""
        phase, end = self._loops.pop(ended.id, (None, 0))
        if phase is None:
            return
        t = ended.t + to_ns(phase.think_s) + (to_ns(1.0) if ended.outcome == "refused" else 0)
        if t < end:
            self._push(t, phase, end)

    def _draw(self, number: int) -> Request:
        config, longest = self._config, self._config.engine.max_model_len
        prompt = min(config.prompt_tokens.draw(self._rng), longest - 1)
        output = min(config.output_tokens.draw(self._rng), longest - prompt)
        return Request(number, prompt, output, output, min(config.cached_prefix_tokens, prompt))


class Run:
    """A finished simulation, to be looked at from any time between 0 and ``end`` (and after it: idle)."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config = config
        self.seed = seed
        self._world = World(config, seed)
        self._faces: dict[str, Face] = {}
        self._recorder = Recorder(config.engine.usable_blocks)
        self._position = 0
        self._truth_t = -1
        self.end = self._play()
        """When the last thing happened, in seconds."""

    def _play(self) -> float:
        world, clients = self._world, _Clients(self.config, self.seed)
        world.on_end = clients.ended
        hang_ups: list[tuple[int, int]] = []
        now = 0
        while True:
            sent, due = clients.next_time, world.next_time()
            hang_up = hang_ups[0][0] if hang_ups and world.open_requests else None
            times = [t for t in (sent, due, hang_up) if t is not None]
            if not times:
                return to_seconds(now)
            soonest = min(times)
            now = max(now, soonest)
            if due == soonest:
                world.advance(soonest)
            elif sent == soonest:
                clients.send(world, hang_ups)
            else:
                world.abort(*heappop(hang_ups))

    def page(self, face: str, t: float) -> bytes:
        """The /metrics page that ``face`` shows at ``t`` seconds.

        Raises PageUnavailableError in an outage and while the process that serves the page is down, KeyError for an
        unknown face.
        """
        now = to_ns(t)
        for outage in self.config.outages:
            if outage.start <= t < outage.end:
                raise PageUnavailableError(f"the page is out from {outage.start} s to {outage.end} s")
        return self._face(face).page(now)

    def log(self, face: str, until: float) -> list[str]:
        """The lines of all log files of ``face`` up to ``until`` seconds, in order of time."""
        return [line.text for line in self.log_lines(face, until)]

    def log_files(self, face: str, until: float) -> dict[str, list[str]]:
        """The same by file name, as the stack splits them."""
        files: dict[str, list[str]] = {}
        for line in self.log_lines(face, until):
            files.setdefault(line.file, []).append(line.text)
        return files

    def log_lines(self, face: str, until: float) -> list[LogLine]:
        """The same with times and files."""
        return self._face(face).log_lines(to_ns(until))

    def truth(self, t: float | None = None) -> Truth:
        """What really happened up to ``t`` seconds (default: all)."""
        now = to_ns(self.end if t is None else t)
        if now < self._truth_t:
            self._recorder, self._position = Recorder(self.config.engine.usable_blocks), 0
        for event in self._world.log.read(self._position, now):
            self._recorder.fold(event)
            self._position += 1
        self._truth_t = now
        return self._recorder.at(now)

    def starved_scrape_time(self, t: float, patience: float) -> float:
        """When a starved API server answers a scrape sent at ``t``: at the least busy moment within ``patience``.

        Real servers on too few cores do this: they answer when the engine has just gone idle, so sampled gauges lie
        low. The page of that moment is ``page(face, starved_scrape_time(t, patience))``.
        """
        start, end = to_ns(t), to_ns(t + patience)
        waiting = self.truth().waiting
        moments = [start, *(step for step, _ in waiting if start < step <= end)]
        return to_seconds(min(moments, key=lambda moment: (value_at(waiting, moment), moment)))

    def _face(self, name: str) -> Face:
        if name not in self._faces:
            self._faces[name] = FACES[name](self.config, self._world.log)
        return self._faces[name]


def simulate(config: Config, seed: int = 0) -> Run:
    """Play a configuration to its end: all phases, then until every request has ended."""
    return Run(config, seed)
