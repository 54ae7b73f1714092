"""One signal stands on the page twice.

The same observations under two names: Open Data Hub adds ``kserve_vllm:*`` twins, Ray adds a gauge twin to each
counter, and vLLM itself had old and new names side by side. A rule that matches both counts everything twice.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
_REMEDY = "choose one of the names in every rule; drop the other where it is added"

CHECK = Check(
    "doubled", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("doubled", Severity.WARNING, _REMEDY),
    fails=Example(_PAGE + _PAGE.replace("vllm:", "kserve_vllm:"), stack="kserve"),
    passes=Example(_PAGE, stack="kserve"),
)  # fmt: skip
