"""The engine was started with --disable-log-stats.

The page has the HTTP server's families and none of the engine's. V0, and V1 from 0.7.3 on, make no metrics logger under
this flag; the name says "log", and what it takes away is every ``vllm:`` metric.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.vllm import DISABLED

_HTTP = (
    '# TYPE http_requests_total counter\nhttp_requests_total{handler="/v1/completions",method="POST",status="2xx"} 12\n'
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where the flag explains what is missing."""
    if any(answer.reason == DISABLED.reason for answer in case.reading.answers):
        yield Finding("log_stats_off", Severity.WARNING, "", DISABLED.reason, DISABLED.remedy, case.source)


CHECK = Check(
    "log_stats_off", Severity.WARNING, __doc__, DISABLED.remedy, find,
    fails=Example(_HTTP),
    passes=Example(_HTTP + '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 0\n'),
)  # fmt: skip
