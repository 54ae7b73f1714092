"""How late this process reads what the kernel has received: a histogram, published so that the client can be judged."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

EDGES_S: tuple[float, ...] = (0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Upper edges in seconds."""

_EDGES_NS = tuple(round(edge * 1e9) for edge in EDGES_S)


class LagHistogram:
    """Counts of read lags; ``counts`` has one entry an edge and one for what is above the last."""

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_S) + 1)
        self.sum_ns = 0

    def add(self, lag_ns: int) -> None:
        """Count one lag in nanoseconds."""
        self.counts[bisect_left(_EDGES_NS, lag_ns)] += 1
        self.sum_ns += lag_ns

    def clear(self) -> None:
        """Forget all counts."""
        self.counts = [0] * len(self.counts)
        self.sum_ns = 0

    def merge(self, other: LagHistogram) -> None:
        """Add another histogram's counts."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum_ns += other.sum_ns

    def bound(self, share: float) -> float | None:
        """Return the edge in seconds below which ``share`` of the lags are; None without lags, inf above the last."""
        total = sum(self.counts)
        if not total:
            return None
        seen = 0
        for edge, count in zip((*EDGES_S, float("inf")), self.counts, strict=True):
            seen += count
            if seen >= share * total:
                return edge
        return float("inf")

    def to_json(self) -> dict[str, Any]:
        """Return the histogram as JSON values: counts by upper edge (not cumulative), their number and their sum."""
        names = (*(f"{edge:g}" for edge in EDGES_S), "+Inf")
        return {
            "count": sum(self.counts),
            "sum_s": round(self.sum_ns / 1e9, 6),
            "by_edge_s": dict(zip(names, self.counts, strict=True)),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LagHistogram:
        """Build the histogram from ``to_json``'s values; an edge of another version counts as the next one above it.

        Raises ValueError for an edge that is no number.
        """
        found = cls()
        for edge, count in (data.get("by_edge_s") or {}).items():
            found.counts[bisect_left(EDGES_S, float(edge))] += count
        found.sum_ns = round((data.get("sum_s") or 0.0) * 1e9)
        return found
