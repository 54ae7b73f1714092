"""Lines of the page do not follow the format.

A line that cannot be read is a value that is missing. Prometheus drops the whole scrape for one such line; this audit
reads the rest and says what was wrong.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_REMEDY = "find out what writes into the page: a proxy, a script"

CHECK = Check(
    "damaged_lines", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("damaged_lines", Severity.WARNING, _REMEDY),
    fails=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} one\n'),
    passes=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n'),
)  # fmt: skip
