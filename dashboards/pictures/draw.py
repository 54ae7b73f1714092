"""One panel as HTML and SVG, in the manner of the board's own kinds of panel."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.pictures.answers import Prometheus, Series, Span

COLOURS = ("#73bf69", "#5794f2", "#ff9830", "#b877d9", "#f2495c", "#fade2a", "#8ab8ff", "#ffa6b0", "#96d98d", "#ca95e5")
STATES = {
    "native": "#73bf69", "renamed": "#96d98d", "derived": "#5794f2", "log": "#5794f2", "estimated": "#8ab8ff",
    "hidden": "#ff9830", "lost": "#f2495c", "never": "#c4162a", "stale": "#ff9830", "unreachable": "#c4162a",
}  # fmt: skip
HIDDEN_COLUMNS = ("Time", "Value", "__name__", "job", "instance")
ROWS = 26
LEGENDS = 7


@dataclass(frozen=True, slots=True)
class Box:
    """The inside of a panel in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Line:
    """A series with its name; ``gone`` marks one that only says why there is no value."""

    name: str
    points: tuple[tuple[float, float], ...]
    gone: bool


def panel(given: dict[str, Any], box: Box, prometheus: Prometheus, span: Span) -> str:
    """Return the inside of a panel."""
    kind = given["type"]
    if kind == "text":
        return markdown(given["options"]["content"])
    unit = given["fieldConfig"]["defaults"].get("unit", "")
    if kind == "table":
        return table(given, prometheus.at_end(given["targets"][0]["expr"], span))
    instant = kind in ("stat", "bargauge")
    lines = [
        Line(named(target["legendFormat"], series.labels), series.points, target["expr"].endswith("* NaN"))
        for target in given["targets"]
        for series in (prometheus.at_end if instant or target["instant"] else prometheus.over)(target["expr"], span)
    ]
    if kind == "stat":
        return stat(lines, unit)
    if kind == "bargauge":
        return bars(lines, unit)
    return graph(lines, unit, box, span, given["fieldConfig"]["defaults"])


def named(legend: str, labels: dict[str, str]) -> str:
    """Fill a legend as Grafana does."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend).strip()


def number(value: float, unit: str) -> str:
    """Write a value in its unit, short."""
    if math.isnan(value):
        return ""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if abs(value) < 1 and value else f"{value:.3g} s"
    suffix = {"cps": " /s", "reqps": " req/s"}.get(
        unit, unit.removeprefix("suffix:") if unit.startswith("suffix:") else ""
    )
    return f"{value / 1000:.3g} k{suffix}" if abs(value) >= 10_000 else f"{value:.4g}{suffix}"


def tick(value: float, unit: str) -> str:
    """Write a value for an axis: the unit's suffix stands in the title's words, not on every line."""
    return number(value, unit if unit in ("percentunit", "s") else "")


def graph(lines: Sequence[Line], unit: str, box: Box, span: Span, defaults: dict[str, Any]) -> str:
    """Draw lines over time, with a legend below that also names who has no value, and why."""
    values = [value for line in lines for _, value in line.points if math.isfinite(value)]
    shown = sorted(lines, key=lambda line: line.gone)[:LEGENDS]
    left, bottom, top = 66, 20, 6
    height = box.height - 17 * max(1, len(shown)) - 8
    low = min([0.0, *values]) if "min" not in defaults else 0.0
    highest = max([low, *values])
    high = defaults.get("max") or (highest * 1.08 if highest > low else low + 1)
    width, inner = box.width - left - 8, height - bottom - top

    def place(moment: float, value: float) -> str:
        x = left + width * (moment - span.start) / (span.end - span.start)
        return f"{x:.1f},{top + inner * (1 - (min(value, high) - low) / (high - low)):.1f}"

    parts = [f'<svg width="{box.width}" height="{height}">']
    for part in range(5):
        value, y = low + (high - low) * part / 4, top + inner * (1 - part / 4)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{html.escape(tick(value, unit))}</text>')
    for part in range(4):
        moment = span.start + (span.end - span.start) * part / 3
        x = left + width * part / 3
        anchor = ("start", "middle", "middle", "end")[part]
        seconds = moment - span.start
        label = f"{seconds / 60:.0f} min" if span.end - span.start > 120 else f"{seconds:.0f} s"
        parts.append(f'<text x="{x:.1f}" y="{height - 5}" text-anchor="{anchor}">{label}</text>')
    solid = [line for line in lines if not line.gone]
    for index, line in enumerate(solid):
        colour = COLOURS[index % len(COLOURS)]
        for run in _runs(line.points):
            points = " ".join(place(moment, value) for moment, value in run)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return "".join([*parts, "</svg>", _legend(shown, solid, len(lines))])


def _runs(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Split a line where it has no value."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if math.isfinite(point[1]):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [[*run, run[0]] if len(run) == 1 else run for run in runs if run]


def _legend(shown: Sequence[Line], solid: Sequence[Line], total: int) -> str:
    rows = []
    for line in shown:
        colour = "#6e7077" if line.gone else COLOURS[solid.index(line) % len(COLOURS)]
        more = f" (and {total - len(shown)} more)" if line is shown[-1] and total > len(shown) else ""
        style = " class=gone" if line.gone else ""
        rows.append(f'<div{style}><i style="background:{colour}"></i>{html.escape(line.name + more)}</div>')
    return f'<div class="legend">{"".join(rows)}</div>'


def stat(lines: Sequence[Line], unit: str) -> str:
    """Draw big numbers; who has none stands below in small letters."""
    cells = []
    for line in lines:
        if not line.gone and line.points:
            value = number(line.points[-1][1], unit)
            cells.append(f"<div><small>{html.escape(line.name)}</small><b>{html.escape(value)}</b></div>")
    gone = [html.escape(line.name) for line in lines if line.gone]
    below = f'<div class="gone">{" &middot; ".join(gone)}</div>' if gone else ""
    return f'<div class="stat">{"".join(cells)}</div>{below}'


def bars(lines: Sequence[Line], unit: str) -> str:
    """Draw one bar a series."""
    values = [line.points[-1][1] for line in lines]
    high = 1.0 if unit == "percentunit" else max([1e-9, *(value for value in values if math.isfinite(value))])
    rows = []
    for line, value in zip(lines, values, strict=True):
        share = 0 if math.isnan(value) else 100 * value / high
        rows.append(
            f'<div class="bar"><span>{html.escape(line.name)}</span><p><i style="width:{share:.1f}%"></i></p>'
            f"<b>{html.escape(number(value, unit))}</b></div>"
        )
    return "".join(rows)


def table(given: dict[str, Any], series: Sequence[Series]) -> str:
    """Draw a table of labels, in the order that the panel asks for."""
    order = given["transformations"][0]["options"]["indexByName"]
    names = sorted(
        {name for row in series for name in row.labels} - set(HIDDEN_COLUMNS), key=lambda n: order.get(n, 99)
    )
    rows = sorted(series, key=lambda row: [row.labels.get(name, "") for name in names])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = []
    for row in rows[:ROWS]:
        cells = []
        for name in names:
            value = row.labels.get(name, "")
            colour = f' style="color:{STATES[value]}"' if name == "state" and value in STATES else ""
            cells.append(f"<td{colour}>{html.escape(value)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    more = f'<tr><td colspan="{len(names)}">and {len(rows) - ROWS} more</td></tr>' if len(rows) > ROWS else ""
    return f"<table><tr>{head}</tr>{''.join(body)}{more}</table>"


def markdown(text: str) -> str:
    """Draw a Markdown table; that is all that our text panels are."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|") and "---" not in line]
    head = "".join(f"<th>{_cell(value)}</th>" for value in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows[1:])
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text.strip()))
