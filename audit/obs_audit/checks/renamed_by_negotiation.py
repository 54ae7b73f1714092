"""Colons of the names became underscores on the way.

``vllm_num_requests_running`` is no name that vLLM gives. prometheus_client 0.23 and newer answers so where a scraper
asks for OpenMetrics without ``escaping=allow-utf-8``, which is what Prometheus 2 does; the types stay behind under
the old names, so the series are untyped besides.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_REMEDY = "scrape with Accept: text/plain;version=0.0.4 (scrape_protocols: [PrometheusText0.0.4])"

CHECK = Check(
    "renamed_by_negotiation", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("renamed_by_negotiation", Severity.WARNING, _REMEDY),
    fails=Example('# TYPE vllm:num_requests_running gauge\nvllm_num_requests_running{engine="0",model_name="m"} 1\n'),
    passes=Example('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'),
)  # fmt: skip
