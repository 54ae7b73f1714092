"""Percentiles and small distributions. Pure; no I/O."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

QUANTILES: tuple[tuple[str, float], ...] = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))

_STEP = math.log(1.005)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of values in rising order, linear between neighbours. Raises ValueError without any."""
    if not ordered:
        raise ValueError("no values")
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def describe(values: Sequence[float]) -> dict[str, Any]:
    """Return n, mean and the percentiles of values in seconds; without values, n is 0 and the rest is None."""
    if not values:
        return {"n": 0, "mean": None} | dict.fromkeys((name for name, _ in QUANTILES))
    ordered = sorted(values)
    found = {name: round(quantile(ordered, share), 9) for name, share in QUANTILES}
    return {"n": len(ordered), "mean": round(math.fsum(ordered) / len(ordered), 9)} | found


class LogBins:
    """Counts of positive values in bins 0.5 % wide: percentiles of millions of gaps in little memory."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.sum = 0.0

    def add(self, values: Iterable[float]) -> None:
        """Count values in seconds; anything below a microsecond counts as one microsecond."""
        counts, log = self.counts, math.log
        for value in values:
            number = round(log(value if value > 1e-6 else 1e-6) / _STEP)
            counts[number] = counts.get(number, 0) + 1
            self.total += 1
            self.sum += value

    def describe(self) -> dict[str, Any]:
        """Return n, mean and the percentiles, the latter to within 0.25 %; without values, None."""
        if not self.total:
            return describe(())
        found: dict[str, Any] = {"n": self.total, "mean": round(self.sum / self.total, 9)}
        edges = iter(QUANTILES)
        name, share = next(edges)
        seen = 0
        for number in sorted(self.counts):
            seen += self.counts[number]
            while seen >= share * self.total:
                found[name] = round(math.exp(number * _STEP), 9)
                name, share = next(edges, ("", math.inf))
        return found


def distribution(values: Sequence[float], points: int = 60) -> list[float]:
    """Return ``points`` evenly spaced quantiles, from the least to the largest value: a curve to draw."""
    ordered = sorted(values)
    if not ordered:
        return []
    return [round(quantile(ordered, i / (points - 1)), 6) for i in range(points)]


def doubles() -> array[float]:
    """Return an empty array of doubles: eight bytes a value."""
    return array("d")
