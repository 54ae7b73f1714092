"""What every report for people says, in one order: what is lost and what to do first, then what is there.

Signals that share a state, a reason and a remedy are one group, so that a reason is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from obs_audit import loglines
from obs_audit.baseline import compare
from obs_audit.case import PAPER
from obs_audit.findings import Finding
from obs_audit.inventory import explained
from obs_audit.verdict import Report, states
from obs_exporter.schema import State
from obs_exporter.stacks import STACKS, Answer

TROUBLE = (State.LOST, State.UNREACHABLE, State.STALE, State.HIDDEN)
"""States that ask for something to be done, the worst first."""
ABSENT = (State.IDLE, State.NEVER, State.NOT_APPLICABLE)
"""States without a value that ask for nothing."""


@dataclass(frozen=True, slots=True)
class Group:
    """Signals with one state, one reason and one remedy."""

    state: State
    answers: tuple[Answer, ...]
    waiver: str = ""

    @property
    def reason(self) -> str:
        """Why."""
        return self.answers[0].reason

    @property
    def remedy(self) -> str:
        """What to do, or ""."""
        return self.answers[0].remedy

    @property
    def cost(self) -> str:
        """What the remedy costs, or ""."""
        return self.answers[0].cost

    @property
    def signals(self) -> list[str]:
        """The ids."""
        return [answer.signal.id for answer in self.answers]


def groups(report: Report, wanted: Sequence[State]) -> list[Group]:
    """Return the groups of some states, in the order of those states and then of the schema."""
    found = []
    for state in wanted:
        by_reason: dict[tuple[str, str, str], list[Answer]] = {}
        for answer in report.answers:
            if answer.state is state:
                key = (answer.reason, answer.remedy, report.waiver(answer.signal.id))
                by_reason.setdefault(key, []).append(answer)
        found += [Group(state, tuple(members), waiver) for (_, _, waiver), members in by_reason.items()]
    return found


def published(report: Report) -> list[Answer]:
    """Return the answers that have a value."""
    return [answer for answer in report.answers if answer.state.publishes]


def other_findings(report: Report) -> list[Finding]:
    """Return the findings that the groups do not say already, the loudest first."""
    others = [f for f in report.findings if not f.check.startswith("signal_")]
    return sorted(others, key=lambda finding: (finding.waived, -finding.severity))


def summary(report: Report) -> str:
    """Return the verdict in one line."""
    parts = ", ".join(f"{number} {state}" for state, number in states(report.answers).items())
    return f"{report.published} of {len(report.answers)} signals published: {parts}"


def identity(report: Report) -> list[tuple[str, str]]:
    """Return who was audited: (name and version, how that is known)."""
    reading = report.reading
    stack, engine = reading.stack_version, reading.engine_version
    rows = [(f"{STACKS[reading.stack].title} {stack}", stack.source)]
    generation = f", {reading.generation} engine" if reading.generation else ""
    if reading.stack != "vllm":
        rows.append((f"vLLM {engine}{generation}", engine.source))
    elif reading.generation:
        rows[0] = (f"vLLM {engine}{generation}", engine.source)
    return rows


def evidence(report: Report) -> list[tuple[str, str, bool]]:
    """Return what was looked at: (source, what it is, whether it is bad)."""
    case = report.case.evidence
    rows = []
    for exhibit in case.exhibits:
        problem = exhibit.reading.problem
        counts = exhibit.counts
        said = problem or (
            f"{counts.families} families, {counts.engine_families} of the engine, {counts.series} series"
            if counts else ""
        )  # fmt: skip
        rows.append((exhibit.source, said, bool(problem)))
        if exhibit.later is not None:
            rows.append((exhibit.source, exhibit.later.reading.problem or "read a second time", False))
        if exhibit.negotiated:
            rows.append((exhibit.source, f"asked under {len(exhibit.negotiated)} other Accept headers", False))
    rows += [(path, "read", False) for path in sorted(case.documents)]
    rows += [(log.source, f"{sum(map(len, log.lines.values()))} known lines", False) for log in case.logs]
    rows += [(source, "manifest", False) for source, _ in case.annotations]
    if case.discovery is not None:
        rows.append(("service discovery", f"{len(case.discovery)} addresses", False))
    if case.exercise is not None:
        said = f"{case.exercise.requests} requests answered, {case.exercise.failed} failed"
        rows.append(("exercise", said, bool(case.exercise.failed)))
    return rows


def notes(report: Report) -> list[tuple[str, list[str]]]:
    """Return what else is worth knowing: (title, sentences)."""
    found = []
    if report.counts and report.counts.engine_families:
        why = explained(report.counts, report.reading)
        head = f"{report.counts.engine_families} families of the engine, without companions and doubles"
        found.append(("How the families are counted", [head, *why]))
    comparison = compare(report.case.evidence, report.reading)
    if comparison is not None and not comparison.refused:
        text = f"{comparison.kept} of the bare engine's {comparison.bare} families come through ({comparison.source})"
        found.append(("Beside the bare engine", [text]))
    if report.case.movements:
        rows = [f"{m.signal}: moved by {m.moved:g}, the client counted {m.expected}" for m in report.case.movements]
        found.append(("Exercise", rows))
    found.append(("The engine's log", _log(report)))
    return found


def _log(report: Report) -> list[str]:
    case = report.case
    place = loglines.place(case.stack, case.release)
    lines = loglines.expected(case.stack, case.release, case.reading.engine_version.best, case.reading.generation)
    there = {kind for log in case.evidence.logs for kind in log.lines}
    sentences = [f"it is {place}"]
    told = [(line.id in there, line.tells + (" (under load)" if line.load else "")) for line in lines]
    kinds = (("there", True), ("not there", False)) if case.evidence.logs else (("to expect there", False),)
    for word, found in kinds:
        texts = list(dict.fromkeys(text for present, text in told if present is found))
        if texts:
            sentences.append(f"{word}: {'; '.join(texts)}")
    if case.reading.generation == "V1":
        sentences.append("no line tells preemptions: the V1 engine writes none")
    return sentences


def sources(findings: Iterable[Finding]) -> str:
    """Return where a finding's evidence is, or "" where it is only the tables."""
    return ", ".join(dict.fromkeys(f.source for f in findings if f.source and f.source != PAPER))
