"""The page is empty.

A server answered 200 with nothing in it. Triton's metrics port does so on every path but ``/metrics``, and a proxy can
do so for a server that is gone. A scraper stores no series and calls the target up, so nobody is told.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity

_REMEDY = "scrape the path /metrics, and alert on a target without series, not on its status"


def is_empty(body: bytes, problem: str) -> bool:
    """Whether a page was fetched and has nothing in it."""
    return bool(problem) and not body.strip() and problem.startswith("the page is empty")


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each empty page."""
    for exhibit in case.evidence.exhibits:
        if is_empty(exhibit.body, exhibit.reading.problem):
            message = "the server answers, and the page has nothing in it"
            if case.stack == "triton":
                message += ": Triton's metrics port does so on every path but /metrics"
            yield Finding("empty_page", Severity.ERROR, "", message, _REMEDY, exhibit.source)


CHECK = Check(
    "empty_page", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example("", stack="triton"),
    passes=Example(
        '# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="m",version="1"} 4\n',
        stack="triton",
    ),
)  # fmt: skip
