"""Gauges vanish from Ray's page.

From Ray 2.52 to 2.56 each scrape clears every gauge: a second scraper takes them away from the first, so that even this
audit blanks a dashboard for ten seconds. From 2.57 a gauge vanishes 20 s after the last engine step. In both, an empty
panel says nothing about the engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.versions import matches

_REMEDY = "scrape one Ray node from one place only, every 10 s or slower; read gauges with last_over_time(x[1m])"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for the releases that do so."""
    if case.stack != "ray-serve" or not case.release or not _bridged(case):
        return
    if matches(">=2.52,<2.57", case.release):
        message = f"Ray {case.release} clears every gauge at each scrape: two scrapers take them from each other"
        yield Finding("vanishing_gauges", Severity.WARNING, "", message, _REMEDY, case.source)
    elif matches(">=2.57", case.release):
        message = f"Ray {case.release} drops a gauge 20 s after the last engine step: an idle engine shows none"
        yield Finding("vanishing_gauges", Severity.INFO, "", message, _REMEDY, case.source)


def _bridged(case: Case) -> bool:
    """Whether the pages come from Ray's agent: an engine's own page under direct streaming keeps its gauges."""
    pages = case.evidence.readable
    return not pages or any(name.startswith("ray_") for exhibit in pages for name in exhibit.page.types)


CHECK = Check(
    "vanishing_gauges", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.55.1"),
    passes=Example(stack="ray-serve", stack_version="2.51.1"),
)  # fmt: skip
