"""Answers from the engine's log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from obs_exporter.derive.context import Context
from obs_exporter.derive.from_logs import Key, LogView, capacity
from obs_exporter.derive.model import AGE, OPEN_GAUGE, OPEN_TOTAL, Draft, Extra, Labels, labelled
from obs_exporter.schema import BY_ID, Aggregation, Histogram, Precision, Provenance, Scalar, Series, State
from obs_exporter.stacks.model import Answer

SOURCE = "the engine's log"
PERIODIC = ("requests_running", "requests_waiting", "kv_cache_usage")
AT_START = ("kv_cache_capacity", "kv_cache_max_concurrency")
_EVERY = "the engine's periodic log line, written every 5 to 10 s under load and not when idle"
_WARNING = "the number in the V0 engine's warning, written at preemption 1, 51, 101 and so on"
_AT_START = "the engine's start-up log line"
_QUEUE_TIME = "the queue time in Ray's line of each finished request"
_SHORT = "; a log was rewritten, and lines that may have been counted before are not counted again"


def fill(draft: Draft, context: Context) -> None:
    """Fill gauges, capacities and counters from the log, where one is followed."""
    view = context.evidence.logs
    if view is None:
        return
    for signal in PERIODIC:
        if draft.answers[signal].state in OPEN_GAUGE:
            _gauge(draft, signal, view, context)
    for signal in AT_START:
        if draft.answers[signal].state in OPEN_GAUGE:
            _at_start(draft, signal, view, context)
    if draft.answers["preemptions"].state in OPEN_TOTAL:
        _preemptions(draft, view)
    if draft.answers["queue_wait"].state in OPEN_TOTAL and view.waits[1]:
        total, count = view.waits
        series = Histogram(labelled(draft.model), ((math.inf, count),), total)
        precision = Precision.LOWER_BOUND if view.short else Precision.EXACT
        _put(draft, "queue_wait", _QUEUE_TIME + (_SHORT if view.short else ""), [series], precision)


def _put(draft: Draft, signal: str, reason: str, series: list[Series], precision: Precision = Precision.EXACT) -> None:
    answer = Answer(BY_ID[signal], State.LOG, reason, Provenance.LOG, precision, SOURCE, series=tuple(series))
    draft.put(answer)


def _gauge(draft: Draft, signal: str, view: LogView, context: Context) -> None:
    """Publish the newest values of all engines that wrote lately; where none did, say that they are stale.

    Of engines that write into one log without names the last one's value stands there: a lower bound of all.
    """
    limit = context.settings.stale_after
    ages: list[float] = []
    fresh: dict[Labels, float] = {}
    doubts: set[str] = set()
    seen = False
    for (file, index, origin), engine in view.engines.items():
        if signal not in engine.gauges:
            continue
        value, time = engine.gauges[signal]
        age = max(0.0, context.now - time)
        seen = True
        if age <= limit:
            ages.append(age)
            _combine(fresh, labelled(draft.model, index), value, signal)
            doubts |= {view.mixed(file)} if not origin else set()
    if fresh:
        _put_known(draft, signal, _EVERY, fresh, doubts)
        draft.extras.append(Extra(signal, AGE, max(ages)))
        return
    _stale(draft, signal, seen, context)


def _put_known(draft: Draft, signal: str, reason: str, values: Mapping[Labels, float], doubts: set[str]) -> None:
    """Publish values: exact, or a lower bound for the reasons of the doubts."""
    why = "; ".join(sorted(doubts - {""}))
    precision = Precision.LOWER_BOUND if why else Precision.EXACT
    _put(draft, signal, f"{reason}; a lower bound: {why}" if why else reason, _scalars(values), precision)


def _stale(draft: Draft, signal: str, seen: bool, context: Context) -> None:
    """Say why the log gives no value, where it once did or should."""
    before = draft.answers[signal]
    evidence = context.evidence
    if before.state in (State.IDLE, State.UNREACHABLE):
        return
    if seen:
        limit = context.settings.stale_after
        reason = f"the engine's log has no periodic line of the last {limit:g} s: it writes none when idle"
    elif evidence.gone:
        reason = "the log that had it is gone"
    elif evidence.problems:
        draft.put(replace(before, reason=f"{before.reason}; the log cannot be read: {evidence.problems[0]}"))
        return
    else:
        return
    draft.put(Answer(before.signal, State.STALE, reason, native_name=SOURCE, remedy=before.remedy))


@dataclass(frozen=True, slots=True)
class _Started:
    """What an engine's start-up lines tell, when, and when it last wrote a periodic line."""

    key: Key
    value: float
    started: float
    newest: float


def _at_start(draft: Draft, signal: str, view: LogView, context: Context) -> None:
    """Publish what the start-up lines say, added up over the engines: it holds until an engine starts again.

    Logs of workers that are gone may still lie there. So of several files the one with the newest start counts, and
    those whose engines wrote since that start. Where more cannot be ruled out, it is a lower bound.
    """
    found: dict[str, list[_Started]] = {}
    for key, engine in sorted(view.engines.items()):
        value = engine.start.get(signal)
        if signal == "kv_cache_capacity":
            value = capacity(engine.start, context.settings.block_size)
        if value is not None:
            found.setdefault(key[1], []).append(_Started(key, value, engine.started, _written(view, key[0])))
    sums: dict[Labels, float] = {}
    doubts: set[str] = set()
    for index, all_of in found.items():
        newest = max(all_of, key=lambda one: (one.started, one.key))
        alive = [one for one in all_of if one is newest or one.newest >= newest.started]
        sums[labelled(draft.model, index)] = math.fsum(one.value for one in alive)
        doubts |= _doubts(view, alive, len(all_of), newest.started)
    if sums:
        _put_known(draft, signal, _AT_START, sums, doubts)


def _written(view: LogView, file: str) -> float:
    """Return the time of the last periodic line in a file."""
    return max((engine.newest for key, engine in view.engines.items() if key[0] == file), default=-math.inf)


def _doubts(view: LogView, alive: list[_Started], count: int, newest: float) -> set[str]:
    """Say why there may be more than the start-up lines of the engines that are known to live."""
    files = {one.key[0] for one in alive}
    doubts = {view.mixed(file) for file in files}
    if len(alive) < count:
        doubts.add(f"{count} logs have start-up lines, and {len(alive)} of them are known to be of engines that run")
    told = {key[0] for key, engine in view.engines.items() if engine.start}
    if any(key[0] not in told and engine.newest >= newest for key, engine in view.engines.items()):
        doubts.add("an engine that runs has no start-up lines in its log")
    for file in files:
        if any(key[0] == file and engine.unlike for key, engine in view.engines.items()):
            doubts.add("start-up lines of one log differ: of ranks of one engine, or of several engines")
        of_file = [(key, engine) for key, engine in view.engines.items() if key[0] == file]
        if (
            any(not key[1] and engine.start for key, engine in of_file)
            and len({key[1] for key, engine in of_file if engine.gauges}) > 1
        ):
            doubts.add("several engines write into one log, and its start-up lines do not say whose they are")
        writers = {(key[1], key[2]) for key, engine in of_file if engine.newest > newest and engine.gauges}
        if len(writers) > len({index for index, _ in writers}):
            doubts.add("several processes write periodic lines into one log")
    return doubts


def _preemptions(draft: Draft, view: LogView) -> None:
    """Publish the V0 warning's number; without a warning zero, but only of a log that shows the engine's start."""
    started = any(engine.start for engine in view.engines.values())
    if view.runs or (view.generation == "V0" and started):
        series = Scalar(labelled(draft.model), view.preemptions)
        _put(draft, "preemptions", _WARNING, [series], Precision.LOWER_BOUND)


def _combine(values: dict[Labels, float], labels: Labels, value: float, signal: str) -> None:
    if labels in values:
        largest = BY_ID[signal].aggregation is Aggregation.MAX
        value = max(values[labels], value) if largest else values[labels] + value
    values[labels] = value


def _scalars(values: Mapping[Labels, float]) -> list[Series]:
    return [Scalar(labels, value) for labels, value in sorted(values.items())]
