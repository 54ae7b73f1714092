"""The HTML report: one file without network or script, light and dark, for a desk, a phone and paper."""

from __future__ import annotations

from obs_audit.findings import Severity
from obs_audit.report import grouping, html
from obs_audit.verdict import Report, states
from obs_exporter.schema import Kind, Precision, State

TONES: dict[State, str] = {
    State.NATIVE: "good", State.RENAMED: "good", State.DERIVED: "fair", State.LOG: "fair", State.ESTIMATED: "fair",
    State.IDLE: "calm", State.HIDDEN: "warn", State.LOST: "bad", State.STALE: "bad", State.UNREACHABLE: "bad",
    State.NEVER: "dim", State.NOT_APPLICABLE: "dim",
}  # fmt: skip
"""State -> class of colour; the word always stands beside the colour."""
SEVERITIES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: "calm"}


def render(report: Report) -> str:
    """Return the report as HTML."""
    identity = grouping.identity(report)
    return html.rendered(
        "report.html",
        title=f"Audit of {identity[0][0]}",
        identity=identity,
        report=report,
        profile=report.asked.profile,
        states=states(report.answers),
        summary=grouping.summary(report),
        trouble=grouping.groups(report, grouping.TROUBLE),
        absent=grouping.groups(report, grouping.ABSENT),
        findings=grouping.other_findings(report),
        evidence=grouping.evidence(report),
        notes=grouping.notes(report) if report.reading.reachable else [],
        meanings={state: state.meaning for state in states(report.answers)},
        tones=TONES,
        severities=SEVERITIES,
        kinds=Kind,
        exact=(Precision.EXACT, Precision.NONE),
    )
