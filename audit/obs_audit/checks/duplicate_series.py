"""One series stands on the page twice with different values.

Prometheus keeps one of the two samples and drops the other with a warning; which one is not promised. Pages that were
put together of several processes look like this.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_ONE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
_REMEDY = "scrape each process by itself, or label the series apart"

CHECK = Check(
    "duplicate_series", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("duplicate_series", Severity.WARNING, _REMEDY),
    fails=Example(_ONE + _ONE.splitlines()[1].replace("} 1", "} 2") + "\n"),
    passes=Example(_ONE),
)  # fmt: skip
