"""Values of all label values land on the last one.

vLLM's Ray wrapper from 0.9 to 0.20 returned one shared child for every set of labels: each finish reason, each wait
reason and each engine index is counted under whichever label came last. The totals are right, the split is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.versions import matches

_REMEDY = "sum the label away (sum without (finished_reason)); fixed in vLLM 0.21.0, which ray[llm] 2.56 carries"
_SPLIT = ("requests_finished", "requests_waiting_by_reason")


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for the releases that do so, where a split signal is published."""
    engine = case.reading.engine_version
    if case.stack != "ray-serve" or not engine.candidates:
        return
    affected = [version for version in engine.candidates if matches(">=0.9,<0.21", version)]
    through = [
        answer.signal.id for answer in map(case.reading.answer, _SPLIT)
        if answer.state.publishes and answer.native_name.startswith("ray_vllm")
    ]  # fmt: skip
    if affected and through:
        message = f"vLLM {engine} under Ray counts every value of a label under the last one: {', '.join(through)}"
        yield Finding("shared_label_child", Severity.WARNING, "", message, _REMEDY, case.source)


CHECK = Check(
    "shared_label_child", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.55.1"),
    passes=Example(stack="ray-serve", stack_version="2.60.0"),
)  # fmt: skip
