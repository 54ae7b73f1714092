"""Triton's model configuration has no value of REPORT_CUSTOM_METRICS that this release reads.

The vLLM backend exports ``vllm:`` families only with this parameter in ``config.pbtxt``: exactly ``yes`` up to 24.11,
``true`` from 24.12 on. The other spelling is ignored without a word. The configuration was read over HTTP
(``GET /v2/models/MODEL/config``), so nobody has to log in to the server.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence.model_configs import model_configs, switch_problem
from obs_audit.findings import Finding, Severity

_REMEDY = 'set REPORT_CUSTOM_METRICS in config.pbtxt: "yes" up to 24.11, "true" from 24.12 on; then reload the model'
_PAGE = '# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="m",version="1"} 4\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each model of the vLLM backend whose parameter does nothing."""
    for model in model_configs(case.evidence.documents) if case.stack == "triton" else ():
        problem = switch_problem(model.switch, case.release) if model.backend == "vllm" else ""
        if problem:
            message = f"model {model.name}: {problem}"
            yield Finding("config_switch", Severity.WARNING, "", message, _REMEDY, model.path)


def _config(value: str) -> str:
    return f'{{"name":"m","backend":"vllm","parameters":{{"REPORT_CUSTOM_METRICS":{{"string_value":"{value}"}}}}}}'


CHECK = Check(
    "config_switch", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_PAGE, stack="triton", stack_version="24.12", documents={"/v2/models/m/config": _config("yes")}),
    passes=Example(_PAGE, stack="triton", stack_version="24.12", documents={"/v2/models/m/config": _config("true")}),
)  # fmt: skip
