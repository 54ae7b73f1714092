"""The checks: each looks at the evidence and yields findings. One file each, one line here."""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.checks import page, presence
from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding
from obs_exporter.stacks import Reading

CHECKS = (presence.check, page.check)


def run(reading: Reading, exhibits: tuple[Exhibit, ...]) -> Iterator[Finding]:
    """Yield the findings of every check, in the order of the checks."""
    for check in CHECKS:
        yield from check(reading, exhibits)
