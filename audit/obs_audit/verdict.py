"""The verdict: one answer a signal from all exhibits, the findings, and the exit code that the user asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from obs_audit import checks
from obs_audit.evidence import Evidence, Exhibit
from obs_audit.findings import Finding, Severity
from obs_audit.inventory import Counts
from obs_exporter.schema import State
from obs_exporter.stacks import Answer, Reading

FAIL_ON: dict[str, frozenset[State]] = {
    "none": frozenset(),
    "lost": frozenset({State.LOST, State.UNREACHABLE}),
    "hidden": frozenset({State.LOST, State.UNREACHABLE, State.HIDDEN}),
    "any": frozenset({State.LOST, State.UNREACHABLE, State.HIDDEN, State.STALE}),
}
"""Which states make a run fail; ``any`` fails on every warning and error besides."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finished audit. ``evidence`` names, for each signal id, where its answer was found."""

    reading: Reading
    exhibits: tuple[Exhibit, ...]
    evidence: dict[str, str]
    findings: tuple[Finding, ...]
    counts: Counts | None
    exit_code: int

    @property
    def paper(self) -> bool:
        """Whether no page was judged."""
        return not self.exhibits

    @property
    def published(self) -> int:
        """How many signals have a value."""
        return sum(1 for answer in self.reading.answers if answer.state.publishes)


def judge(evidence: Evidence, fail_on: str = "none", required: Sequence[str] = ()) -> Report:
    """Judge the evidence.

    ``required`` signals must be published, whatever ``fail_on`` says. Exit code 2: pages were given and none could be
    read; 1: findings at or above what was asked; 0 otherwise.
    """
    reading, places = _combined(evidence)
    findings = list(checks.run(reading, evidence.exhibits))
    for signal in required:
        answer = reading.answer(signal)
        if not answer.state.publishes:
            message = f"required, and {answer.state}: {answer.reason}"
            findings.append(Finding("required", Severity.ERROR, signal, message, answer.remedy))
    readable = [exhibit for exhibit in evidence.exhibits if exhibit.reading.reachable]
    code = 2 if evidence.exhibits and not readable else int(_fails(reading, findings, fail_on))
    counts = readable[-1].counts if readable else None
    return Report(reading, evidence.exhibits, places, tuple(findings), counts, code)


def _fails(reading: Reading, findings: Sequence[Finding], fail_on: str) -> bool:
    if any(finding.check == "required" for finding in findings):
        return True
    if any(answer.state in FAIL_ON[fail_on] for answer in reading.answers):
        return True
    return fail_on == "any" and any(finding.severity >= Severity.WARNING for finding in findings)


def _combined(evidence: Evidence) -> tuple[Reading, dict[str, str]]:
    """Take each signal from the last page that publishes it, else the last readable page's answer."""
    if not evidence.exhibits:
        return evidence.paper, {answer.signal.id: "table of facts" for answer in evidence.paper.answers}
    readable = [exhibit for exhibit in evidence.exhibits if exhibit.reading.reachable] or list(evidence.exhibits[-1:])
    last = readable[-1]
    answers: list[Answer] = []
    places: dict[str, str] = {}
    for index, answer in enumerate(last.reading.answers):
        chosen, place = answer, last.source
        for exhibit in reversed(readable):
            if exhibit.reading.answers[index].state.publishes:
                chosen, place = exhibit.reading.answers[index], exhibit.source
                break
        answers.append(chosen)
        places[answer.signal.id] = place
    return replace(last.reading, answers=tuple(answers)), places
