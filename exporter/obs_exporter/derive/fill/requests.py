"""Requests inside the engine, where the layer counts admissions and the engine ends."""

from __future__ import annotations

from dataclasses import replace

from obs_exporter.derive import in_flight
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import OPEN_GAUGE, Draft, counts, scalars
from obs_exporter.schema import BY_ID, Precision, Provenance, Scalar, State
from obs_exporter.stacks.model import Answer

_INSIDE = "requests admitted less requests finished; those that end in an error stay in it until the engine is at rest"
_RELOADED = "; a reload restarted one of the two under load: a lower bound until the engine is at rest"
_WAITING = "requests inside the engine less its slots (max_num_seqs): at least so many wait"
_ENDED = "; of those that ended in an error, some count as waiting until the engine is at rest"

_SLOTS = "--max-num-seqs"


def fill(draft: Draft, context: Context) -> None:
    """Derive what the layer holds open, and with known slots how many of it wait at least."""
    admitted = counts(draft.series(context.stack.admitted_by)) if context.stack.admitted_by else {}
    finished, first = counts(draft.series("request_duration")), counts(draft.series("ttft"))
    tokens = scalars(draft.series("generation_tokens"))
    found = {
        labels: in_flight.Counts(admitted[labels], first[labels], finished[labels], tokens.get(labels, 0.0))
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
        floor = any(model.floor for model in models.values())
        precision = Precision.LOWER_BOUND if floor else Precision.EXACT
        _put(draft, "layer_requests_ongoing", _INSIDE + (_RELOADED if floor else ""), precision, series)
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
        _put(draft, "requests_waiting", _WAITING + _ENDED, Precision.LOWER_BOUND, bounds)


def _put(draft: Draft, signal: str, reason: str, precision: Precision, series: tuple[Scalar, ...]) -> None:
    name = "admissions - ends"
    draft.put(Answer(BY_ID[signal], State.DERIVED, reason, Provenance.COMPUTED, precision, name, series=series))
