"""A monitor's relabelling put something before the engine's names.

Open Data Hub scrapes vLLM a second time with every name behind ``kserve_``. Where only that scrape is left, dashboards
and rules that ask for ``vllm:`` find nothing.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
_REMEDY = "scrape without that metricRelabeling"

CHECK = Check(
    "renamed_by_relabelling", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("renamed_by_relabelling", Severity.WARNING, _REMEDY),
    fails=Example(_PAGE.replace("vllm:", "kserve_vllm:"), stack="kserve"),
    passes=Example(_PAGE, stack="kserve"),
)  # fmt: skip
