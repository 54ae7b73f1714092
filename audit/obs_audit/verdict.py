"""The verdict: the findings of all checks, what of them is waived, and the exit code that the user asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from obs_audit import checks
from obs_audit.case import Case, build
from obs_audit.evidence import Evidence
from obs_audit.findings import Finding, Severity
from obs_audit.inventory import Counts
from obs_audit.profiles import EVERYTHING, Profile
from obs_audit.waivers import Waiver
from obs_exporter.schema import State
from obs_exporter.stacks import Answer, Reading


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants to know and to gate on; ``fail_on`` is none, lost, hidden or any."""

    fail_on: str = "none"
    required: tuple[str, ...] = ()
    profile: Profile = EVERYTHING
    expected: Mapping[str, str] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    today: date = date.max


@dataclass(frozen=True, slots=True)
class Report:
    """A finished audit."""

    case: Case
    asked: Asked
    findings: tuple[Finding, ...]
    counts: Counts | None
    exit_code: int

    @property
    def reading(self) -> Reading:
        """One answer a signal."""
        return self.case.reading

    @property
    def paper(self) -> bool:
        """Whether no page was judged."""
        return not self.case.evidence.exhibits

    @property
    def problems(self) -> tuple[str, ...]:
        """What was given and could not be read: the reasons for exit code 2."""
        evidence = self.case.evidence
        pages = tuple(dict.fromkeys(exhibit.reading.problem for exhibit in evidence.unreadable))
        return pages + tuple(f"{source}: {problem}" for source, problem in evidence.failed_beside)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers that the profile asks for, in the schema's order."""
        return self.case.answers

    @property
    def published(self) -> int:
        """How many signals of the profile have a value."""
        return sum(1 for answer in self.answers if answer.state.publishes)

    def waiver(self, signal: str) -> str:
        """Return why the finding about a signal's state is waived, or ""."""
        state = f"signal_{self.reading.answer(signal).state}"
        return next((f.waiver for f in self.findings if f.signal == signal and f.check == state), "")


def judge(evidence: Evidence, asked: Asked | None = None) -> Report:
    """Judge the evidence.

    Required signals must be published, whatever ``fail_on`` says. Exit code 2: a page, a baseline or a service
    discovery was given and cannot be read; 1: findings at or above what was asked; 0 otherwise.
    """
    asked = asked or Asked()
    case = build(evidence, asked.expected, asked.profile)
    findings = [*checks.run(case), *_missing(case, asked)]
    waived = tuple(_waived(findings, asked, case.stack))
    code = 2 if evidence.unreadable or evidence.failed_beside else int(_fails(waived, asked))
    counts = next((exhibit.counts for exhibit in reversed(evidence.readable)), None)
    return Report(case, asked, waived, counts, code)


def _missing(case: Case, asked: Asked) -> list[Finding]:
    """Say which required signals have no value."""
    findings = []
    for signal in asked.required:
        answer = case.reading.answer(signal)
        if not answer.state.publishes:
            message = f"required, and {answer.state}: {answer.reason}"
            findings.append(Finding("required", Severity.ERROR, signal, message, answer.remedy, case.places[signal]))
    return findings


def _waived(findings: Sequence[Finding], asked: Asked, stack: str) -> list[Finding]:
    """Mark what a waiver covers, and add what is wrong with the waivers themselves."""
    marked = []
    used: set[Waiver] = set()
    for finding in findings:
        covering = [waiver for waiver in asked.waivers if waiver.covers(finding, stack)]
        used.update(covering)
        valid = next((waiver for waiver in covering if not waiver.expired(asked.today)), None)
        marked.append(replace(finding, waiver=f"{valid.reason} (until {valid.expires})") if valid else finding)
    for waiver in asked.waivers:
        if waiver.stack not in ("", stack):
            continue
        if waiver.expired(asked.today):
            message = f"the waiver for {waiver.subject} ended on {waiver.expires}: {waiver.reason}"
            remedy = "repair what it waived, or set a new day with a new reason"
            marked.append(Finding("waiver_expired", Severity.ERROR, waiver.signal, message, remedy, waiver.source))
        elif waiver not in used:
            message = f"the waiver for {waiver.subject} covers nothing any more"
            marked.append(Finding("waiver_unused", Severity.INFO, waiver.signal, message, "remove it", waiver.source))
    return marked


def _fails(findings: Sequence[Finding], asked: Asked) -> bool:
    """Whether the findings that matter are as bad as what was asked to fail on."""
    open_findings = [finding for finding in findings if not finding.waived]
    if any(finding.check == "required" for finding in open_findings):
        return True
    mattering = [finding for finding in open_findings if asked.profile.gates_on(finding.signal)]
    worst = max((finding.severity for finding in mattering), default=Severity.INFO)
    if asked.fail_on == "any":
        return worst >= Severity.WARNING
    if asked.fail_on == "hidden" and any(finding.check == "signal_hidden" for finding in mattering):
        return True
    return asked.fail_on != "none" and worst is Severity.ERROR


def states(answers: Sequence[Answer]) -> dict[State, int]:
    """Count answers by state, in the order of the states."""
    counted = [answer.state for answer in answers]
    return {state: counted.count(state) for state in State if state in counted}
