"""Triton's model configurations decide what the page leaves open: no LLM engine at all, or a switch that is on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from obs_audit.evidence import Piece, Role
from obs_audit.verdict import Report
from obs_exporter.stacks import engine

PAGE = b'# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="chat",version="1"} 4\n'


def config(backend: str, switch: str = "", model: str = "chat") -> Piece:
    parameters = {"REPORT_CUSTOM_METRICS": {"string_value": switch}} if switch else {}
    document = {"name": model, "backend": backend, "parameters": parameters}
    return Piece(Role.DOCUMENT, f"http://api/v2/models/{model}/config", json.dumps(document).encode())


@pytest.mark.parametrize("backend", ["python", "onnxruntime"])
def test_without_an_llm_backend_the_engines_signals_do_not_apply(backend: str, verdict: Callable[..., Report]) -> None:
    report = verdict("triton", PAGE, stack_version="24.12", pieces=(config(backend),))
    answers = [report.reading.answer(signal) for signal in sorted(engine.SIGNALS)]
    assert {str(answer.state) for answer in answers} == {"not_applicable"}
    assert {answer.reason for answer in answers} == {
        f"the models of this server run on the {backend} backend: no LLM engine"
    }
    assert not any(answer.remedies for answer in answers)
    assert engine.SIGNALS.isdisjoint(finding.signal for finding in report.findings)


def test_a_model_without_a_configuration_may_be_the_llm(verdict: Callable[..., Report]) -> None:
    page = PAGE + b'nv_inference_request_success{model="llm",version="1"} 4\n'
    report = verdict("triton", page, stack_version="24.12", pieces=(config("python"),))
    assert report.reading.answer("ttft").state == "hidden"
    both = verdict("triton", page, stack_version="24.12", pieces=(config("python"), config("vllm", model="llm")))
    assert both.reading.answer("ttft").state == "hidden"


@pytest.mark.parametrize(("release", "right", "wrong"), [("24.11", "yes", "true"), ("24.12", "true", "yes")])
def test_a_switch_that_is_on_is_not_to_be_set_again(
    release: str, right: str, wrong: str, verdict: Callable[..., Report]
) -> None:
    on = verdict("triton", PAGE, stack_version=release, pieces=(config("vllm", right),)).reading.answer("ttft")
    off = verdict("triton", PAGE, stack_version=release, pieces=(config("vllm", wrong),)).reading.answer("ttft")
    assert (on.state, off.state) == ("hidden", "hidden")
    assert "set parameters" in off.remedies
    assert "set parameters" not in on.remedies
    assert on.reason.startswith("REPORT_CUSTOM_METRICS is set; disable_log_stats in model.json")
    assert "Metrics not supported" in on.reason
