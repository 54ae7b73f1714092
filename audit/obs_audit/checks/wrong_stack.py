"""The page belongs to another stack.

The page is a healthy one, of another program: Ray's agent, Triton, or a bare engine. Tools that look for names and find
none call such a page idle; every number they then show is an invented zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks import STACKS

_REMEDY = "audit it with the --stack that prints it, or scrape the port of the stack you meant"


def owner(exhibit: Exhibit, stack: str) -> str:
    """Return the stack that a page which is not ``stack``'s looks like, or ""."""
    types = exhibit.page.types
    if exhibit.reading.reachable or not types or exhibit.page.problem:
        return ""
    owners = [name for name, table in STACKS.items() if any(family.startswith(table.markers) for family in types)]
    others = [name for name in owners if name != stack]
    return others[-1] if others and stack not in owners[-1:] else ""


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each page that is another stack's."""
    for exhibit in case.evidence.exhibits:
        if owner(exhibit, case.stack):
            yield Finding("wrong_stack", Severity.ERROR, "", exhibit.reading.problem, _REMEDY, exhibit.source)


CHECK = Check(
    "wrong_stack", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example("# TYPE ray_node_mem_used gauge\nray_node_mem_used 1e9\n"),
    passes=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n'),
)  # fmt: skip
