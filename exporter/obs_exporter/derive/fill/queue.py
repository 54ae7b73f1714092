"""The engine's queue wait by Little's law."""

from __future__ import annotations

import math
from dataclasses import replace

from obs_exporter.derive import queue_wait
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import (
    OPEN_TOTAL,
    SUM_UPPER,
    Draft,
    Extra,
    Labels,
    counts,
    labelled,
    scalars,
    sums,
)
from obs_exporter.schema import BY_ID, Histogram, Precision, Provenance, State
from obs_exporter.stacks.model import Answer

REASON = "Little's law: the time-integral of requests_waiting over the requests that began"
_FLOOR = "; from a lower bound of requests_waiting"
_LEFT = ", in which some counted as waiting for a while that had failed or been left by their client"
_PREEMPTED = "; {:g} preemptions meanwhile: waiting again is in it, which the engine's own queue time leaves out"
_APART = f"no two looks in a row were within {queue_wait.MAX_GAP:g} s and of one engine's life, so no wait is known"
_SECOND_LOOK = "known from the second look on, as the time-integral of requests_waiting"


def wanted(draft: Draft) -> bool:
    """Whether the queue wait is to be derived: the page has none, and shows how many wait and how many began."""
    return (
        draft.answers["queue_wait"].state in OPEN_TOTAL
        and draft.answers["requests_waiting"].state.publishes
        and bool(_began(draft))
    )


def fill(draft: Draft, context: Context) -> None:
    """Integrate from look to look; publish from the second look on."""
    if not wanted(draft):
        lost_sight(draft, context)
        return
    memory, slots = context.memory, context.settings.max_num_seqs
    floor = draft.answers["requests_waiting"].precision is Precision.LOWER_BOUND
    waiting = scalars(draft.series("requests_waiting"))
    sample = queue_wait.Sample(
        context.now,
        waiting,
        _began(draft),
        scalars(draft.series("requests_running")),
        sums(draft.series("inter_token_latency")),
        sums(draft.series("ttft")),
        float(slots),
        floor,
        counts(draft.series("inter_token_latency")),
        scalars(draft.series("preemptions")),
        context.took,
    )
    state = memory.queue = queue_wait.step(memory.queue, sample)
    before = draft.answers["queue_wait"]
    if not state.spans:
        why = _APART if state.skipped else _SECOND_LOOK
        draft.put(replace(before, reason=f"{before.reason}; {why}".removeprefix("; ")))
        return
    series = Histogram(_labels(draft, waiting), ((math.inf, state.count),), state.sum)
    left = any(model.left for model in memory.flight.models.values())
    precision = Precision.LOWER_BOUND if floor and not left else Precision.SAMPLED
    reason = REASON + (_FLOOR if floor else "") + (_LEFT if floor and left else "")
    if state.preempted:
        reason += _PREEMPTED.format(state.preempted)
    signal = BY_ID["queue_wait"]
    draft.put(Answer(signal, State.DERIVED, reason, Provenance.COMPUTED, precision, "computed", series=(series,)))
    if state.bounded and sample.ttft:
        draft.extras.append(Extra(signal.id, SUM_UPPER, state.upper))


def lost_sight(draft: Draft, context: Context) -> None:  # noqa: ARG001 - one shape for all
    """Remember that nothing is known of the time around a look without the numbers."""
    context.memory.queue = queue_wait.lost_sight(context.memory.queue)


def _began(draft: Draft) -> dict[Labels, float]:
    """Return a counter of requests that left the queue: first tokens, else ends."""
    return (
        counts(draft.series("ttft"))
        or scalars(draft.series("requests_finished"))
        or counts(draft.series("request_duration"))
    )


def _labels(draft: Draft, waiting: dict[Labels, float]) -> Labels:
    """Return the labels of the one series: the engine's index where there is only one."""
    engines = {dict(labels).get("engine", "") for labels in waiting}
    return labelled(draft.model, engines.pop() if len(engines) == 1 else "")
