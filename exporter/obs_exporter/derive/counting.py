"""Counters that restart: growth between two looks, and totals that never fall. Pure values in and out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def growth(before: Mapping[K, float], after: Mapping[K, float]) -> float | None:
    """Return how much a set of counters grew in sum, or None where one restarted, vanished or is no number.

    A series that is new began at zero, so that all of it is growth; but only beside others that went on.
    """
    total = 0.0
    for key, old in before.items():
        new = after.get(key)
        if new is None or not math.isfinite(new) or new < old:
            return None
        total += new - old
    new_ones = [value for key, value in after.items() if key not in before]
    if not before or not all(map(math.isfinite, new_ones)):
        return None
    return total + sum(new_ones)


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a set of counters over all their restarts: it never falls.

    ``last`` are the counters as last seen; one that is missing for a while keeps its place.
    """

    value: float = 0.0
    last: Mapping[str, float] = field(default_factory=dict)

    def seen(self, now: Mapping[str, float]) -> Total:
        """Return the total after seeing the counters: a lower number means that one began again at zero."""
        value = self.value
        for key, new in now.items():
            old = self.last.get(key, 0.0)
            value += new - old if new >= old else new
        return Total(value, {**self.last, **now})
