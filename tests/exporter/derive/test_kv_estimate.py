"""The estimate of the KV cache usage: off unless asked for, within its bounds, silent where a number is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.kv_estimate import Totals, estimate
from obs_exporter.derive.model import LOWER, UPPER, Settings
from obs_exporter.schema import Scalar, State

PAGE = "triton/24.10-vllm0.32.0-custom-metrics/during.txt"


def test_it_is_off_unless_asked_for(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    settings = Settings(max_num_seqs=16, kv_capacity=10_000)
    assert watch("triton", settings=settings).see(data(PAGE), 0.0).reading.answer("kv_cache_usage").state is State.LOST


def test_slots_times_mean_context_over_capacity(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """198 requests had their first token and with it their prompt counted, 2,567 tokens; 182 of them finished, so that
    the 12,206 tokens generated are those of 182 answers and of 16 halves."""
    settings = Settings(max_num_seqs=16, kv_capacity=10_000, estimate_kv_usage=True)
    outcome = watch("triton", settings=settings).see(data(PAGE), 0.0)
    answer = outcome.reading.answer("kv_cache_usage")
    assert answer.state is State.ESTIMATED
    (series,) = answer.series
    assert isinstance(series, Scalar)
    assert series.value == pytest.approx(16 * (2567 / 198 + 12206 / 190 / 2) / 10_000)
    bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "kv_cache_usage"}
    assert bounds[LOWER] < series.value < bounds[UPPER]


@pytest.mark.parametrize("missing", [{"max_num_seqs": 0}, {"kv_capacity": 0.0}])
def test_a_missing_number_makes_no_estimate(data: Any, watch: Any, missing: dict[str, Any]) -> None:
    known: dict[str, Any] = {"max_num_seqs": 16, "kv_capacity": 10_000.0, "estimate_kv_usage": True} | missing
    answer = watch("triton", settings=Settings(**known)).see(data(PAGE), 0.0).reading.answer("kv_cache_usage")
    assert answer.state is State.LOST


def test_a_capacity_that_is_given_is_published_as_such(data: Any, watch: Any) -> None:
    settings = Settings(kv_capacity=10_000.0)
    answer = watch("triton", settings=settings).see(data(PAGE), 0.0).reading.answer("kv_cache_capacity")
    assert answer.state is State.ESTIMATED
    assert [one.value for one in answer.series] == [10_000.0]
    native = watch("vllm", settings=settings).see(data("vllm/0.32.0-real-preempting/during-1.txt"), 0.0)
    assert native.reading.answer("kv_cache_capacity").state is State.NATIVE


def test_the_first_requests_of_a_load_make_no_false_lower_bound() -> None:
    """17 prompts of 100 tokens were read, one request has finished with 10: the 16 that run hold 1,600 at least."""
    found = estimate(16, Totals(1700, 10 + 16 * 4, 17, 1), 10_000)
    assert found is not None
    assert found.lower == pytest.approx(0.16)
    assert found.lower <= (1600 + 64) / 10_000 <= found.upper


def test_engines_of_one_page_share_the_requests_and_the_capacity(watch: Callable[..., Any]) -> None:
    """Each engine prints the blocks of both."""
    body = (
        b"# TYPE vllm:num_requests_running gauge\n# TYPE vllm:cache_config_info gauge\n"
        b"# TYPE vllm:prompt_tokens counter\n# TYPE vllm:generation_tokens counter\n"
        b"# TYPE vllm:request_success counter\n"
        b'vllm:prompt_tokens_total{engine="0",model_name="m"} 2000\n'
        b'vllm:generation_tokens_total{engine="0",model_name="m"} 0\n'
        b'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 10\n'
    )
    for engine in (b"0", b"1"):
        body += b'vllm:num_requests_running{engine="' + engine + b'",model_name="m"} 5\n'
        body += b'vllm:cache_config_info{block_size="16",engine="' + engine + b'",num_gpu_blocks="250"} 1\n'
    target = watch("vllm", engine_version="0.20.0", settings=Settings(estimate_kv_usage=True))
    (series,) = target.see(body, 0.0).reading.answer("kv_cache_usage").series
    assert isinstance(series, Scalar)
    assert series.value == pytest.approx(10 * 100 / 4000)


def test_the_means_are_those_of_the_whole_run(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """In the middle of it the estimate is made of the prompt and the answer that the last page of the run confirms."""
    settings = Settings(max_num_seqs=16, kv_capacity=10_000, estimate_kv_usage=True)
    outcome = watch("triton", settings=settings).see(data(PAGE), 0.0)
    (series,) = outcome.reading.answer("kv_cache_usage").series
    assert isinstance(series, Scalar)
    assert series.value == pytest.approx(16 * (3386 + 16342 / 2) / 261 / 10_000, rel=0.03)


@given(*[st.floats(0, 1e9)] * 6)
def test_it_is_a_ratio_between_its_bounds(
    running: float, prompt: float, answer: float, begun: float, finished: float, capacity: float
) -> None:
    found = estimate(running, Totals(prompt, answer, begun, finished), capacity)
    if found is None:
        assert not capacity or not finished
    else:
        assert 0 <= found.lower <= found.value <= found.upper <= 1
