"""The lint's verdicts, against what real pages of each stack show and against cases that are known to have hurt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_audit.lint.answers import Judge
from obs_exporter.exposition import Wanted, parse
from obs_exporter.options import claims
from obs_exporter.schema import BY_ID, Kind
from obs_exporter.stacks import STACKS, read_page
from obs_exporter.stacks import engine as vllm

REAL = {
    "vllm/0.32.0-real/after": ("vllm", "", "0.32.0"),
    "vllm/0.20.0-rendered/v1-load": ("vllm", "", "0.20.0"),
    "vllm/0.8.5-rendered/v1-load": ("vllm", "", "0.8.5"),
    "ray/2.60.0-llm-vllm0.29.0/during": ("ray-serve", "2.60.0", "0.29.0"),
    "triton/24.10-vllm0.32.0-custom-metrics/after": ("triton", "24.10", ""),
}


def judge(stack: str, stack_version: str = "", engine_version: str = "") -> Judge:
    return Judge(STACKS[stack], claims(stack_version, engine_version))


@pytest.mark.parametrize("captured", REAL)
def test_a_name_on_a_real_page_is_never_called_absent(page: Callable[[str], bytes], captured: str) -> None:
    stack, stack_version, engine_version = REAL[captured]
    table = STACKS[stack]
    types = parse(page(captured), Wanted(set())).types
    asked = judge(stack, stack_version, engine_version)
    seen = 0
    for name, kind in types.items():
        spelled = name + "_bucket" if kind == "histogram" else name
        if not name.startswith(table.engine_prefixes) or name.endswith("_created") or name.startswith(table.lookalikes):
            continue
        verdict = asked.judge(spelled)
        # A family behind a switch or a feature may well be on a page: the switch is set there. On Triton every one is.
        assert verdict.word in ("fine", "hidden"), verdict
        assert verdict.word == "fine" or verdict.remedy or verdict.reason, verdict
        seen += 1
    assert seen >= 8


@pytest.mark.parametrize("captured", ["ray/2.60.0-llm-vllm0.29.0/during", "vllm/0.8.5-rendered/v1-load"])
def test_the_native_name_is_the_one_on_the_page(page: Callable[[str], bytes], captured: str) -> None:
    stack, stack_version, engine_version = REAL[captured]
    told = claims(stack_version, engine_version)
    reading = read_page(STACKS[stack], parse(page(captured), STACKS[stack].wanted()), told)
    asked = judge(stack, stack_version, engine_version)
    compared = 0
    for row in vllm.ROWS:
        answer = reading.answer(row.signal)
        if not answer.state.publishes or row.product or not answer.native_name:
            continue
        part = "_sum" if row.kind is Kind.HISTOGRAM else ""
        verdict = asked.judge(f"vllm:{row.family}{part}")
        assert (verdict.native or verdict.name) == answer.native_name + part, verdict
        assert verdict.common == BY_ID[row.signal].metric + part
        compared += 1
    assert compared >= 10


@pytest.mark.parametrize(
    ("stack", "version", "name", "word", "native", "common"),
    [
        # The rename that broke six projects.
        ("vllm", "0.20.0", "vllm:gpu_cache_usage_perc", "never", "vllm:kv_cache_usage_perc",
         "llm_kv_cache_usage_ratio"),
        ("vllm", "0.8.5", "vllm:kv_cache_usage_perc", "never", "vllm:gpu_cache_usage_perc", "llm_kv_cache_usage_ratio"),
        # A counter asked for without _total, as a published guide does: its alert can never fire.
        ("vllm", "0.20.0", "vllm:num_preemptions", "never", "vllm:num_preemptions_total", "llm_preemptions_total"),
        # A name that only the V0 engine had.
        ("vllm", "0.20.0", "vllm:num_requests_swapped", "never", "", ""),
        # Names that no release has ever had.
        ("vllm", "0.20.0", "vllm:gpu_cache_usage_factor", "never", "", "llm_kv_cache_usage_ratio"),
        ("vllm", "0.20.0", "vllm:entirely_made_up", "never", "", ""),
        ("ray-serve", "2.60.0", "ray_vllm:num_requests_running", "renamed", "ray_vllm_num_requests_running",
         "llm_requests_running"),
        ("ray-serve", "2.50.1", "vllm:num_requests_running", "hidden", "", "llm_requests_running"),
        ("ray-serve", "2.44.1", "vllm:num_preemptions_total", "lost", "", "llm_preemptions_total"),
        ("triton", "24.12", "vllm:time_to_first_token_seconds_bucket", "hidden", "",
         "llm_time_to_first_token_seconds_bucket"),
        # The backend keeps the old name of the inter-token latency, whatever its engine calls it.
        ("triton", "26.01", "vllm:time_per_output_token_seconds_sum", "hidden", "",
         "llm_inter_token_latency_seconds_sum"),
        ("triton", "26.01", "vllm:inter_token_latency_seconds_sum", "hidden", "vllm:time_per_output_token_seconds_sum",
         "llm_inter_token_latency_seconds_sum"),
        ("triton", "26.01", "vllm:request_params_best_of_count", "never", "", ""),
        ("triton", "24.12", "vllm:num_requests_waiting", "lost", "", "llm_requests_waiting"),
        ("triton", "24.12", "nv_inference_queue_duration_us", "fine", "", "llm_layer_queue_seconds_sum"),
        ("vllm", "0.20.0", "nv_inference_queue_duration_us", "never", "", "llm_layer_queue_seconds_sum"),
        ("kserve", "0.20.0", "vllm_num_requests_running", "renamed", "vllm:num_requests_running",
         "llm_requests_running"),
        ("vllm", "0.20.0", "llm_layer_queue_seconds_sum", "never", "", ""),
        ("triton", "24.12", "llm_kv_cache_usage_ratio", "lost", "", ""),
        ("vllm", "0.20.0", "llm_kv_cache_usage_ratio", "fine", "", ""),
        ("vllm", "0.20.0", "llm_signal_info", "fine", "", ""),
        ("vllm", "0.20.0", "node_load1", "not_judged", "", ""),
    ],
)  # fmt: skip
def test_verdicts(stack: str, version: str, name: str, word: str, native: str, common: str) -> None:
    stack_version, engine_version = ("", version) if stack == "vllm" else (version, "")
    verdict = judge(stack, stack_version, engine_version).judge(name)
    if name == "vllm:gpu_cache_usage_factor":
        assert verdict.word == "never"  # what is offered in its place is a guess by spelling
    else:
        assert (verdict.word, verdict.native, verdict.common) == (word, native, common), verdict
    assert verdict.answerable or verdict.reason


def test_a_name_that_stands_for_no_signal_has_no_remedy() -> None:
    assert not judge("triton", "26.01").judge("vllm:num_requests_swapped").remedy
    assert "REPORT_CUSTOM_METRICS" in judge("triton", "26.01").judge("vllm:time_per_output_token_seconds_sum").remedy


def test_hidden_names_its_switch() -> None:
    verdict = judge("triton", "24.12").judge("vllm:time_to_first_token_seconds_sum")
    assert 'string_value: "true"' in verdict.remedy
    verdict = judge("vllm", "", "0.32.0").judge("vllm:kv_block_lifetime_seconds_sum")
    assert (verdict.word, verdict.remedy) == ("hidden", "start the engine with --kv-cache-metrics")
