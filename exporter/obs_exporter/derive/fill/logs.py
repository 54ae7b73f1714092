"""Answers from the engine's log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from obs_exporter.derive.context import Context
from obs_exporter.derive.from_logs import LogView, capacity
from obs_exporter.derive.model import AGE, OPEN_GAUGE, OPEN_TOTAL, Draft, Extra, Labels, labelled
from obs_exporter.schema import BY_ID, Aggregation, Histogram, Precision, Provenance, Scalar, Series, State
from obs_exporter.stacks.model import Answer

SOURCE = "the engine's log"
PERIODIC = ("requests_running", "requests_waiting", "kv_cache_usage")
AT_START = ("kv_cache_capacity", "kv_cache_max_concurrency")
_EVERY = "the engine's periodic log line, written every 5 to 10 s under load and not when idle"
_WARNING = "the number in the V0 engine's warning, written at preemption 1, 51, 101 and so on"


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
        _put(draft, "queue_wait", "the queue time in Ray's line of each finished request", [series])


def _put(draft: Draft, signal: str, reason: str, series: list[Series], precision: Precision = Precision.EXACT) -> None:
    answer = Answer(BY_ID[signal], State.LOG, reason, Provenance.LOG, precision, SOURCE, series=tuple(series))
    draft.put(answer)


def _gauge(draft: Draft, signal: str, view: LogView, context: Context) -> None:
    """Publish the newest values of all engines that wrote lately; where none did, say that they are stale."""
    limit = context.settings.stale_after
    ages: list[float] = []
    fresh: dict[Labels, float] = {}
    seen = False
    for (_, index), engine in view.engines.items():
        if signal not in engine.gauges:
            continue
        value, time = engine.gauges[signal]
        age = max(0.0, context.now - time)
        seen = True
        if age <= limit:
            ages.append(age)
            _combine(fresh, labelled(draft.model, index), value, signal)
    if fresh:
        _put(draft, signal, _EVERY, _scalars(fresh))
        draft.extras.append(Extra(signal, AGE, max(ages)))
        return
    _stale(draft, signal, seen, context)


def _stale(draft: Draft, signal: str, seen: bool, context: Context) -> None:
    """Say why the log gives no value, where it once did or should."""
    before = draft.answers[signal]
    evidence = context.evidence
    if before.state in (State.IDLE, State.UNREACHABLE):
        return
    if evidence.gone:
        reason = "the log that had it is gone"
    elif seen:
        limit = context.settings.stale_after
        reason = f"the engine's log has no periodic line of the last {limit:g} s: it writes none when idle"
    elif evidence.problems:
        draft.put(replace(before, reason=f"{before.reason}; the log cannot be read: {evidence.problems[0]}"))
        return
    else:
        return
    draft.put(Answer(before.signal, State.STALE, reason, native_name=SOURCE, remedy=before.remedy))


def _at_start(draft: Draft, signal: str, view: LogView, context: Context) -> None:
    """Publish what the start-up lines say: it holds until the engine starts again."""
    found: dict[Labels, float] = {}
    for (_, index), engine in view.engines.items():
        if signal == "kv_cache_capacity":
            value = capacity(engine.start, context.settings.block_size)
        else:
            value = engine.start.get(signal)
        if value is not None:
            _combine(found, labelled(draft.model, index), value, signal)
    if found:
        _put(draft, signal, "the engine's start-up log line", _scalars(found))


def _preemptions(draft: Draft, view: LogView) -> None:
    """Publish the V0 warning's number; without a warning zero, but only of a log that shows the engine's start."""
    started = any(engine.start for engine in view.engines.values())
    if view.warned or (view.generation == "V0" and started):
        series = Scalar(labelled(draft.model), view.preemptions.value)
        _put(draft, "preemptions", _WARNING, [series], Precision.LOWER_BOUND)


def _combine(values: dict[Labels, float], labels: Labels, value: float, signal: str) -> None:
    if labels in values:
        largest = BY_ID[signal].aggregation is Aggregation.MAX
        value = max(values[labels], value) if largest else values[labels] + value
    values[labels] = value


def _scalars(values: Mapping[Labels, float]) -> list[Series]:
    return [Scalar(labels, value) for labels, value in sorted(values.items())]
