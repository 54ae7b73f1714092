"""Presence by version: a signal that the engine has and the stack does not publish is a finding."""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import State
from obs_exporter.stacks import Reading

SEVERITY = {State.LOST: Severity.ERROR, State.HIDDEN: Severity.WARNING, State.STALE: Severity.WARNING}
"""An unreachable source is one finding about the page, not one per signal."""


def check(reading: Reading, exhibits: tuple[Exhibit, ...]) -> Iterator[Finding]:
    """Yield one finding for each lost, hidden or stale signal."""
    source = exhibits[-1].source if exhibits else "table of facts"
    for answer in reading.answers:
        if answer.state in SEVERITY:
            yield Finding(
                f"signal_{answer.state}", SEVERITY[answer.state], answer.signal.id, answer.reason, answer.remedy, source
            )
