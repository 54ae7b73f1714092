"""``obs-audit matrix``: signals x stacks x versions, as text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from obs_audit.timeline import Column, cell, columns, signals, stretches
from obs_exporter.schema import State
from obs_exporter.stacks import STACKS

MARKS: dict[State, str] = {
    State.NATIVE: "●", State.RENAMED: "◐", State.DERIVED: "◑", State.LOG: "◑", State.ESTIMATED: "◑", State.IDLE: "○",
    State.HIDDEN: "▢", State.LOST: "✗", State.STALE: "✗", State.UNREACHABLE: "✗", State.NEVER: "–",
    State.NOT_APPLICABLE: "",
}  # fmt: skip
"""One character a state, for a table that fits on a page."""


def text(stacks: Sequence[str]) -> str:
    """Return it for a terminal: for each stack and signal, the runs of releases and what they do."""
    lines = []
    for stack in stacks:
        lines.append(STACKS[stack].title)
        width = max(map(len, signals()))
        for signal in signals():
            for index, run in enumerate(stretches(stack, signal)):
                head = signal if index == 0 else ""
                state, name = cell(run.answer)
                lines.append(f"  {head:<{width}}  {run.title:<20}  {state:<14}  {name}".rstrip())
        lines.append("")
    return "\n".join(lines)


def markdown(stacks: Sequence[str]) -> str:
    """Return it for the docs: one table a stack, one column for each run of releases that treats all signals alike."""
    used = list(dict.fromkeys(state for stack in stacks for column in columns(stack) for state in _states(column)))
    legend = ", ".join(f"{MARKS[state]} {state}" for state in State if state in used and MARKS[state])
    lines = [
        "# Signals by stack and version", "",
        "What each stack does with each signal before anything is configured, from the tables that judge a page "
        "(`obs-audit matrix --format markdown`).",
        f"{legend}; an empty cell: the question does not arise.", "",
    ]  # fmt: skip
    for stack in stacks:
        found = columns(stack)
        lines += [f"## {STACKS[stack].title}", ""]
        lines.append("| signal | " + " | ".join(column.title for column in found) + " |")
        lines.append("|---|" + ":-:|" * len(found))
        engines = [column.generation if STACKS[stack].is_engine else column.engine for column in found]
        lines.append(f"| *{'engine' if STACKS[stack].is_engine else 'vLLM'}* | {' | '.join(engines)} |")
        for index, signal in enumerate(signals()):
            cells = [MARKS[column.answers[index].state] for column in found]
            lines.append(f"| `{signal}` | " + " | ".join(cells) + " |")
        lines += ["", *_names(stack), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _states(column: Column) -> list[State]:
    return [answer.state for answer in column.answers]


def _names(stack: str) -> list[str]:
    """Return the names that change with the version, each with its releases."""
    lines = []
    for signal in signals():
        named = [(run.title, run.answer) for run in stretches(stack, signal) if run.answer.state.publishes]
        names = dict.fromkeys(answer.native_name for _, answer in named)
        if len(names) > 1:
            parts = [f"`{name}` ({', '.join(t for t, a in named if a.native_name == name)})" for name in names]
            lines.append(f"- `{signal}`: {', '.join(parts)}")
    return ["Names that change:", "", *lines] if lines else []


def page(stacks: Sequence[str]) -> str:
    """Return it as one HTML file."""
    from obs_audit.report import html
    from obs_audit.report.page import TONES

    tables = [(STACKS[stack], columns(stack)) for stack in stacks]
    used = [state for state in State if any(state in _states(column) for _, found in tables for column in found)]
    return html.rendered(
        "matrix.html", title="Signals by stack and version", tables=tables, signals=signals(), marks=MARKS,
        tones=TONES, used=used,
    )  # fmt: skip


FORMATS: dict[str, Callable[[Sequence[str]], str]] = {"text": text, "markdown": markdown, "html": page}
