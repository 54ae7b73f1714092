"""Requests inside the engine, where the layer counts admissions and the engine ends."""

from __future__ import annotations

from dataclasses import replace

from obs_exporter.derive import in_flight
from obs_exporter.derive.context import Context
from obs_exporter.derive.in_flight import Known
from obs_exporter.derive.model import OPEN_GAUGE, Draft, counts, scalars, sums
from obs_exporter.schema import BY_ID, Precision, Provenance, Scalar, State
from obs_exporter.stacks.model import Answer

_INSIDE = "requests admitted less requests finished"
_MEANING = {
    Known.EXACT: "",
    Known.AT_MOST: "; at most so many, until the engine is at rest: some may have failed, or been left by their client",
    Known.AT_LEAST: "; at least so many, until the engine is at rest: counted anew after a reload or a short rest",
}
_PRECISION = {
    Known.EXACT: Precision.EXACT, Known.AT_MOST: Precision.UPPER_BOUND, Known.AT_LEAST: Precision.LOWER_BOUND,
}  # fmt: skip
_WAITING = "requests inside the engine less its slots (max_num_seqs): at least so many wait"
_ENDED = "; those that ended in an error or left since the last one began may count as waiting for a while"
_SINCE = "; counted from 0 since the first look, a reload or a rest: how many waited then is not known"

_SLOTS = "--max-num-seqs"


def fill(draft: Draft, context: Context) -> None:
    """Derive what the layer holds open, and with known slots how many of it wait at least."""
    admitted = counts(draft.series(context.stack.admitted_by)) if context.stack.admitted_by else {}
    finished, first = counts(draft.series("request_duration")), counts(draft.series("ttft"))
    tokens, ttft = scalars(draft.series("generation_tokens")), sums(draft.series("ttft"))
    found = {
        labels: in_flight.Counts(
            admitted[labels], first[labels], finished[labels], tokens.get(labels, 0.0), ttft.get(labels, 0.0)
        )
        for labels in admitted
        if labels in finished and labels in first
    }
    memory = context.memory
    memory.flight = in_flight.step(memory.flight, context.now, found)
    models = memory.flight.models
    if not models:
        return
    if draft.answers["layer_requests_ongoing"].state in OPEN_GAUGE:
        series = tuple(Scalar(labels, model.inside) for labels, model in sorted(models.items()))
        known = {model.known for model in models.values()}
        worst = next((one for one in (Known.AT_MOST, Known.AT_LEAST) if one in known), Known.EXACT)
        _put(draft, "layer_requests_ongoing", _INSIDE + _MEANING[worst], _PRECISION[worst], series)
    slots, waiting = context.settings.max_num_seqs, draft.answers["requests_waiting"]
    if not slots and not waiting.state.publishes and _SLOTS not in waiting.remedy:
        draft.put(
            replace(
                waiting,
                remedy="; or ".join(filter(None, (waiting.remedy, f"let obs-exporter have {_SLOTS}: {_WAITING}"))),
            )
        )
    if slots and waiting.state in OPEN_GAUGE:
        bounds = tuple(Scalar(labels, model.waiting_at_least(slots)) for labels, model in sorted(models.items()))
        clean = all(model.known is Known.EXACT for model in models.values())
        reason = _WAITING + _ENDED + ("" if clean else _SINCE)
        _put(draft, "requests_waiting", reason, Precision.LOWER_BOUND, bounds)


def _put(draft: Draft, signal: str, reason: str, precision: Precision, series: tuple[Scalar, ...]) -> None:
    name = "admissions - ends"
    draft.put(Answer(BY_ID[signal], State.DERIVED, reason, Provenance.COMPUTED, precision, name, series=series))
