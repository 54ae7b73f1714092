"""A document as plain text for a terminal; charts are left to the other formats."""

from __future__ import annotations

from obs_exporter.probe.report.document import Chart, Document, Table, Text


def render(document: Document) -> str:
    """Return the text."""
    parts = [document.title, "=" * len(document.title), ""]
    for block in document.blocks:
        if isinstance(block, Text):
            parts += [*block.lines, ""]
        elif isinstance(block, Table):
            parts += [*_table(block), ""]
        elif isinstance(block, Chart):
            continue
    return "\n".join(parts).rstrip() + "\n"


def _table(table: Table) -> list[str]:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [table.title, lines[0].rstrip(), "  ".join("-" * w for w in widths), *(line.rstrip() for line in lines[1:])]
