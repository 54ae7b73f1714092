"""A whole run: calibration, warm-up, levels in interleaved repeats, and what is told to whom meanwhile."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from obs_exporter.probe.calibrate import Calibration, calibrate
from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.exchange import Exchange
from obs_exporter.probe.guard import FIRST, Guard, TargetRefusesError
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, arrivals, run_closed, run_one, run_open
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.redact import Redactor
from obs_exporter.probe.request import Endpoint, Prompt, RequestBuilder
from obs_exporter.probe.restart import Restart
from obs_exporter.probe.results import ResultWriter
from obs_exporter.probe.scenarios import Prompts, request_id
from obs_exporter.probe.shards import Rendezvous, Shard
from obs_exporter.probe.summary import Accumulator, LevelKey
from obs_exporter.probe.transport import Address, TransportError, resolve

_CPU_LIMIT = 0.9
_AMBIGUOUS_LIMIT = 0.01
_READY_S = 30.0
"""So long a server that was just restarted may take for one small request before it is asked again."""


class Observer:
    """Is told what happens; every method may be left as it is."""

    def calibrated(self, calibration: Calibration) -> None:
        """Hear that the client was measured at one load."""

    def level_started(self, level: Level, repeat: int, in_flight: Callable[[], int], lag: LagHistogram) -> None:
        """Hear that a level begins; ``in_flight`` and ``lag`` can be read while it runs."""

    def recorded(self, record: Record) -> None:
        """Take one finished request."""

    def level_ended(self, level: Level, summary: dict[str, Any]) -> None:
        """Take the level's numbers."""


class ServerSide:
    """Watches the server's own page during a level; this one watches nothing."""

    def begin(self) -> None:
        """Start to sample."""

    def end(self, _summary: dict[str, Any]) -> dict[str, Any] | None:
        """Stop sampling; return the level's server side beside the client's, or None."""
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run needs to know."""

    endpoint: Endpoint
    builder: RequestBuilder
    prompts: Prompts
    levels: tuple[Level, ...]
    run_id: str
    repeats: int = 1
    warmup: int = 1
    seed: int = 0
    slo: SLO = field(default_factory=SLO)
    options: ClientOptions = field(default_factory=ClientOptions)
    calibrate: bool = True
    max_client_error_s: float = 0.005
    shard: Shard = field(default_factory=Shard)
    rendezvous: Rendezvous | None = None
    tokenizer: Callable[[str], int] | None = None
    server_side: ServerSide = field(default_factory=ServerSide)
    redactor: Redactor = field(default_factory=Redactor)
    restart: Restart | None = None


class Runner:
    """Runs a plan.

    Raises TransportError (unknown host), TruthError, ShardError, ResultError, RestartError, and TargetRefusesError when
    the target answers nothing but the same refusal.
    """

    def __init__(self, plan: Plan, writer: ResultWriter, observers: Sequence[Observer], stop: Stop) -> None:
        self._plan = plan
        self._writer = writer
        self._observers = observers
        self._stop = stop
        self._calibrations: dict[Level, Calibration] = {}
        self._address = self._resolved()

    def _resolved(self) -> Address:
        hop = self._plan.options.proxy or self._plan.endpoint
        return resolve(hop.host, hop.port)

    def run(self) -> None:
        """Run every repeat of every level; the repeats are interleaved, so that slow drift meets all levels alike."""
        if self._plan.calibrate:
            self.calibrate()
        for repeat, (number, level) in itertools.product(range(self._plan.repeats), enumerate(self._plan.levels)):
            if repeat and not number:
                self._restart()
            self._meet(f"level-{repeat}-{number}")
            if self._stop.requested:
                return
            summary = self._level(level, repeat)
            self._writer.level(summary)
            for observer in self._observers:
                observer.level_ended(level, summary)

    def calibrate(self) -> None:
        """Measure the client at every level's load; note the result."""
        for level in self._plan.levels:
            slots = self._plan.shard.slots(level) if level.concurrency else None
            if self._stop.requested or slots == 0 or any(_same_load(level, known) for known in self._calibrations):
                continue
            tls, http2 = self._plan.endpoint.tls, self._plan.options.http2
            found = calibrate(level, self._plan.max_client_error_s, slots, tls, http2)
            if tls and not found.tls:
                self._writer.note("the calibration was without TLS: this OpenSSL lacks the anonymous cipher it needs")
            self._calibrations[level] = found
            self._writer.result["calibration"].append(found.to_json())
            for observer in self._observers:
                observer.calibrated(found)

    def _restart(self) -> None:
        """Give the server a new life, if the user said how; the first shard does so for all."""
        if self._plan.restart is None or self._stop.requested:
            return
        if not self._plan.shard.index:
            self._plan.restart.run(self._stop, self._refusal)
        self._address = self._resolved()

    def _refusal(self) -> str:
        """Send the smallest request; return why it was not answered, or "" when the server works."""
        plan = self._plan
        options = replace(plan.options, timeout_s=min(plan.options.timeout_s, _READY_S))
        maker, name = RecordMaker(plan.slo, None, plan.redactor), request_id(plan.run_id, "ready", time.time_ns())
        payload = plan.builder.build(Prompt((("user", "ready?"),), plan.builder.least_tokens), name)
        try:
            record = run_one(plan.endpoint, options, maker, payload, Ticket(plan.levels[0], 0, 0, name), self._stop)
        except TransportError as error:
            return str(error)
        return "" if self._stop.requested or record.status == 200 else f"{record.outcome}: {record.detail}"

    def _meet(self, place: str) -> None:
        if self._plan.rendezvous is not None:
            self._plan.rendezvous.meet(place, self._stop)

    def _level(self, level: Level, repeat: int) -> dict[str, Any]:
        """Run one repeat of one level; return its summary."""
        slots, lag = Slots(), LagHistogram()
        sink = _Sink(RecordMaker(self._plan.slo, self._plan.tokenizer, self._plan.redactor))
        client = Client(self._plan.endpoint, self._plan.options, sink.finished, slots.free, lag.add, self._address)
        guard = Guard(self._plan.endpoint, self._plan.builder.has_key, self._plan.builder.api)
        accumulator = Accumulator(LevelKey(level.scenario, level.concurrency or 0, level.rate or 0.0, repeat))
        try:
            self._warm_up(client, slots, sink, guard, level, repeat)
            lag.clear()
            sink.listeners = [
                accumulator.add,
                self._writer.record,
                *(observer.recorded for observer in self._observers),
                guard.add,
                lambda _: guard.check(),
            ]
            for observer in self._observers:
                observer.level_started(level, repeat, lambda: client.in_flight, lag)
            self._plan.server_side.begin()
            cpu_share = self._load(client, slots, level, repeat)
            guard.check(1)
        except TargetRefusesError:
            del sink.listeners[-1]
            client.cancel()
            raise
        finally:
            client.close()
        summary = accumulator.summary()
        summary["client"] = self._client_side(level, summary, lag, cpu_share)
        summary["client_limited"] = bool(summary["client"]["limited"])
        summary["server"] = self._plan.server_side.end(summary)
        return summary

    def _warm_up(self, client: Client, slots: Slots, sink: _Sink, guard: Guard, level: Level, repeat: int) -> None:
        """Send the warm-up requests; they are in no number, but a failing one is noted.

        When all of them are refused, a few more go out one by one: a wrong URL or key is then told before the load.
        """
        count = self._plan.warmup
        width = min(count, self._plan.shard.slots(level) if level.concurrency else 1)
        if not width:
            return
        failed: list[Record] = []
        sink.listeners = [lambda record: None if record.outcome is Outcome.OK else failed.append(record), guard.add]
        warm = Level(level.scenario, width, None, count, None)
        build = self._builder(level, repeat, "warm-up")
        run_closed(client, slots, build, warm, width, iter(range(count)), self._stop)
        while 0 < guard.refused < FIRST and not self._stop.requested:
            count += 1
            run_closed(client, slots, build, warm, 1, iter((count,)), self._stop)
        guard.check()
        if failed and not self._stop.requested:
            self._writer.note(f"{level.name}: warm-up failed: {failed[0].outcome}: {failed[0].detail}")

    def _load(self, client: Client, slots: Slots, level: Level, repeat: int) -> float:
        """Put the level's load on; return the share of one CPU core that this process used."""
        plan = self._plan
        build = self._builder(level, repeat, "load")
        cpu, start = time.process_time(), time.perf_counter()
        gc.collect()
        gc.disable()  # the hot path makes no cycles, and a collection in the middle of a burst costs milliseconds
        try:
            if level.concurrency is not None:
                if width := plan.shard.slots(level):
                    run_closed(client, slots, build, level, width, plan.shard.indexes(level), self._stop)
            elif level.rate is not None:
                # All shards draw the same arrivals and take them in turn: together they are those of one process.
                drawn = arrivals(level.rate, f"{plan.seed}/{repeat}/{level.rate:g}")
                times = itertools.islice(drawn, plan.shard.index, None, plan.shard.count)
                run_open(client, build, level, times, plan.shard.indexes(level), self._stop)
        finally:
            gc.enable()
        return (time.process_time() - cpu) / max(1e-9, time.perf_counter() - start)

    def _builder(self, level: Level, repeat: int, phase: str) -> Callable[[int, int | None], tuple[bytes, Ticket]]:
        """Return what makes the requests of one repeat of one level."""
        plan = self._plan
        place = (level.scenario, level.concurrency, level.rate, repeat)
        prompt = plan.prompts.source(level.scenario, request_id(plan.run_id, *place, "shared"))

        def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
            unique = request_id(plan.run_id, *place, phase, index)
            return plan.builder.build(prompt(index, unique), unique), Ticket(level, repeat, index, unique, scheduled_ns)

        return build

    def _client_side(
        self, level: Level, summary: dict[str, Any], lag: LagHistogram, cpu_share: float
    ) -> dict[str, Any]:
        """Return what is known of this client's own part in the numbers, and whether it limits them."""
        known = next((c for at, c in self._calibrations.items() if _same_load(at, level)), None)
        reasons = [known.limited] if known is not None and known.limited else []
        first_tokens = summary["ttft_s"]["n"]
        if cpu_share > _CPU_LIMIT:
            reasons.append(f"the probe used {cpu_share:.0%} of a core")
        if first_tokens and summary["ambiguous_first_tokens"] > max(1, _AMBIGUOUS_LIMIT * first_tokens):
            late = lag.bound(0.99) or 0.0
            if late > self._plan.max_client_error_s:
                reasons.append(f"reads came up to {late:g} s late (p99) and merged first tokens with later ones")
        behind = ((summary["schedule"] or {}).get("own_late_s") or {}).get("p99")
        if behind is not None and behind > self._plan.max_client_error_s:
            reasons.append(
                f"the probe began requests {behind * 1e3:.1f} ms after their schedule at p99"
                f" (limit {self._plan.max_client_error_s * 1e3:g} ms)"
            )
        return {
            "calibrated": known is not None,
            "ttft_error_p50_s": known.ttft_error_p50_s if known else None,
            "ttft_error_p99_s": known.ttft_error_p99_s if known else None,
            "cpu_share": round(cpu_share, 4),
            "lag_s": lag.to_json(),
            "limited": "; ".join(reasons),
        }


class _Sink:
    """Turns finished exchanges into records and hands them to whoever listens now."""

    def __init__(self, maker: RecordMaker) -> None:
        self._maker = maker
        self.listeners: list[Callable[[Record], None]] = []

    def finished(self, exchange: Exchange) -> None:
        """Take one exchange that has ended."""
        record = self._maker.make(exchange)
        for listener in self.listeners:
            listener(record)


def _same_load(one: Level, other: Level) -> bool:
    return one.concurrency == other.concurrency and one.rate == other.rate
