"""Counters that restart: growth between two looks, and what mixed numbers prove. Pure values in and out."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
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
class Runs:
    """The least that counters add up to whose numbers come mixed, without a name, from any number of runs.

    A run begins at zero, and each of its numbers is larger than the one before. A number goes on with the highest run
    that it can follow; where there is none, another run wrote it, since no run prints what it has passed. So the sum of
    the runs' last numbers is never above the truth, whichever run wrote which, and whatever was not seen. It never
    falls.
    """

    last: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        """The sum over the runs."""
        return sum(self.last)

    def seen(self, number: float) -> Runs:
        """Return the runs after one more number; beyond ``MOST_RUNS`` no new one begins."""
        before = [index for index, value in enumerate(self.last) if value < number]
        if before:
            index = max(before, key=lambda one: self.last[one])
            return Runs((*self.last[:index], number, *self.last[index + 1 :]))
        return Runs((*self.last, number)) if len(self.last) < MOST_RUNS else self


MOST_RUNS = 256
