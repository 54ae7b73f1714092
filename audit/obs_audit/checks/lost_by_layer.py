"""Families of the bare engine do not come through the layer.

The page of the bare engine (``--baseline``) and the page of the stack are laid side by side, both of one version. What
the first has and the second has not was lost on the way, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.baseline import compare
from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_REMEDY = "read the engine's own page where it can be reached; the remedies of the lost signals say how"
_BARE = (
    '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
    '# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{engine="0",model_name="m"} 3\n'
)
_RUNNING = '# TYPE ray_vllm_num_requests_running gauge\nray_vllm_num_requests_running{model_name="m"} 1\n'
_PREEMPTED = '# TYPE ray_vllm_num_preemptions_total counter\nray_vllm_num_preemptions_total{model_name="m"} 3\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding with all families that are lost."""
    comparison = compare(case.evidence, case.reading)
    if comparison is None or comparison.refused or not comparison.lost:
        return
    message = (
        f"{len(comparison.lost)} of the bare engine's {comparison.bare} families do not come through: "
        f"{listed(list(comparison.lost), 12)}"
    )
    signals = comparison.signals
    if signals:
        message += f" (signals: {', '.join(signals)})"
    severity = Severity.ERROR if signals else Severity.WARNING
    yield Finding("lost_by_layer", severity, "", message, _REMEDY, comparison.source)


CHECK = Check(
    "lost_by_layer", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_RUNNING, stack="ray-serve", pieces={Role.BASELINE: _BARE}),
    passes=Example(_RUNNING + _PREEMPTED, stack="ray-serve", pieces={Role.BASELINE: _BARE}),
)  # fmt: skip
