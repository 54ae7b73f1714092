"""What is odd about the pages themselves: renamed, doubled, mistyped, cut, out of range."""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks import Reading

SEVERITY = {
    "unreadable": Severity.ERROR,
    "damaged_lines": Severity.WARNING,
    "renamed_by_negotiation": Severity.WARNING,
    "doubled": Severity.WARNING,
    "retyped": Severity.WARNING,
    "wrong_type": Severity.ERROR,
    "out_of_range": Severity.ERROR,
    "incomplete_histogram": Severity.ERROR,
    "foreign_version_name": Severity.WARNING,
    "router_series": Severity.WARNING,
    "version_mismatch": Severity.WARNING,
}


def check(reading: Reading, exhibits: tuple[Exhibit, ...]) -> Iterator[Finding]:  # noqa: ARG001 - one shape for all
    """Yield one finding for each oddity of each page."""
    for exhibit in exhibits:
        for oddity in exhibit.reading.oddities:
            severity = SEVERITY[oddity.code]
            yield Finding(oddity.code, severity, oddity.signal, oddity.message, oddity.remedy, exhibit.source)
