"""A whole board as one HTML page, panels where Grafana would put them."""

from __future__ import annotations

import html
from typing import Any

from dashboards.pictures.answers import Prometheus, Span
from dashboards.pictures.draw import Box, panel

WIDTH, COLUMN, ROW, GAP = 1440, 60, 34, 6

STYLE = """
* { box-sizing: border-box; margin: 0 }
body { background: #111217; color: #ccccdc; font: 12px 'DejaVu Sans', sans-serif; width: 1440px }
h1 { font-size: 17px; padding: 12px 10px 2px }
h1 + p { padding: 0 10px 10px; color: #8e8e99 }
h2 { font-size: 12px; padding: 2px 2px 4px }
main { position: relative }
section { position: absolute; background: #181b1f; border: 1px solid #25272c; overflow: hidden; padding: 4px 6px }
section.row { background: none; border: none; font-weight: bold; font-size: 13px; padding-top: 10px }
text { fill: #8e8e99; font-size: 10px }
.grid { stroke: #25272c }
.legend div, .gone { white-space: nowrap; overflow: hidden; text-overflow: ellipsis }
.legend div { height: 17px; font-size: 11px }
.legend i { display: inline-block; width: 12px; height: 3px; margin: 0 6px 3px 2px }
.gone { color: #8e8e99; font-style: italic; font-size: 11px }
.stat { display: flex; justify-content: space-around; padding-top: 4px }
.stat div { text-align: center }
.stat b { display: block; font-size: 15px; color: #73bf69; font-weight: normal; white-space: nowrap }
small { color: #8e8e99 }
table { border-collapse: collapse; font-size: 11px; width: 100% }
td, th { text-align: left; padding: 2px 6px; border-bottom: 1px solid #25272c; vertical-align: top }
th { color: #8ab8ff; font-weight: normal }
code { color: #8ab8ff }
.bar { display: flex; align-items: center; height: 34px }
.bar span { width: 260px }
.bar p { flex: 1; background: #25272c; height: 16px }
.bar b { width: 80px; text-align: right; font-weight: normal }
.bar i { display: block; height: 16px; background: #5794f2 }
"""


def page(board: dict[str, Any], prometheus: Prometheus, span: Span, note: str) -> tuple[str, int]:
    """Return the page and its height in pixels."""
    parts = []
    bottom = 0
    for given in board["panels"]:
        at = given["gridPos"]
        width, height = at["w"] * COLUMN - GAP, at["h"] * ROW - GAP
        top = at["y"] * ROW
        bottom = max(bottom, top + at["h"] * ROW)
        style = f"left:{at['x'] * COLUMN + GAP // 2}px;top:{top}px;width:{width}px;height:{height}px"
        title = html.escape(given["title"])
        if given["type"] == "row":
            parts.append(f'<section class="row" style="{style}">{title}</section>')
            continue
        inside = panel(given, Box(width - 14, height - 32), prometheus, span)
        parts.append(f'<section style="{style}"><h2>{title}</h2>{inside}</section>')
    head = f"<h1>{html.escape(board['title'])}</h1><p>{html.escape(note)}</p>"
    text = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><body>{head}<main>{''.join(parts)}</main>"
    return text, bottom + 70
