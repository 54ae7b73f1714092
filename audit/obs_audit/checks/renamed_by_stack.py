"""The stack gives the engine's families other names.

The numbers are the engine's own, under another prefix: Ray's agent turns ``vllm:num_requests_running`` into
``ray_vllm_num_requests_running``. Every dashboard and alert that was written for the bare engine finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, number
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import State

_REMEDY = "query the stack's names (obs-audit explain SIGNAL prints them), or put obs-exporter's schema in between"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for all renamed signals together, whether the engine or the layer counts them."""
    table = case.evidence.stack
    others = (table.native_prefix, *(renaming.prefix for renaming in table.renamings))
    renamed = [
        answer for answer in case.answers
        if answer.state is State.RENAMED and answer.native_name and not answer.native_name.startswith(others)
    ]  # fmt: skip
    if renamed:
        example = renamed[0].native_name
        message = f"other names than the bare engine's for {number(len(renamed), 'signal')}, such as {example}"
        yield Finding("renamed_by_stack", Severity.INFO, "", message, _REMEDY, case.source)


CHECK = Check(
    "renamed_by_stack", Severity.INFO, __doc__, _REMEDY, find,
    fails=Example(
        '# TYPE ray_vllm_num_requests_running gauge\nray_vllm_num_requests_running{model_name="m"} 1\n',
        stack="ray-serve",
    ),
    passes=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n'),
)  # fmt: skip
