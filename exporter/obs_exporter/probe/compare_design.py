"""What is compared and what counts as one measurement: metrics, units (server lives or repeats), pairs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from obs_exporter.probe import stats
from obs_exporter.probe.report.levels import Load, by_load, values_of


@dataclass(frozen=True, slots=True)
class Metric:
    """One compared number: where it is in a level, whether more is better, and whether it is a share (else a ratio).

    ``due`` names a latency that an open loop counts from each request's scheduled time.
    """

    id: str
    name: str
    path: tuple[str, ...]
    more_is_better: bool
    share: bool = False
    due: str = ""


METRICS: tuple[Metric, ...] = (
    Metric("throughput", "output tokens/s", ("output_tokens_per_s",), True),
    Metric("ttft_p50", "TTFT p50", ("ttft_s", "p50"), False, due="ttft"),
    Metric("ttft_p95", "TTFT p95", ("ttft_s", "p95"), False, due="ttft"),
    Metric("tpot_p50", "TPOT p50", ("tpot_s", "p50"), False),
    Metric("e2e_p95", "E2E p95", ("e2e_s", "p95"), False, due="e2e"),
    Metric("goodput", "goodput", ("goodput",), True, share=True),
)


@dataclass(frozen=True, slots=True)
class Design:
    """How runs become units: the units of each side, and whether they pair."""

    baseline: tuple[dict[Load, list[dict[str, Any]]], ...]
    stack: tuple[dict[Load, list[dict[str, Any]]], ...]
    paired: bool
    words: str


def design_of(baseline: Sequence[dict[str, Any]], stack: Sequence[dict[str, Any]]) -> Design:
    """Choose the unit: result files where a side has several, else the repeats of the one file."""
    baseline, stack = _by_time(baseline), _by_time(stack)
    if len(baseline) > 1 or len(stack) > 1:
        units = tuple(by_load(one) for one in baseline), tuple(by_load(one) for one in stack)
        pairs = _interleaved(baseline, stack)
        how = f"{len(baseline)} and {len(stack)} server lives"
        words = f"unit: a result file (a server life); {how}" + (", interleaved: paired" if pairs else "")
        return Design(*units, pairs, words)
    sides = [_repeats(one[0]) for one in (baseline, stack)]
    most = max(len(sides[0]), len(sides[1]))
    words = "one run a side"
    if most > 1 and all((one[0].get("load") or {}).get("restarts") for one in (baseline, stack)):
        words = f"unit: a repeat after a restart (a server life); {len(sides[0])} and {len(sides[1])} server lives"
    elif most > 1:
        words = (
            f"unit: a repeat within one server life ({len(sides[0])} and {len(sides[1])}): the variance between"
            " restarts is not in these intervals, so they are too narrow"
        )
    return Design(sides[0], sides[1], False, words)


def _repeats(result: dict[str, Any]) -> tuple[dict[Load, list[dict[str, Any]]], ...]:
    numbers = sorted({level.get("repeat") or 0 for level in result["levels"]})
    return tuple(
        by_load(result | {"levels": [one for one in result["levels"] if (one.get("repeat") or 0) == number]})
        for number in numbers
    )


def _by_time(side: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a side's results in the order of their runs where that is known: files come in the order of names."""
    known = all(one.get("started_at") is not None for one in side)
    return sorted(side, key=lambda one: float(one["started_at"])) if known else list(side)


def _interleaved(baseline: Sequence[dict[str, Any]], stack: Sequence[dict[str, Any]]) -> bool:
    """Return whether the runs alternate in time so that each two neighbours are one of each side (ABBA, ABAB)."""
    if len(baseline) != len(stack) or any(one.get("started_at") is None for one in (*baseline, *stack)):
        return False
    order = sorted([(one["started_at"], "a") for one in baseline] + [(one["started_at"], "b") for one in stack])
    return all(order[i][1] != order[i + 1][1] for i in range(0, len(order), 2))


def counted_from(levels: Sequence[dict[str, Any]], metric: Metric) -> list[str]:
    """Return from when a latency counts in these levels: from the schedule in an open loop, else from the send.

    Numbers from elsewhere may have a rate and no schedule. Empty for what is no latency of the user.
    """
    if not metric.due:
        return []
    due = [bool((level.get("schedule") or {}).get(f"{metric.due}_from_schedule_s")) for level in levels]
    return sorted({"schedule" if one else "send" for one in due})


def unit_values(
    units: Sequence[dict[Load, list[dict[str, Any]]]], load: Load, metric: Metric, scheduled: bool = False
) -> list[float]:
    """Return one value a unit that has one, on the scale of comparison: the mean over the unit's repeats.

    ``scheduled`` takes a latency as it counts from the schedule.
    """
    path = ("schedule", f"{metric.due}_from_schedule_s", *metric.path[1:]) if scheduled else metric.path
    found = []
    for unit in units:
        values = values_of(unit.get(load, ()), *path)
        if not metric.share:
            values = [math.log(value) for value in values if value > 0]
        if values:
            found.append(stats.mean(values))
    return found
