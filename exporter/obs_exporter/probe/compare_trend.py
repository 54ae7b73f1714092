"""Does the cost of a layer grow with load? The slope of the ratio per doubling of concurrency. Pure."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from obs_exporter.probe import stats
from obs_exporter.probe.compare_design import METRICS, Design, Metric, unit_values
from obs_exporter.probe.report.levels import Load


@dataclass(frozen=True, slots=True)
class Trend:
    """How a ratio changes with each doubling of concurrency: ``per_doubling`` -0.15 is 15 % less at twice the load."""

    metric: Metric
    scenario: str
    per_doubling: float
    low: float
    high: float
    words: str


def trends_of(design: Design, loads: Sequence[Load], sound: Container[tuple[str, Load]]) -> list[Trend]:
    """Return the trend of every ratio over each scenario's closed-loop levels, where three levels or runs allow it.

    ``sound`` holds the pairs of a number's id and a load that can be compared; the others are in no trend.
    """
    found = []
    for scenario in sorted({load[0] for load in loads if load[1]}):
        own = [load for load in loads if load[0] == scenario and load[1]]
        for metric in METRICS:
            usable = [load for load in own if (metric.id, load) in sound]
            trend = None if metric.share else _trend(metric, scenario, usable, design)
            if trend is not None:
                found.append(trend)
    return found


def _trend(metric: Metric, scenario: str, loads: Sequence[Load], design: Design) -> Trend | None:
    """Return the slope of the log ratio per doubling: over units where there are several, else over levels."""
    sides = [_unit_slopes(units, loads, metric) for units in (design.baseline, design.stack)]
    try:
        if len(sides[0]) > 1 and len(sides[1]) > 1:
            pairs = design.paired and len(sides[0]) == len(sides[1]) == len(design.baseline)
            estimate = stats.paired(*sides) if pairs else stats.welch(*sides)
        else:
            xs, ys = [], []
            for load in loads:
                a, b = unit_values(design.baseline, load, metric), unit_values(design.stack, load, metric)
                if a and b:
                    xs.append(math.log2(load[1] or 1))
                    ys.append(stats.mean(b) - stats.mean(a))
            estimate = stats.slope(xs, ys)
    except ValueError:
        return None
    low, high = estimate.interval()
    worse = (estimate.difference < 0) == metric.more_is_better
    words = "no trend with load seen"
    if low > 0 or high < 0:
        words = "the overhead grows with load" if worse else "the overhead shrinks with load"
    middle, low, high = (math.expm1(x) for x in (estimate.difference, low, high))
    return Trend(metric, scenario, middle, low, high, f"{words} ({estimate.method})")


def _unit_slopes(
    units: Sequence[dict[Load, list[dict[str, Any]]]], loads: Sequence[Load], metric: Metric
) -> list[float]:
    """Return each unit's own slope of the log value per doubling of concurrency."""
    found = []
    for unit in units:
        points = [(math.log2(load[1] or 1), unit_values([unit], load, metric)) for load in loads]
        known = [(x, values[0]) for x, values in points if values]
        if len({x for x, _ in known}) >= 2:
            middle = stats.mean([x for x, _ in known])
            level = stats.mean([y for _, y in known])
            spread = math.fsum((x - middle) ** 2 for x, _ in known)
            found.append(math.fsum((x - middle) * (y - level) for x, y in known) / spread)
    return found
