"""The estimate of the KV cache usage, where it was asked for."""

from __future__ import annotations

from obs_exporter.derive import kv_estimate
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import LOWER, OPEN_GAUGE, UPPER, Draft, Extra, counts, labelled, scalars
from obs_exporter.schema import BY_ID, Precision, Provenance, Scalar, State
from obs_exporter.stacks.model import Answer

_REASON = "requests in the batch x (mean prompt + half a mean answer) / capacity; prefix sharing is not seen"

_GIVEN = "given with --kv-capacity-tokens (obs-audit kv reckons it from a model's config.json)"


def fill_capacity(draft: Draft, context: Context) -> None:
    """Publish the capacity that the user gives, where neither the page nor a log tells it."""
    given = context.settings.kv_capacity
    if given and draft.answers["kv_cache_capacity"].state in OPEN_GAUGE:
        series = Scalar(labelled(draft.model), given)
        signal = BY_ID["kv_cache_capacity"]
        draft.put(
            Answer(
                signal, State.ESTIMATED, _GIVEN, Provenance.COMPUTED, Precision.EXACT, "configuration", series=(series,)
            )
        )


def fill(draft: Draft, context: Context) -> None:
    """Estimate where nothing better is known, every number is there, and the user asked for it."""
    settings, answers = context.settings, draft.answers
    if not settings.estimate_kv_usage or answers["kv_cache_usage"].state not in OPEN_GAUGE:
        return
    capacity = sum(scalars(draft.series("kv_cache_capacity")).values())
    finished = sum(scalars(draft.series("requests_finished")).values()) or sum(
        counts(draft.series("request_duration")).values()
    )
    running = _running(draft, settings.max_num_seqs)
    if running is None or not finished:
        return
    found = kv_estimate.estimate(
        running,
        kv_estimate.Totals(
            sum(scalars(draft.series("prompt_tokens")).values()),
            sum(scalars(draft.series("generation_tokens")).values()),
            sum(counts(draft.series("ttft")).values()) or finished + running,
            finished,
        ),
        capacity,
    )
    if found is None:
        return
    series = Scalar(labelled(draft.model), found.value)
    signal = BY_ID["kv_cache_usage"]
    draft.put(
        Answer(signal, State.ESTIMATED, _REASON, Provenance.COMPUTED, Precision.SAMPLED, "computed", series=(series,))
    )
    draft.extras += [Extra(signal.id, LOWER, found.lower), Extra(signal.id, UPPER, found.upper)]


def _running(draft: Draft, slots: int) -> float | None:
    """Return how many requests are in the batch: as published, else as many of those inside as there are slots."""
    running = scalars(draft.series("requests_running"))
    if running:
        return sum(running.values())
    inside = scalars(draft.series("layer_requests_ongoing"))
    ours = draft.answers["layer_requests_ongoing"].state is State.DERIVED
    return min(sum(inside.values()), float(slots)) if inside and ours and slots else None
