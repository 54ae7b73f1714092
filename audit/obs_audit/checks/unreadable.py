"""The page cannot be read.

It could not be fetched, is no metrics page, is cut in the middle, or holds nothing of the stack. No signal can be
judged from it, and a number that an earlier scrape left behind says nothing about now.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.checks.empty_page import is_empty
from obs_audit.checks.wrong_stack import owner
from obs_audit.findings import Finding, Severity

_REMEDY = "open the page with curl and look at what it is; check host, port, path and token"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each page that cannot be read and is neither empty nor another stack's."""
    for exhibit in case.evidence.exhibits:
        problem = exhibit.reading.problem
        if problem and not is_empty(exhibit.body, problem) and not owner(exhibit, case.stack):
            yield Finding("unreadable", Severity.ERROR, "", problem, _REMEDY, exhibit.source)


CHECK = Check(
    "unreadable", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example('{"detail":"Not Found"}\n'),
    passes=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n'),
)  # fmt: skip
