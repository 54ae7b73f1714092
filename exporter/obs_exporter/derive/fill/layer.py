"""The serving layer's own queue, where it is a difference of two sums."""

from __future__ import annotations

import math
from dataclasses import replace

from obs_exporter.derive import layer_queue
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import OPEN_TOTAL, SUM_LOWER, SUM_UPPER, Draft, Extra, labelled
from obs_exporter.schema import BY_ID, Histogram, Precision, Provenance, State
from obs_exporter.stacks.model import Answer

_REASON = "time at the layer's edge less time inside the ingress replicas; right over a minute or more of load"


def fill(draft: Draft, context: Context) -> None:
    """Publish the difference where both sums are exact; where they are rebuilt from buckets, only its bounds."""
    facts = context.stack.layer_wait
    edge = draft.answers["layer_request_duration"]
    if facts is None or not edge.series or draft.answers["layer_queue_wait"].state not in OPEN_TOTAL:
        return
    outer, inner = layer_queue.at_the_edge(edge.series), layer_queue.behind_it(context.page, facts)
    if inner is None or not inner.count:
        return
    state = context.memory.layer = layer_queue.step(context.memory.layer, outer, inner)
    if edge.precision is not Precision.EXACT:
        _bounds(draft, state)
        return
    signal = BY_ID["layer_queue_wait"]
    series = Histogram(labelled(""), ((math.inf, state.count.value),), state.sum.value)
    name = f"{edge.native_name} - {facts.inner}"
    draft.put(Answer(signal, State.DERIVED, _REASON, Provenance.COMPUTED, Precision.EXACT, name, series=(series,)))


def _bounds(draft: Draft, state: layer_queue.State) -> None:
    """Say between which bounds the sum lies, and publish no value."""
    before = draft.answers["layer_queue_wait"]
    reason = f"{before.reason}; sums are rebuilt from buckets, so their difference has bounds only"
    draft.put(replace(before, reason=reason))
    draft.extras.append(Extra(before.signal.id, SUM_LOWER, state.low.value))
    if math.isfinite(state.high.value):
        draft.extras.append(Extra(before.signal.id, SUM_UPPER, state.high.value))
