"""Triton: its own counters are the layer's, never the engine's; the engine's few stand behind a switch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_exporter.schema import Histogram, Provenance, State
from obs_exporter.stacks import Reading

Read = Callable[..., Reading]
ON = "triton/24.10-vllm0.32.0-custom-metrics/after"
PYTHON = "triton/24.10-python-model/after"
SWITCHED = ("ttft", "inter_token_latency", "request_duration", "prompt_tokens", "generation_tokens")


def test_custom_metrics_on(read: Read) -> None:
    reading = read("triton", ON)
    for signal in SWITCHED:
        assert reading.answer(signal).state.publishes
        assert reading.answer(signal).series
    (ttft,) = reading.answer("ttft").series
    assert dict(ttft.labels)["model"] == "vllm_model"
    for signal in ("queue_wait", "kv_cache_usage", "preemptions"):
        assert not reading.answer(signal).series


def test_the_layers_wait_is_never_the_engines(read: Read) -> None:
    body = (
        b"# TYPE nv_inference_request_success counter\nnv_inference_request_success{model=\"m\",version=\"1\"} 2401\n"
        b"# TYPE nv_inference_exec_count counter\nnv_inference_exec_count{model=\"m\",version=\"1\"} 300\n"
        b"# TYPE nv_inference_queue_duration_us counter\n"
        b'nv_inference_queue_duration_us{model="m",version="1"} 1179290\n'
    )  # fmt: skip
    reading = read("triton", body, stack_version="24.12")
    answer = reading.answer("layer_queue_wait")
    (series,) = answer.series
    assert isinstance(series, Histogram)
    assert series.count == 2401
    assert series.sum / series.count == pytest.approx(491e-6, rel=0.001)
    assert answer.provenance is Provenance.LAYER
    assert not reading.answer("queue_wait").series


@pytest.mark.parametrize(
    ("version", "value"), [("24.08", '"yes"'), ("24.11", '"yes"'), ("24.12", '"true"'), ("25.10", '"true"')]
)
def test_off_is_hidden_with_the_value_that_the_release_wants(read: Read, version: str, value: str) -> None:
    answer = read("triton", PYTHON, stack_version=version).answer("ttft")
    assert answer.state is State.HIDDEN
    assert "REPORT_CUSTOM_METRICS" in answer.remedy
    assert f"string_value: {value}" in answer.remedy


def test_before_24_08_there_is_no_switch(read: Read) -> None:
    answer = read("triton", PYTHON, stack_version="24.07").answer("ttft")
    assert answer.state is State.LOST
    assert "24.08" in answer.remedy


def test_lost_only_where_the_engine_has_it(read: Read) -> None:
    assert read("triton", PYTHON, stack_version="24.12").answer("queue_wait").state is State.NEVER
    assert read("triton", PYTHON, stack_version="25.10").answer("queue_wait").state is State.LOST
    assert read("triton", PYTHON, stack_version="24.12").answer("kv_cache_usage").state is State.LOST


def test_25_04_to_25_09_run_the_v0_engine(read: Read) -> None:
    assert read("triton", PYTHON, stack_version="25.08").generation == "V0"
    assert read("triton", PYTHON, stack_version="25.10").generation == "V1"


def test_gpu_families_where_there_is_one(read: Read) -> None:
    reading = read("triton", "triton/24.12-constructed-gpu/default")
    (used,) = reading.answer("gpu_memory_used").series
    assert dict(used.labels)["gpu"]
    assert read("triton", PYTHON).answer("gpu_memory_used").state is State.NOT_APPLICABLE


def test_a_side_port_shows_the_engines_own_page(read: Read) -> None:
    reading = read("triton", "triton/24.10-vllm0.32.0-side-port/side-port-during")
    for signal in ("queue_wait", "kv_cache_usage", "preemptions", "requests_waiting"):
        assert reading.answer(signal).state is State.NATIVE


def test_an_empty_200_is_unreachable_not_fine(read: Read) -> None:
    reading = read("triton", b"")
    assert "empty" in reading.problem
    assert {answer.state for answer in reading.answers} == {State.UNREACHABLE}


def test_tensorrt_llm_keeps_signals_in_labels(read: Read) -> None:
    body = (
        b"# TYPE nv_inference_request_success counter\nnv_inference_request_success{model=\"m\",version=\"1\"} 1\n"
        b"# TYPE nv_trt_llm_request_metrics gauge\n"
        b'nv_trt_llm_request_metrics{model="m",request_type="scheduled",version="1"} 5\n'
        b'nv_trt_llm_request_metrics{model="m",request_type="waiting",version="1"} 2\n'
        b'nv_trt_llm_request_metrics{model="m",request_type="max",version="1"} 64\n'
        b"# TYPE nv_trt_llm_kv_cache_block_metrics gauge\n"
        b'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="m",version="1"} 0.25\n'
    )  # fmt: skip
    reading = read("triton", body)
    values = {
        signal: reading.answer(signal).series[0]
        for signal in ("requests_running", "requests_waiting", "kv_cache_usage")
    }
    assert [getattr(series, "value", None) for series in values.values()] == [5.0, 2.0, 0.25]


def test_release_names_keep_their_zero(read: Read) -> None:
    reading = read("triton", PYTHON, stack_version="24.09")
    assert str(reading.stack_version) == "24.09"
    assert "version_mismatch" not in {oddity.code for oddity in reading.oddities}
    assert "version_mismatch" in {o.code for o in read("triton", PYTHON, stack_version="25.06").oddities}


def test_times_switched_off_are_hidden(read: Read) -> None:
    body = b'# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="m",version="1"} 0\n'
    answer = read("triton", body, stack_version="24.10").answer("layer_queue_wait")
    assert answer.state is State.HIDDEN
    assert "counter_latencies" in answer.remedy


def test_a_newer_engine_alone_brings_nothing_back(read: Read) -> None:
    answer = read("triton", PYTHON, stack_version="24.12").answer("prefill_time")
    assert answer.state is State.NEVER
    assert "second port" in answer.remedy


def test_an_image_whose_engine_nothing_tells(read: Read) -> None:
    reading = read("triton", PYTHON, stack_version="26.08")
    assert "0.19.0" not in str(reading.engine_version)
    assert "unknown_version" in {oddity.code for oddity in reading.oddities}


def test_tensorrt_llm_never_had_the_others(read: Read) -> None:
    body = (
        b'# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="m",version="1"} 1\n'
        b"# TYPE nv_trt_llm_kv_cache_block_metrics gauge\n"
        b'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="m",version="1"} 5\n'
    )
    reading = read("triton", body)
    assert reading.answer("ttft").state is State.NEVER
    assert "used / max" in reading.answer("kv_cache_usage").reason


def test_the_names_of_the_backend_tell_no_engine_version(read: Read) -> None:
    reading = read("triton", "triton/24.10-vllm0.32.0-custom-metrics/after")
    assert not reading.engine_version.candidates
    assert not reading.generation
    assert not [oddity for oddity in reading.oddities if oddity.code == "foreign_version_name"]
