"""The text report: colours on a terminal, plain columns in a log. What is lost and what to do stands first."""

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
from obs_audit.report import grouping
from obs_audit.verdict import Report
from obs_exporter.schema import Precision, State

_STYLES = {
    State.NATIVE: "green", State.RENAMED: "green", State.DERIVED: "cyan", State.LOG: "cyan", State.ESTIMATED: "cyan",
    State.IDLE: "blue", State.HIDDEN: "yellow", State.LOST: "bold red", State.STALE: "bold red",
    State.UNREACHABLE: "bold red", State.NEVER: "dim", State.NOT_APPLICABLE: "dim",
}  # fmt: skip
_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "blue"}
WIDTH = 120
"""Columns where nothing tells the width: a log, a file, a pipe."""


def render(report: Report) -> str:
    """Return the report as text, with colour codes where standard output is a terminal that wants them."""
    terminal = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = min(shutil.get_terminal_size().columns, WIDTH) if sys.stdout.isatty() else WIDTH
    console = Console(
        width=max(width, 80), force_terminal=terminal, no_color=not terminal, highlight=False,
        color_system="auto" if terminal else None, legacy_windows=False,
    )  # fmt: skip
    console.begin_capture()
    _head(console, report)
    if report.reading.reachable:
        for group in grouping.groups(report, grouping.TROUBLE):
            _group(console, group)
        _published(console, report)
        for group in grouping.groups(report, grouping.ABSENT):
            _group(console, group, quiet=True)
    else:
        console.print("Nothing can be said of any signal: no page could be read.", style="bold red")
    _findings(console, report)
    if report.reading.reachable:
        _notes(console, report)
    return _plain(console)


def _plain(console: Console) -> str:
    """Return what was printed, without the blanks that fill up lines."""
    lines = console.end_capture().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(console: Console, report: Report) -> None:
    for name, source in grouping.identity(report):
        console.print(Text(name, style="bold") + Text(f"  ({source})", style="dim"))
    if report.paper:
        console.print("Paper audit: no page was read; this is what is known of these versions.", style="dim")
    for source, said, bad in grouping.evidence(report):
        console.print(Text(f"{source}: {said}", style="bold red" if bad else "dim"))
    profile = report.asked.profile
    if profile.name != "all":
        console.print(Text(f"Profile {profile.name}: {profile.meaning}", style="dim"))
    if report.reading.reachable:
        console.print(Text(grouping.summary(report), style="bold"))
    console.print()


def _group(console: Console, group: grouping.Group, *, quiet: bool = False) -> None:
    """Print one group: the signals, why, and what to do."""
    head = Text(f"{group.state:<15}", style=_STYLES[group.state])
    console.print(_hanging(head, ", ".join(group.signals)))
    if group.waiver:
        console.print(_hanging(Text(f"{'':<9}waived"), group.waiver, style="blue"))
    console.print(_hanging(Text(f"{'':<12}why"), group.reason, style="dim"))
    if group.remedy:
        console.print(_hanging(Text(f"{'':<13}do"), group.remedy, style="dim" if quiet else ""))
    if group.cost and not quiet:
        console.print(_hanging(Text(f"{'':<11}cost"), group.cost, style="dim"))


def _hanging(head: Text, text: str, style: str = "") -> Table:
    """Return two columns: a word, and text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=15, no_wrap=True)
    grid.add_column()
    grid.add_row(head, Text(text, style=style))
    return grid


def _published(console: Console, report: Report) -> None:
    """Print what has a value: its state, where it is, and what a reader of it has to know."""
    answers = grouping.published(report)
    if not answers:
        return
    if any(answer.state in grouping.TROUBLE for answer in report.answers):
        console.print()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for name in ("signal", "state", "precision", "name on the page"):
        table.add_column(name, overflow="fold", no_wrap=name in ("signal", "state"))
    for answer in answers:
        table.add_row(
            answer.signal.id,
            Text(str(answer.state), style=_STYLES[answer.state]),
            "" if answer.precision is Precision.NONE else str(answer.precision),
            Text(answer.native_name) + Text(f"\n{answer.reason}" if answer.reason else "", style="dim"),
        )
    console.print(table)
    if any(answer.state in grouping.ABSENT for answer in report.answers):
        console.print()


def _findings(console: Console, report: Report) -> None:
    """Print what the groups above do not say yet."""
    others = grouping.other_findings(report)
    if not others:
        return
    console.print("\nFindings", style="bold")
    for finding in others:
        about = finding.check + (f", {finding.signal}" if finding.signal else "")
        style = "dim" if finding.waived else _SEVERITIES[finding.severity]
        line = Text(finding.message) + Text(f"  [{about}]", style="dim")
        word = "waived" if finding.waived else str(finding.severity)
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=8, no_wrap=True)
        grid.add_column()
        grid.add_row(Text(word, style=style), line)
        if finding.waived:
            grid.add_row("", Text(finding.waiver, style="blue"))
        elif finding.remedy:
            grid.add_row("", Text(finding.remedy, style="dim"))
        console.print(grid)


def _notes(console: Console, report: Report) -> None:
    for title, sentences in grouping.notes(report):
        console.print(f"\n{title}", style="bold")
        for sentence in sentences:
            console.print(Padding(Text(sentence), (0, 0, 0, 2)))
