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
    """Yield one finding for each split signal that is published, for the releases that do so."""
    engine = case.reading.engine_version
    if case.stack != "ray-serve" or not engine.candidates:
        return
    if not any(matches(">=0.9,<0.21", version) for version in engine.candidates):
        return
    for answer in map(case.reading.answer, _SPLIT):
        if answer.state.publishes and answer.native_name.startswith("ray_vllm"):
            label = answer.signal.labels[0]
            message = f"vLLM {engine} under Ray counts every {label} under the last one"
            signal = answer.signal.id
            yield Finding("shared_label_child", Severity.WARNING, signal, message, _REMEDY, case.places[signal])


CHECK = Check(
    "shared_label_child", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.55.1"),
    passes=Example(stack="ray-serve", stack_version="2.60.0"),
)  # fmt: skip
