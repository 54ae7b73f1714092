"""What every report for people says, in one order: what is lost and what to do first, then what is there.

Signals that share a state and a reason are one group, so that a reason is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from obs_audit import loglines
from obs_audit.baseline import compare
from obs_audit.findings import Finding
from obs_audit.inventory import explained
from obs_audit.movement import moved_at_all, total
from obs_audit.verdict import Report, states
from obs_exporter.schema import State
from obs_exporter.stacks import STACKS, Answer

TROUBLE = (State.LOST, State.UNREACHABLE, State.STALE, State.HIDDEN)
"""States that ask for something to be done, the worst first."""
ABSENT = (State.IDLE, State.NEVER, State.NOT_APPLICABLE)
"""States without a value that ask for nothing."""


@dataclass(frozen=True, slots=True)
class Group:
    """Signals with one state and one reason."""

    state: State
    answers: tuple[Answer, ...]
    waiver: str = ""

    @property
    def reason(self) -> str:
        """Why."""
        return self.answers[0].reason

    @property
    def remedies(self) -> list[str]:
        """What to do, one way each: first what helps all of them, then what helps some, with their names."""
        ways: dict[str, list[str]] = {}
        for answer in self.answers:
            for way in filter(None, (answer.remedy, answer.alternative)):
                ways.setdefault(way, []).append(answer.signal.id)
        whole = [way for way, signals in ways.items() if len(signals) == len(self.answers)]
        parts = [f"{', '.join(signals)}: {way}" for way, signals in ways.items() if way not in whole]
        return whole + parts

    @property
    def costs(self) -> list[str]:
        """What that costs, each once."""
        return list(dict.fromkeys(answer.cost for answer in self.answers if answer.cost))

    @property
    def signals(self) -> list[str]:
        """The ids."""
        return [answer.signal.id for answer in self.answers]


def groups(report: Report, wanted: Sequence[State]) -> list[Group]:
    """Return the groups of some states, in the order of those states and then of the schema."""
    found = []
    for state in wanted:
        by_reason: dict[tuple[str, str], list[Answer]] = {}
        for answer in report.answers:
            if answer.state is state:
                by_reason.setdefault((answer.reason, report.waiver(answer.signal.id)), []).append(answer)
        found += [Group(state, tuple(members), waiver) for (_, waiver), members in by_reason.items()]
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
    rows += [(source, problem, True) for source, problem in case.failed_beside]
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
        rows = [text]
        if comparison.lost:
            rows.append(f"lost: {', '.join(comparison.lost)}")
        if comparison.undecided:
            rows.append(f"without a value so far, and printed only with one: {', '.join(comparison.undecided)}")
        found.append(("Beside the bare engine", rows))
    found += _watched(report)
    if report.case.movements:
        rows = [f"{m.signal}: moved by {m.moved:g}, the client counted {m.expected}" for m in report.case.movements]
        found.append(("Exercise", rows + _provoked(report)))
    found.append(("The engine's log", _log(report)))
    return found


def _provoked(report: Report) -> list[str]:
    """Say how many preemptions a hard exercise provoked."""
    case = report.case.evidence
    if case.exercise is None or not case.exercise.hard or case.moved is None:
        return []
    before, after = (exhibit.reading.answer("preemptions") for exhibit in case.moved)
    if not after.state.publishes:
        return ["preemptions: not published, so nobody knows whether there were any"]
    provoked = total(after) - total(before)
    return [f"preemptions: moved by {provoked:g}" if provoked else "preemptions: none provoked, which proves nothing"]


def _watched(report: Report) -> list[tuple[str, list[str]]]:
    """Say what moved between two looks at the pages, and what of the published signals stood still."""
    pairs = [
        (e.reading, e.later.reading) for e in report.case.evidence.readable if e.later and e.later.reading.reachable
    ]
    if not pairs:
        return []
    ids = [answer.signal.id for answer in published(report)]
    moved = [name for name in ids if any(moved_at_all(one.answer(name), two.answer(name)) for one, two in pairs)]
    still = [name for name in ids if name not in moved]
    rows = [f"moved: {', '.join(moved)}"] if moved else ["nothing moved: no traffic, or a page that is not alive"]
    return [("Between two looks", rows + ([f"stood still: {', '.join(still)}"] if moved and still else []))]


def _log(report: Report) -> list[str]:
    case = report.case
    place = loglines.place(case.stack, case.release)
    lines = loglines.expected(case.stack, case.release, case.reading.engine_version.best, case.reading.generation)
    there = {kind for log in case.evidence.logs for kind in log.lines}
    sentences = [f"it is {place}"]
    told = [(line.id in there, line.text + (" (under load)" if line.load else "")) for line in lines]
    kinds = (("there", True), ("not there", False)) if case.evidence.logs else (("to expect there", False),)
    for word, found in kinds:
        texts = list(dict.fromkeys(text for present, text in told if present is found))
        if texts:
            sentences.append(f"{word}: {'; '.join(texts)}")
    if case.reading.generation == "V1":
        sentences.append("no line tells preemptions: the V1 engine writes none")
    return sentences
