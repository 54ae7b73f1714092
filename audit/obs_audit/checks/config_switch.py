"""Triton's model configuration has no value of REPORT_CUSTOM_METRICS that this release reads.

The vLLM backend exports ``vllm:`` families only with this parameter in ``config.pbtxt``: exactly ``yes`` up to 24.11,
``true`` from 24.12 on. The other spelling is ignored without a word. The configuration was read over HTTP
(``GET /v2/models/MODEL/config``), so nobody has to log in to the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.versions import matches

_REMEDY = 'set REPORT_CUSTOM_METRICS in config.pbtxt: "yes" up to 24.11, "true" from 24.12 on; then reload the model'
_PAGE = '# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="m",version="1"} 4\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each model of the vLLM backend whose parameter does nothing."""
    for path, document in sorted(case.evidence.documents.items()):
        if case.stack == "triton" and path.startswith("/v2/models/") and _field(document, "backend") == "vllm":
            value = _field(document, "parameters", "REPORT_CUSTOM_METRICS", "string_value")
            problem = _problem(value, case.release)
            if problem:
                message = f"model {path.split('/')[3]}: {problem}"
                yield Finding("config_switch", Severity.WARNING, "", message, _REMEDY, path)


def _problem(value: str, release: str) -> str:
    """Say what is wrong with a value at a release, or ""; an unknown release is given the benefit of the doubt."""
    if not value:
        return "REPORT_CUSTOM_METRICS is not set, so the backend exports no vllm: family"
    old = value == "yes"
    modern = value.lower() == "true"
    if not (old or modern):
        return f"REPORT_CUSTOM_METRICS is {value!r}, which no release reads as on"
    if release and matches(">=24.12", release) and not modern:
        return f"REPORT_CUSTOM_METRICS is {value!r}; {release} reads only true"
    if release and matches("<24.12", release) and not old:
        return f"REPORT_CUSTOM_METRICS is {value!r}; {release} reads only yes"
    return ""


def _field(document: object, *path: str) -> str:
    """Return the text at a path of a document, or ""."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _config(value: str) -> str:
    return f'{{"name":"m","backend":"vllm","parameters":{{"REPORT_CUSTOM_METRICS":{{"string_value":"{value}"}}}}}}'


CHECK = Check(
    "config_switch", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_PAGE, stack="triton", stack_version="24.12", documents={"/v2/models/m/config": _config("yes")}),
    passes=Example(_PAGE, stack="triton", stack_version="24.12", documents={"/v2/models/m/config": _config("true")}),
)  # fmt: skip
