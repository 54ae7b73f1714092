"""Panels and boards with grafanalib. No panel without a description and a unit; no signal's panel without its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import grafanalib.core as grafana

from dashboards import expressions

SOURCE = "${datasource}"
WIDTH = 24
STATE_LEGEND = "{{target}} has no {{signal}}: {{state}}, {{reason}}"
_LETTERS = "ABCDEFGHIJKLM"
_WITH_MODEL = "llm_requests_running|llm_generation_tokens_total|llm_layer_request_duration_seconds_count"
_MODEL = f'label_values({{__name__=~"{_WITH_MODEL}", {expressions.IDENTITY}}}, model)'


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel and what its series are called; ``now``: only at the end of the time shown."""

    expr: str
    legend: str = expressions.LEGEND
    table: bool = False
    now: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A panel with its width (of 24 columns) and height; its place follows from the order."""

    panel: Any
    width: int
    height: int


def graph(
    title: str, queries: Sequence[Query], unit: str, description: str, *,
    signals: tuple[str, ...] = (), width: int = 8, height: int = 8, floor: float | None = 0, top: float | None = None,
) -> Placed:  # fmt: skip
    """Make a time series panel; its axis begins at ``floor`` and ends at ``top``.

    With ``signals``, targets that lack one of them are named in the legend, with the reason.
    """
    shown = list(queries)
    if signals:
        shown.append(Query(expressions.state(*signals), STATE_LEGEND, now=True))
    panel = grafana.TimeSeries(
        title=title, description=description, unit=unit, dataSource=SOURCE, targets=_targets(shown), valueMin=floor,
        valueMax=top, fillOpacity=6, lineWidth=2, showPoints="auto", legendDisplayMode="list", tooltipMode="multi",
    )  # fmt: skip
    return Placed(panel, width, height)


def stat(
    title: str, queries: Sequence[Query], unit: str, description: str, *, width: int = 6, height: int = 4
) -> Placed:
    """Make a panel of big numbers: the last value of each series."""
    targets = _targets(queries, instant=True)
    panel = grafana.Stat(
        title=title, description=description, format=unit, dataSource=SOURCE, targets=targets, reduceCalc="lastNotNull",
        graphMode="none", colorMode="value", noValue="no exporter is scraped",
    )  # fmt: skip
    return Placed(panel, width, height)


def table(
    title: str, expr: str, description: str, *, columns: Sequence[str], hidden: Sequence[str] = (), unit: str = "none",
    height: int = 10, width: int = WIDTH, value: str = "", colours: Iterable[tuple[str, str]] = (),
) -> Placed:  # fmt: skip
    """Make a table of one instant query: labels become columns, in the order given; further labels follow.

    ``value`` names the column of the value, which is left out without it. ``colours`` paint the cells of the column
    ``state`` by their word.
    """
    gone = dict.fromkeys(("Time", *hidden, *(() if value else ("Value",))), True)
    order = {name: index for index, name in enumerate(columns)}
    panel = grafana.Table(
        title=title, description=description, unit=unit, dataSource=SOURCE,
        targets=_targets([Query(expr, "", table=True)], instant=True),
        transformations=[
            {"id": "organize", "options": {"excludeByName": gone, "indexByName": order,
                                           "renameByName": {"Value": value} if value else {}}},
        ],
        overrides=_painted(colours), filterable=True,
    )  # fmt: skip
    return Placed(panel, width, height)


def bars(title: str, queries: Sequence[Query], unit: str, description: str, *, width: int = 12) -> Placed:
    """Make a panel of bars, one a series, for values over the whole time shown."""
    panel = grafana.BarGauge(
        title=title, description=description, format=unit, dataSource=SOURCE, targets=_targets(queries, instant=True),
        orientation="horizontal", displayMode="gradient", calc="lastNotNull",
    )  # fmt: skip
    return Placed(panel, width, 8)


def note(title: str, markdown: str, description: str, *, height: int = 8) -> Placed:
    """Make a panel of text."""
    return Placed(grafana.Text(title=title, description=description, content=markdown, mode="markdown"), WIDTH, height)


def row(title: str) -> Placed:
    """Make a heading."""
    return Placed(grafana.RowPanel(title=title), WIDTH, 1)


def missing(signals: Sequence[str], *, height: int = 9) -> Placed:
    """Make the table that says which of a board's signals are not there, and why."""
    return table(
        "What these panels cannot show, and why", expressions.absent(signals, "all"),
        "Signals of this board that a target does not publish: llm_signal_info in a state without a value, now. Empty "
        "means that every target publishes all of them.",
        columns=("target", "stack", "signal", "state", "reason"), height=height,
    )  # fmt: skip


def board(uid: str, title: str, description: str, placed: Sequence[Placed], extra: Sequence[Any] = ()) -> Any:
    """Put panels from left to right and from top to bottom, with the four variables and ``extra`` ones."""
    x = y = depth = 0
    panels = []
    for number, item in enumerate(placed, start=1):
        if x + item.width > WIDTH:
            x, y, depth = 0, y + depth, 0
        item.panel.gridPos = grafana.GridPos(h=item.height, w=item.width, x=x, y=y)
        item.panel.id = number
        panels.append(item.panel)
        x, depth = x + item.width, max(depth, item.height)
    return grafana.Dashboard(
        title=title, uid=uid, description=description, panels=panels, tags=["llm-serving"], timezone="browser",
        sharedCrosshair=True, refresh="30s", templating=grafana.Templating(list=[*_variables(), *extra]),
    )  # fmt: skip


def variable(name: str, label: str, query: str, *, several: bool = True) -> Any:
    """Make a variable that asks Prometheus for its values."""
    return grafana.Template(
        name=name, label=label, query=query, dataSource=SOURCE, multi=several, includeAll=several,
        allValue=".*" if several else None, refresh=2, sort=1, default="All" if several else None,
    )  # fmt: skip


def _variables() -> list[Any]:
    return [
        grafana.Template(name="datasource", label="Data source", query="prometheus", type="datasource"),
        variable("stack", "Stack", "label_values(llm_signal_info, stack)"),
        variable("target", "Target", 'label_values(llm_signal_info{stack=~"$stack"}, target)'),
        variable("model", "Model", _MODEL),
    ]


def _targets(queries: Sequence[Query], *, instant: bool = False) -> list[Any]:
    return [
        grafana.Target(
            expr=query.expr, legendFormat=query.legend, refId=_LETTERS[index], instant=instant or query.now,
            datasource=SOURCE,
            format="table" if query.table else "time_series",
        )
        for index, query in enumerate(queries)
    ]  # fmt: skip


def _painted(colours: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    mapping = {word: {"color": colour, "index": index} for index, (word, colour) in enumerate(colours)}
    if not mapping:
        return []
    properties = [
        {"id": "mappings", "value": [{"type": "value", "options": mapping}]},
        {"id": "custom.cellOptions", "value": {"type": "color-text"}},
    ]
    return [{"matcher": {"id": "byName", "options": "state"}, "properties": properties}]
