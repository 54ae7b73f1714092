"""The schema as a table: for the terminal, for programs, and for the docs (a test keeps the docs equal to it)."""

from __future__ import annotations

import json

from obs_exporter.schema.signals import SIGNALS, Signal
from obs_exporter.schema.vocabulary import Precision, Provenance, State

_HEAD = ("signal", "metric", "type", "unit", "labels", "several series", "stability", "meaning")


def _row(signal: Signal) -> tuple[str, ...]:
    return (
        signal.id, signal.metric, str(signal.kind), signal.unit, ", ".join(signal.label_names), str(signal.aggregation),
        str(signal.stability), signal.meaning,
    )  # fmt: skip


def text() -> str:
    """Return the table in aligned columns, without the labels, for a terminal."""
    columns = (0, 1, 2, 3, 7)
    rows = [tuple(row[index] for index in columns) for row in (_HEAD, *map(_row, SIGNALS))]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    return "\n".join(lines) + "\n"


def as_json() -> str:
    """Return the table as a JSON list of objects."""
    fields = [name.replace(" ", "_") for name in _HEAD]
    rows = [dict(zip(fields, _row(signal), strict=True)) | {"labels": list(signal.label_names)} for signal in SIGNALS]
    return json.dumps(rows, indent=2) + "\n"


def markdown() -> str:
    """Return the table as Markdown, with the words of states, provenance and precision below it."""
    lines = [f"| {' | '.join(_HEAD)} |", "|" + "---|" * len(_HEAD)]
    for signal in SIGNALS:
        row = list(_row(signal))
        row[1] = f"`{row[1]}`"
        lines.append(f"| {' | '.join(row)} |")
    for title, words in (("State", State), ("Provenance", Provenance), ("Precision", Precision)):
        lines += ["", f"| {title.lower()} | meaning |", "|---|---|"]
        lines += [f"| `{word}` | {word.meaning} |" for word in words]
    return "\n".join(lines) + "\n"


FORMATS = {"text": text, "json": as_json, "markdown": markdown}
