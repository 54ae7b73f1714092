"""A setting did not take effect.

The user says what was set (``--expect max_model_len=4096``), and the running server says otherwise: in
``/v1/models``, in the labels of ``cache_config_info``, or in the start-up lines of its log. A flag that a layer
swallows looks like one that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_audit.settings import known, same

_REMEDY = "look for the layer's own name of the setting, and for a second place that sets it"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each expectation that is contradicted, or that nothing tells of."""
    told = known(case.evidence)
    for name, value in case.expected.items():
        seen = told.get(name, {})
        if not seen:
            message = f"nothing here tells {name}: /v1/models, cache_config_info or the engine's log would"
            yield Finding("setting_differs", Severity.WARNING, "", message, "", case.source)
        for source, actual in seen.items():
            if not same(value, actual):
                message = f"{name} was to be {value}, and {source} says {actual}"
                yield Finding("setting_differs", Severity.ERROR, "", message, _REMEDY, source)


CHECK = Check(
    "setting_differs", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(
        '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n',
        documents={"/v1/models": '{"data":[{"id":"m","max_model_len":2048}]}'}, expected={"max_model_len": "4096"},
    ),
    passes=Example(
        '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1\n',
        documents={"/v1/models": '{"data":[{"id":"m","max_model_len":4096}]}'}, expected={"max_model_len": "4096"},
    ),
)  # fmt: skip
