"""The serving layer's own queue, where it is a difference of two sums."""

from __future__ import annotations

import math
from dataclasses import replace

from obs_exporter.derive import layer_pages, layer_queue
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import OPEN_TOTAL, SUM_LOWER, SUM_UPPER, Draft, Extra, labelled
from obs_exporter.schema import BY_ID, Histogram, Precision, Provenance, State
from obs_exporter.stacks.base import LayerWait
from obs_exporter.stacks.model import Answer

_REASON = "time at the layer's edge less time inside what stands behind it, over the same requests"
_READ = "; read at equal counts between two looks, while its processes report at different moments"


def fill(draft: Draft, context: Context) -> None:
    """Publish the difference where both sums are exact; where they are rebuilt from buckets, only its bounds."""
    facts = context.stack.layer_wait
    edge = draft.answers["layer_request_duration"]
    before = draft.answers["layer_queue_wait"]
    if facts is None or not edge.series or before.state not in OPEN_TOTAL:
        return
    sides = layer_pages.read(context.page, facts)
    if not sides.points:
        if sides.unclear:
            draft.put(replace(before, reason=f"{before.reason}; {_unclear(sides)}"))
        return
    state = context.memory.layer = layer_queue.step(context.memory.layer, sides.points, context.now)
    if edge.precision is not Precision.EXACT:
        _bounds(draft, state)
    elif state.known:
        _publish(draft, state, f"{edge.native_name} - {facts.inner}", _left(state, facts, sides))
    else:
        draft.put(Answer(before.signal, State.LOST, _unmatched(state, facts, sides), remedy=before.remedy))


def _publish(draft: Draft, state: layer_queue.State, name: str, rest: str) -> None:
    """Publish the sum over all groups."""
    exact = all(one.exact for one in state.known)
    total, count = (
        math.fsum(values) for values in zip(*((one.total.sum, one.total.count) for one in state.known), strict=True)
    )
    series = Histogram(labelled(""), ((math.inf, count),), total)
    precision = Precision.EXACT if exact else Precision.SAMPLED
    reason = _REASON + ("" if exact else _READ) + rest
    signal = BY_ID["layer_queue_wait"]
    draft.put(Answer(signal, State.DERIVED, reason, Provenance.COMPUTED, precision, name, series=(series,)))


def _unclear(sides: layer_pages.Sides) -> str:
    return f"which deployment the edge calls cannot be told of {', '.join(sides.unclear)}"


def _left(state: layer_queue.State, facts: LayerWait, sides: layer_pages.Sides) -> str:
    """Say what the sum does not cover."""
    rest = "; some requests are left out, whose counts on the two sides differ: " + facts.cause
    odd = any(one.left_out or (one.last is not None and not one.total.count) for one in state.groups.values())
    return (rest if odd else "") + (f"; {_unclear(sides)}" if sides.unclear else "")


def _unmatched(state: layer_queue.State, facts: LayerWait, sides: layer_pages.Sides) -> str:
    """Say why the sides do not belong together."""
    differ = any(one.last is not None and one.last.inner.count for one in state.groups.values())
    reason = "requests at the layer's edge and inside differ in number, so that the times have no difference"
    if not differ:
        reason = "no request was counted inside what stands behind the layer's edge"
    return f"{reason}: {facts.cause}" + (f"; {_unclear(sides)}" if sides.unclear else "")


def _bounds(draft: Draft, state: layer_queue.State) -> None:
    """Say between which bounds the sum lies, as of the last look at which the counts agreed; publish no value."""
    before = draft.answers["layer_queue_wait"]
    reason = f"{before.reason}; sums are rebuilt from buckets, so their difference has bounds only"
    if not state.bounded:
        draft.put(replace(before, reason=f"{reason}, from the first look on at which both sides count the same"))
        return
    draft.put(replace(before, reason=reason))
    draft.extras.append(Extra(before.signal.id, SUM_LOWER, math.fsum(one.total.low for one in state.bounded)))
    high = math.fsum(one.total.high for one in state.bounded)
    if math.isfinite(high):
        draft.extras.append(Extra(before.signal.id, SUM_UPPER, high))
