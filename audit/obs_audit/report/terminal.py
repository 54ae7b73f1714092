"""The text report: colours and boxes on a terminal, plain columns in a log."""

from __future__ import annotations

import os
import shutil
import sys

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from obs_audit.findings import Severity
from obs_audit.verdict import Report
from obs_exporter.schema import Precision, State
from obs_exporter.stacks import STACKS

_STYLES = {
    State.NATIVE: "green", State.RENAMED: "green", State.DERIVED: "cyan", State.LOG: "cyan", State.ESTIMATED: "cyan",
    State.IDLE: "blue", State.HIDDEN: "yellow", State.LOST: "bold red", State.STALE: "yellow",
    State.UNREACHABLE: "bold red", State.NEVER: "dim", State.NOT_APPLICABLE: "dim",
}  # fmt: skip
_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
WIDTH = 140
"""Columns where nothing tells the width: a log, a file, a pipe."""


def render(report: Report) -> str:
    """Return the report as text, with colour codes where standard output is a terminal that wants them."""
    terminal = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    console = Console(
        width=max(width, 80), force_terminal=terminal, no_color=not terminal, highlight=False,
        color_system="auto" if terminal else None, legacy_windows=False,
    )  # fmt: skip
    console.begin_capture()
    _head(console, report)
    if not report.reading.reachable:
        console.print("Nothing can be said of any signal: no page could be read.", style="bold red")
        return _plain(console)
    console.print(_signals(report))
    _remedies(console, report)
    _findings(console, report)
    _summary(console, report)
    return _plain(console)


def _plain(console: Console) -> str:
    """Return what was printed, without the blanks that fill up lines."""
    lines = console.end_capture().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(console: Console, report: Report) -> None:
    reading = report.reading
    title = STACKS[reading.stack].title
    stack, engine = reading.stack_version, reading.engine_version
    generation = f" ({reading.generation} engine)" if reading.generation else ""
    console.print(Text(f"{title} {stack}", style="bold") + Text(f"  ({stack.source})", style="dim"))
    if reading.stack != "vllm":
        console.print(Text(f"vLLM {engine}{generation}") + Text(f"  ({engine.source})", style="dim"))
    if report.paper:
        console.print(
            "Paper audit: no page was read; this is what the stack is known to do at this version.", style="dim"
        )
    for exhibit in report.exhibits:
        said = exhibit.reading.problem or (
            f"{exhibit.counts.families} families, {exhibit.counts.engine_families} of the engine, "
            f"{exhibit.counts.series} series" if exhibit.counts else ""
        )  # fmt: skip
        style = "bold red" if exhibit.reading.problem else "dim"
        console.print(Text(f"{exhibit.source}: {said}", style=style))
    console.print()


def _signals(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for name in ("signal", "state", "precision", "source", "why"):
        table.add_column(name, overflow="fold", no_wrap=name in ("signal", "state"))
    before = ""
    for answer in report.reading.answers:
        repeated = answer.reason and answer.reason == before
        table.add_row(
            answer.signal.id,
            Text(str(answer.state), style=_STYLES[answer.state]),
            "" if answer.precision is Precision.NONE else str(answer.precision),
            answer.native_name,
            Text("(the same)", style="dim") if repeated else answer.reason,
        )
        before = answer.reason
    return table


def _remedies(console: Console, report: Report) -> None:
    """Print each remedy once, with the signals that it brings back."""
    by_remedy: dict[tuple[str, str], list[str]] = {}
    for answer in report.reading.answers:
        if answer.remedy and answer.state in (State.HIDDEN, State.LOST, State.STALE):
            by_remedy.setdefault((answer.remedy, answer.cost), []).append(answer.signal.id)
    if not by_remedy:
        return
    console.print("\nHow to get them back", style="bold")
    for (remedy, cost), signals in by_remedy.items():
        console.print(Text(", ".join(signals), style="yellow"))
        console.print(Padding(remedy + (f" (costs: {cost})" if cost else ""), (0, 0, 0, 2)))


def _findings(console: Console, report: Report) -> None:
    """Print what the table above does not say yet."""
    others = [finding for finding in report.findings if not finding.check.startswith("signal_")]
    if not others:
        return
    console.print("\nFindings", style="bold")
    for finding in others:
        word = Text(str(finding.severity), style=_SEVERITIES[finding.severity])
        about = f" [{finding.check}{': ' + finding.signal if finding.signal else ''}] "
        console.print(word + Text(about, style="dim") + Text(finding.message))
        if finding.remedy:
            console.print(Padding(finding.remedy, (0, 0, 0, 2)))


def _summary(console: Console, report: Report) -> None:
    counts: dict[State, int] = {}
    for answer in report.reading.answers:
        counts[answer.state] = counts.get(answer.state, 0) + 1
    parts = [f"{counts[state]} {state}" for state in State if state in counts]
    console.print()
    console.print(Text(f"{report.published} of {len(report.reading.answers)} signals published", style="bold")
                  + Text(f": {', '.join(parts)}"))  # fmt: skip
