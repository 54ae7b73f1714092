"""Values in the schema's units: what a mapping yields and what the collector renders."""

from __future__ import annotations

from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
"""Sorted (name, value) pairs: hashable, and the same on each run."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One gauge or counter series.

    ``labels`` are the schema's own labels without ``stack`` and ``target``, which the collector adds.
    """

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram series.

    ``buckets`` are cumulative (upper edge, count) pairs in rising order; the last edge is ``inf`` and its count is the
    number of observations. A source that knows only sum and count has that one bucket.
    """

    labels: Labels
    buckets: tuple[tuple[float, float], ...]
    sum: float

    @property
    def count(self) -> float:
        """The number of observations."""
        return self.buckets[-1][1]


Series = Scalar | Histogram
