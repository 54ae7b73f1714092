"""Simulated time: whole nanoseconds inside, seconds at the edges, so that integrals and sums agree exactly."""

from __future__ import annotations

NS = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NS)


def to_seconds(nanoseconds: int) -> float:
    """Whole nanoseconds as seconds."""
    return nanoseconds / NS
