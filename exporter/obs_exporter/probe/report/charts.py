"""Line charts as SVG text. Colours come from the page's style, so a chart suits light and dark."""

from __future__ import annotations

import math
from html import escape

from obs_exporter.probe.report.document import Chart, Line

_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44
_COLOURS = 8
_LEGEND_ROW = 18
_LEGEND_CHARS = 60
"""Longer names are cut in the middle: their ends tell most."""


def nice_step(span: float, most: int) -> float:
    """Return the step 1, 2 or 5 times a power of ten that cuts ``span`` into at most ``most`` parts."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= most + 1e-9)


def svg(chart: Chart) -> str:
    """Return the chart as an SVG element."""
    lines = tuple(line for line in chart.lines if line.points)
    if not lines:
        return "<p>nothing to draw</p>"
    frame = _Frame(chart, lines)
    height = _HEIGHT + _LEGEND_ROW * len(lines)
    label = escape(f"{chart.title}: {chart.y_name} by {chart.x_name}")
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="{label}">'
    ]
    parts += frame.axes()
    for number, line in enumerate(lines):
        parts += _curve(frame, line, number)
        parts += _legend(line, number)
    return "\n".join([*parts, "</svg>"])


class _Frame:
    """Maps values to the drawing's coordinates."""

    def __init__(self, chart: Chart, lines: tuple[Line, ...]) -> None:
        self._chart = chart
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points] + [high for line in lines for _, _, high in line.band]
        if chart.mark_x is not None:
            xs.append(chart.mark_x[0])
        self._xs = sorted(set(xs))
        self._low, self._high = (self._scale(min(xs)) if chart.log_x else 0.0), self._scale(max(xs))
        if self._low == self._high:
            self._low, self._high = self._low - 1, self._high + 1
        top = chart.top or max(ys) or 1.0
        self._step = nice_step(top, 6)
        self._top = chart.top or math.ceil(top / self._step - 1e-9) * self._step

    def _scale(self, x: float) -> float:
        return math.log2(x) if self._chart.log_x else x

    def x(self, value: float) -> float:
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        return round(_TOP + (1 - min(value, self._top) / self._top) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def axes(self) -> list[str]:
        chart, floor = self._chart, self.y(0)
        parts = []
        for i in range(round(self._top / self._step) + 1):
            at = self.y(i * self._step)
            parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{at + 4}" text-anchor="end">{i * self._step:.6g}</text>')
        parts += [
            f'<text x="{self.x(value)}" y="{floor + 16}" text-anchor="middle">{value:.6g}</text>'
            for value in self._ticks()
        ]
        if chart.mark_x is not None:
            at = self.x(chart.mark_x[0])
            parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{_TOP}" y2="{floor}"/>')
            parts.append(f'<text x="{at - 4}" y="{_TOP + 12}" text-anchor="end">{escape(chart.mark_x[1])}</text>')
        middle = (_TOP + floor) / 2
        parts.append(
            f'<text x="{(_LEFT + _WIDTH) / 2}" y="{floor + 34}" text-anchor="middle">{escape(chart.x_name)}</text>'
        )
        parts.append(
            f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(chart.y_name)}</text>'
        )
        return parts

    def _ticks(self) -> list[float]:
        if self._chart.log_x and len(self._xs) <= 12:
            return self._xs
        step = nice_step(self._high - self._low, 8)
        first = math.ceil(self._low / step)
        ticks = [i * step for i in range(first, math.floor(self._high / step + 1e-9) + 1)]
        return [2.0**tick for tick in ticks] if self._chart.log_x else ticks


def _curve(frame: _Frame, line: Line, number: int) -> list[str]:
    colour = f"var(--s{number % _COLOURS})"
    parts = []
    for x, low, high in line.band:
        at = frame.x(x)
        parts.append(
            f'<line stroke="{colour}" stroke-width="1.5" x1="{at}" x2="{at}" y1="{frame.y(low)}" y2="{frame.y(high)}"/>'
        )
    points = " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in line.points)
    parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
    if len(line.points) <= 16:
        parts += [f'<circle fill="{colour}" r="3" cx="{frame.x(x)}" cy="{frame.y(y)}"/>' for x, y in line.points]
    return parts


def _legend(line: Line, number: int) -> list[str]:
    at = _HEIGHT + _LEGEND_ROW * number + 4
    colour = f"var(--s{number % _COLOURS})"
    half = _LEGEND_CHARS // 2
    name = line.name if len(line.name) <= _LEGEND_CHARS else f"{line.name[:half]}...{line.name[-half:]}"
    return [
        f'<line stroke="{colour}" stroke-width="3" x1="{_LEFT}" x2="{_LEFT + 22}" y1="{at}" y2="{at}"/>',
        f'<text x="{_LEFT + 30}" y="{at + 4}"><title>{escape(line.name)}</title>{escape(name)}</text>',
    ]
