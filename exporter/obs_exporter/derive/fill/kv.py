"""The estimate of the KV cache usage, where it was asked for."""

from __future__ import annotations

import math

from obs_exporter.derive import kv_estimate
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import LOWER, OPEN_GAUGE, UPPER, Draft, Extra, counts, labelled, scalars
from obs_exporter.schema import BY_ID, Histogram, Precision, Provenance, Scalar, State
from obs_exporter.stacks.engine import GENERATED
from obs_exporter.stacks.model import Answer

_REASON = (
    "requests in the batch x (mean prompt + half the answer of a request that is seen running) / capacity; prefix "
    "sharing is not seen; only the bounds are sure"
)

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
    batch = _batch(draft, settings.max_num_seqs)
    if batch is None or not finished:
        return
    found = kv_estimate.estimate(
        batch,
        kv_estimate.Totals(
            sum(scalars(draft.series("prompt_tokens")).values()),
            sum(scalars(draft.series("generation_tokens")).values()),
            sum(counts(draft.series("ttft")).values()) or finished + batch.running,
            finished,
        ),
        kv_estimate.Cache(
            capacity, sum(scalars(draft.series("kv_cache_max_concurrency")).values()), float(settings.block_size)
        ),
        _bias(draft, context),
    )
    if found is None:
        return
    series = Scalar(labelled(draft.model), found.value)
    signal = BY_ID["kv_cache_usage"]
    draft.put(
        Answer(signal, State.ESTIMATED, _REASON, Provenance.COMPUTED, Precision.SAMPLED, "computed", series=(series,))
    )
    draft.extras += [Extra(signal.id, LOWER, found.lower), Extra(signal.id, UPPER, found.upper)]


def _batch(draft: Draft, slots: int) -> kv_estimate.Batch | None:
    """Return how many requests are in the batch: as published, else as many of those inside as there are slots.

    Of those inside some may still wait though slots are free, so that not one is surely in the batch.
    """
    running = scalars(draft.series("requests_running"))
    if running:
        total = sum(running.values())
        return kv_estimate.Batch(total, total, total)
    inside = scalars(draft.series("layer_requests_ongoing"))
    ours = draft.answers["layer_requests_ongoing"].state is State.DERIVED
    if not (inside and ours and slots):
        return None
    return kv_estimate.Batch(min(sum(inside.values()), float(slots)), 0.0, float(slots))


def _bias(draft: Draft, context: Context) -> float:
    """Return how many times longer answers are among those running: by their lengths, else by their times.

    An engine's step takes as long for a short answer as for a long one, so that times are as good as lengths, but for
    the waiting in the whole duration.
    """
    name = context.stack.engine_families(context.page).get(GENERATED, "")
    samples = context.page.samples
    found: dict[float, float] = {}
    for one in samples.get(f"{name}_bucket", []) if name else []:
        try:
            edge = float(one.labels.get("le", ""))
        except ValueError:
            continue
        found[edge] = found.get(edge, 0.0) + one.value
    if found:
        total = math.fsum(one.value for one in samples.get(f"{name}_sum", []))
        return kv_estimate.length_bias(sorted(found.items()), total)
    for signal in ("decode_time", "request_duration"):
        histograms = [one for one in draft.series(signal) if isinstance(one, Histogram) and one.count]
        if histograms:
            largest = max(histograms, key=lambda one: one.count)
            return kv_estimate.length_bias(largest.buckets, largest.sum)
    return 1.0
