"""A router made ``vllm:`` families of its own view.

The router of the vLLM production stack publishes ``vllm:num_requests_running{server=...}`` and others: what it thinks
its engines do, under the engine's names. They are no evidence that the engine's own signals are there.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_OWN = '# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine="0",model_name="m"} 1\n'
_ROUTER = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server="http://10.0.0.7:8000"} 1\n'

_REMEDY = "scrape the engines themselves"

CHECK = Check(
    "router_series", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("router_series", Severity.WARNING, _REMEDY),
    fails=Example(_OWN + _ROUTER),
    passes=Example(_OWN),
)  # fmt: skip
