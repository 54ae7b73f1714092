"""The charts of one result's report: curves by concurrency, and how TTFT is distributed. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from obs_exporter.probe.report.document import Chart, Line
from obs_exporter.probe.report.levels import LIMITED, Load, by_load, due, load_name, target_name, values_of

_FAR = 4
"""An SLO more than so many times the longest TTFT is not drawn: the curves would be one line at the left."""


def charts_of(result: dict[str, Any], baseline: dict[str, Any] | None) -> list[Chart]:
    """Return the charts that have something to draw."""
    sides = [(f"{target_name(one)}", one) for one in (baseline, result) if one is not None]
    if len(sides) == 2 and sides[0][0] == sides[1][0]:
        sides = [("baseline", sides[0][1]), ("this result", sides[1][1])]
    speed, good = [], []
    for name, one in sides:
        for scenario in sorted({load[0] for load in by_load(one) if load[1]}):
            levels = {load[1]: runs for load, runs in by_load(one).items() if load[0] == scenario and load[1]}
            sound = {slots: [r for r in runs if not r.get("client_limited")] for slots, runs in levels.items() if slots}
            label = f"{name}, {scenario}"
            speed.append(_line(label, sound, 1.0, "output_tokens_per_s"))
            good.append(_line(label, sound, 100.0, "goodput"))
    charts = [
        Chart("Throughput by concurrency", "concurrency", "output tokens/s", tuple(speed), log_x=True),
        Chart("Goodput by concurrency", "concurrency", "good requests, %", tuple(good), log_x=True, top=100.0),
    ]
    slo = result["slo"]["ttft_s"]
    for title, one in sides:
        curves = tuple(_curve(load, levels) for load, levels in by_load(one).items() if _curve_of(levels[-1]))
        if curves:
            name = f"TTFT distribution, {title} (last run of each level)"
            near = slo <= _FAR * max(x for line in curves for x, _ in line.points)
            x_name = "TTFT, s" if near else f"TTFT, s (the SLO of {slo:g} s is further right)"
            mark = (slo, "SLO") if near else None
            charts.append(Chart(name, x_name, "requests at most so slow, %", curves, top=100.0, mark_x=mark))
    return [chart for chart in charts if any(line.points for line in chart.lines)]


def _line(name: str, levels: dict[int, list[dict[str, Any]]], factor: float, key: str) -> Line:
    points, band = [], []
    for slots, runs in sorted(levels.items()):
        values = [value * factor for value in values_of(runs, key)]
        if values:
            points.append((float(slots), statistics.median(values)))
            if len(values) > 1:
                band.append((float(slots), min(values), max(values)))
    return Line(name, tuple(points), tuple(band))


def _curve_of(level: dict[str, Any]) -> list[float]:
    """Return a level's TTFT at even shares of its requests; in an open loop from the schedule on."""
    found: Any = level
    for key in (*due([level], "ttft"), "curve"):
        found = (found or {}).get(key)
    return list(found or ())


def _curve(load: Load, levels: Sequence[dict[str, Any]]) -> Line:
    values = _curve_of(levels[-1])
    share = 100.0 / max(1, len(values) - 1)
    name = f"{load_name(load)} ({LIMITED})" if levels[-1].get("client_limited") else load_name(load)
    return Line(name, tuple((value, i * share) for i, value in enumerate(values)))
