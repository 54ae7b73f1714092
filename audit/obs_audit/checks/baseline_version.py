"""The baseline is another version of the engine, or its version is not sure.

What differs between two versions of the engine would be blamed on the layer. Where the versions are known to differ,
the comparison is not made; where they are only not known exactly, it is made, and this finding says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.baseline import compare
from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_REMEDY = "take the baseline from a bare engine of the stack's version; --engine-version says what the stack runs"
_PAGE = '# TYPE vllm:{0} gauge\nvllm:{0}{{engine="0",model_name="m"}} 0.5\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where the versions differ or may differ."""
    comparison = compare(case.evidence, case.reading)
    unread = case.evidence.baseline is not None and not case.evidence.baseline.reading.reachable
    if comparison is None or not comparison.doubt or unread:  # unreadable_beside says what cannot be read
        return
    severity = Severity.ERROR if comparison.refused else Severity.INFO
    yield Finding("baseline_version", severity, "", comparison.doubt, _REMEDY, comparison.source)


CHECK = Check(
    "baseline_version", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(
        _PAGE.format("kv_cache_usage_perc"), stack="kserve", engine_version="0.20.0",
        pieces={Role.BASELINE: _PAGE.format("gpu_cache_usage_perc"), Role.BASELINE_DOCUMENT: '{"version":"0.8.5"}'},
    ),
    passes=Example(
        _PAGE.format("kv_cache_usage_perc"), stack="kserve", engine_version="0.20.0",
        pieces={Role.BASELINE: _PAGE.format("kv_cache_usage_perc"), Role.BASELINE_DOCUMENT: '{"version":"0.20.0"}'},
    ),
)  # fmt: skip
