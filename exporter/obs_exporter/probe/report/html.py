"""A document as one HTML file: styles and charts are inside, no script, nothing is loaded from anywhere."""

from __future__ import annotations

from html import escape

from obs_exporter.probe.report.charts import svg
from obs_exporter.probe.report.document import Document, Table, Text

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --rule: #d1d9e0; --page: #fff; --stripe: #f6f8fa;
 --s0: #0969da; --s1: #bc4c00; --s2: #1a7f37; --s3: #8250df; --s4: #9a6700; --s5: #cf222e;
 --s6: #57606a; --s7: #0a7ea4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --rule: #3d444d; --page: #0d1117;
 --stripe: #151b23; --s0: #4493f8; --s1: #f0883e; --s2: #3fb950; --s3: #ab7df8; --s4: #d29922; --s5: #f85149;
 --s6: #9198a1; --s7: #39c5cf; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 78rem;
 margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; text-align: right; border-bottom: 1px solid var(--rule); }
td { white-space: nowrap; } th { vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; } tbody tr:nth-child(even) { background: var(--stripe); }
th { color: var(--soft); font-weight: 600; }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem; }
figure { margin: 1rem 0 0; min-width: 0; max-width: 100%; }
figcaption { font-weight: 600; } svg { max-width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
.axis { stroke: var(--rule); } .mark { stroke: var(--soft); stroke-dasharray: 4 4; }
"""


def render(document: Document) -> str:
    """Return the page."""
    title = escape(document.title)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>",
    ]
    in_charts = False
    for block in document.blocks:
        is_chart = not isinstance(block, Text | Table)
        if is_chart != in_charts:
            parts.append('<div class="charts">' if is_chart else "</div>")
            in_charts = is_chart
        if isinstance(block, Text):
            parts.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in block.lines) + "</ul>")
        elif isinstance(block, Table):
            parts.append(_table(block))
        else:
            parts.append(f"<figure><figcaption>{escape(block.title)}</figcaption>{svg(block)}</figure>")
    if in_charts:
        parts.append("</div>")
    return "\n".join([*parts, "</main>\n</body>\n</html>\n"])


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return (
        f'<h2>{escape(table.title)}</h2>\n<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )
