"""Families appear only with their first observation.

Ray, and vLLM's V0 engine in several processes, print a family when it first has a value: a preemption counter that was
never incremented is not on the page at all. Its absence is no loss, and no proof either; ``absent()`` in an alert fires
for a healthy server.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed, number
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import State
from obs_exporter.stacks import Answer

_REMEDY = "write alerts as `rate(x[5m]) or vector(0)`, not with absent(); provoke it once to see that it is there"
_PAGE = '# TYPE ray_vllm_{0} gauge\nray_vllm_{0}{{Version="2.60.0",SessionName="s",model_name="m"}} 1\n'


def is_lazy(answer: Answer, case: Case) -> bool:
    """Whether an idle signal has no declaration on the page, on a stack or an engine that declares late."""
    return not answer.native_name and (not case.evidence.stack.complete or case.reading.generation == "V0")


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for all of them together."""
    lazy = [a.signal.id for a in case.answers if a.state is State.IDLE and is_lazy(a, case)]
    if lazy:
        message = f"{number(len(lazy), 'signal')} to appear with the first observation only: {listed(lazy)}"
        yield Finding("lazy_families", Severity.INFO, "", message, _REMEDY, case.source)


CHECK = Check(
    "lazy_families", Severity.INFO, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format("num_requests_running"), stack="ray-serve"),
    passes=Example(stack="ray-serve"),
)  # fmt: skip
