"""The layer's own queue where it publishes none: the time at its edge less the time inside the replica behind it.

Ray Serve: proxy latency less the processing time of the ingress deployment's replicas. Both are exact sums before Ray
2.52, so their difference is; from 2.52 on Ray rebuilds sums from bucket midpoints (off by up to 88 % against access
logs), so that nothing but bounds from the buckets can be said. The router's fulfilment time is no way out: it is
observed once per attempt, and a request that replicas reject is observed many times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from obs_exporter.exposition import Page, Sample
from obs_exporter.schema import Histogram, Series
from obs_exporter.stacks.base import LayerWait


@dataclass(frozen=True, slots=True)
class Sums:
    """Sum in seconds and number of observations; ``low`` and ``high`` are the sum's bounds by its buckets."""

    sum: float
    count: float
    low: float = 0.0
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Rising:
    """A published number that never falls: what it stood at when the counters behind it last restarted, and since."""

    value: float = 0.0
    base: float = 0.0

    def seen(self, since: float, *, restarted: bool) -> Rising:
        """Return it after a look that finds ``since`` counted since the last restart."""
        base = self.value if restarted else self.base
        return Rising(max(self.value, base + since), base)


@dataclass(frozen=True, slots=True)
class State:
    """The sum of the waits in seconds with its bounds, and the number of requests, over restarts of the layer."""

    sum: Rising = Rising()
    low: Rising = Rising()
    high: Rising = Rising()
    count: Rising = Rising()
    last_count: float = 0.0


def step(state: State, outer: Sums, inner: Sums) -> State:
    """Return the state after a look.

    The processes behind the two report every 10 s, each at its own moment, so one may be ahead: the inner sum is scaled
    to the outer count. What is published never falls; where counters restarted it goes on from where it was.
    """
    restarted = outer.count < state.last_count
    inside = inner.sum * outer.count / inner.count if inner.count else 0.0
    return State(
        state.sum.seen(max(0.0, outer.sum - inside), restarted=restarted),
        state.low.seen(max(0.0, outer.low - inner.high), restarted=restarted),
        state.high.seen(max(0.0, outer.high - inner.low), restarted=restarted),
        state.count.seen(outer.count, restarted=restarted),
        outer.count,
    )


def at_the_edge(series: Iterable[Series]) -> Sums:
    """Return the sums of the layer's published duration, in seconds."""
    histograms = [one for one in series if isinstance(one, Histogram)]
    limits = [_limits(one.buckets) for one in histograms]
    return Sums(
        sum(one.sum for one in histograms), sum(one.count for one in histograms),
        sum(low for low, _ in limits), sum(high for _, high in limits),
    )  # fmt: skip


def behind_it(page: Page, facts: LayerWait) -> Sums | None:
    """Return the sums inside the replicas of the ingress, or None where it cannot be told which those are."""
    samples = page.samples
    names = {one.labels.get(facts.label, "") for one in samples.get(facts.inner + "_count", [])}
    ingress = {name for name in names if name.startswith(facts.ingress)} or (names if len(names) == 1 else set())
    if not ingress:
        return None

    def ours(suffix: str) -> list[Sample]:
        found = samples.get(facts.inner + suffix, [])
        return [one for one in found if one.labels.get(facts.label) in ingress]

    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for one in ours("_bucket"):
        key = tuple(sorted(item for item in one.labels.items() if item[0] != "le"))
        try:
            buckets.setdefault(key, []).append((float(one.labels.get("le", "")) * facts.factor, one.value))
        except ValueError:
            continue
    limits = [_limits(sorted(found)) for found in buckets.values()]
    total, count = (math.fsum(one.value for one in ours(suffix)) for suffix in ("_sum", "_count"))
    return Sums(total * facts.factor, count, sum(low for low, _ in limits), sum(high for _, high in limits))


def _limits(buckets: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what a histogram's sum is at least and at most; the last bucket has no upper edge."""
    low = high = edge = below = 0.0
    for upper, count in buckets:
        inside = count - below
        low += inside * edge
        high += inside * upper if inside else 0.0
        edge, below = upper, count
    return low, high
