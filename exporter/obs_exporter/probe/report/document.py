"""What a report says, as values: headings, remarks, tables and charts. How it looks is the renderers' matter."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Text:
    """Remarks, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first column is to the left, the others to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a chart: points in rising x. ``band`` are (x, low, high) of its spread over repeats."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A line chart. ``log_x`` puts doublings at equal distances; ``top`` fixes the end of the y axis."""

    title: str
    x_name: str
    y_name: str
    lines: tuple[Line, ...]
    log_x: bool = False
    top: float | None = None
    mark_x: tuple[float, str] | None = None


Block = Text | Table | Chart


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    blocks: tuple[Block, ...] = field(default=())
