"""A document as GitHub-flavoured markdown; charts are left to HTML."""

from __future__ import annotations

from obs_exporter.probe.report.document import Chart, Document, Table, Text


def render(document: Document) -> str:
    """Return the markdown."""
    parts = [f"# {_plain(document.title)}", ""]
    for block in document.blocks:
        if isinstance(block, Text):
            parts += [*(f"- {_plain(line)}" for line in block.lines), ""]
        elif isinstance(block, Table):
            parts += [f"## {_plain(block.title)}", "", *_table(block), ""]
        elif isinstance(block, Chart):
            continue
    return "\n".join(parts).rstrip() + "\n"


def _table(table: Table) -> list[str]:
    aligns = ["---", *["---:"] * (len(table.columns) - 1)]
    return [
        _row(table.columns),
        _row(tuple(aligns)),
        *(_row(tuple(_plain(cell) for cell in row)) for row in table.rows),
    ]


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    """Return text in which nothing is taken for markup."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return text.replace("\n", " ")
