"""What the reports share: levels grouped by load, and numbers over their repeats. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Load = tuple[str, int | None, float | None]
LIMITED = "client-limited"
OVERLAP_FLOOR = 0.9
"""Shards that ran together for less of a level did not put its load on."""


def load_of(level: dict[str, Any]) -> Load:
    """Return a level's scenario, concurrency and rate."""
    return level["scenario"], level.get("concurrency"), level.get("rate")


def load_name(load: Load) -> str:
    """Return a load in words."""
    scenario, slots, rate = load
    return f"{scenario} c={slots}" if slots else f"{scenario} {rate or 0:g}/s"


def by_load(result: dict[str, Any]) -> dict[Load, list[dict[str, Any]]]:
    """Return the repeats of each load, loads sorted."""
    found: dict[Load, list[dict[str, Any]]] = {}
    for level in sorted(
        result["levels"], key=lambda one: (one["scenario"], one.get("concurrency") or 0, one.get("rate") or 0)
    ):
        found.setdefault(load_of(level), []).append(level)
    return found


def median_of(levels: Sequence[dict[str, Any]], *path: str) -> float | None:
    """Return the median over repeats of a number at ``path`` (throughput, ttft_s p95); None when no repeat has it."""
    values = values_of(levels, *path)
    return statistics.median(values) if values else None


def values_of(levels: Sequence[dict[str, Any]], *path: str) -> list[float]:
    """Return the numbers at ``path`` of all repeats that have one."""
    found = []
    for level in levels:
        value: Any = level
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            found.append(float(value))
    return found


def due(levels: Sequence[dict[str, Any]], kind: str) -> tuple[str, ...]:
    """Return where a latency (ttft or e2e) is that users of this load feel: in an open loop, from the schedule on."""
    key = f"{kind}_from_schedule_s"
    return ("schedule", key) if any((level.get("schedule") or {}).get(key) for level in levels) else (f"{kind}_s",)


def target_name(result: dict[str, Any]) -> str:
    """Return what a result calls its target."""
    target = result["target"]
    return str(target.get("name") or target.get("url") or "result")
