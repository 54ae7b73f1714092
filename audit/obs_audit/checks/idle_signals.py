"""Signals are registered and have seen nothing yet.

The server prints them from its start, and no request has been observed. That is neither zero nor a loss: a histogram
without observations has no quantile. Send a request, or ask again under load.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed, number
from obs_audit.checks.lazy_families import is_lazy
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import State

_REMEDY = "look again under load, or let --exercise send a few requests"
_PAGE = "# TYPE vllm:time_to_first_token_seconds histogram\n"
_SEEN = (
    'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4\n'
    'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2.5\n'
    'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4\n'
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for all of them together."""
    idle = [a.signal.id for a in case.answers if a.state is State.IDLE and not is_lazy(a, case)]
    if idle:
        message = f"{number(len(idle), 'signal')} registered and not observed yet: {listed(idle)}"
        yield Finding("idle_signals", Severity.INFO, "", message, _REMEDY, case.source)


CHECK = Check(
    "idle_signals", Severity.INFO, __doc__, _REMEDY, find,
    fails=Example(_PAGE),
    passes=Example(_PAGE + _SEEN),
)  # fmt: skip
