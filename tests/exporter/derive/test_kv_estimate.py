"""The estimate of the KV cache usage: off unless asked for, within its bounds, silent where a number is missing."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.kv_estimate import Batch, Cache, Totals, estimate, length_bias
from obs_exporter.derive.model import LOWER, UPPER, Settings
from obs_exporter.schema import Scalar, State

PAGE = "triton/24.10-vllm0.32.0-custom-metrics/during.txt"


def test_it_is_off_unless_asked_for(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    settings = Settings(max_num_seqs=16, kv_capacity=10_000)
    assert watch("triton", settings=settings).see(data(PAGE), 0.0).reading.answer("kv_cache_usage").state is State.LOST


def test_slots_times_mean_context_over_capacity(data: Any, watch: Any, drop: Any) -> None:
    """198 requests had their first token and with it their prompt counted, 2,567 tokens; 182 of them finished, so that
    the 12,206 tokens generated are those of 182 answers and of 16 halves."""
    settings = Settings(max_num_seqs=16, kv_capacity=10_000, estimate_kv_usage=True)
    plain = drop(data(PAGE), "vllm:request_generation_tokens", "vllm:e2e_request_latency_seconds_bucket")
    values = []
    for page in (plain, data(PAGE)):
        outcome = watch("triton", settings=settings).see(page, 0.0)
        answer = outcome.reading.answer("kv_cache_usage")
        assert answer.state is State.ESTIMATED
        (series,) = answer.series
        assert isinstance(series, Scalar)
        values.append(series.value)
        bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "kv_cache_usage"}
        assert bounds == {LOWER: 0.0, UPPER: 1.0}
    assert values[0] == pytest.approx(16 * (2567 / 198 + 12206 / 190 / 2) / 10_000)
    assert values[0] < values[1] < 1.5 * values[0]


def test_the_engines_own_limit_bounds_it_from_above(watch: Callable[..., Any]) -> None:
    """Three requests of the five that fit at full length; a block each may be begun beside it."""
    body = (
        b"# TYPE vllm:num_requests_running gauge\n# TYPE vllm:cache_config_info gauge\n"
        b"# TYPE vllm:prompt_tokens counter\n# TYPE vllm:generation_tokens counter\n"
        b"# TYPE vllm:request_success counter\n"
        b'vllm:num_requests_running{model_name="m"} 3\n'
        b'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="10000",kv_cache_max_concurrency="5.0",'
        b'num_gpu_blocks="625"} 1\n'
        b'vllm:prompt_tokens_total{model_name="m"} 1000\nvllm:generation_tokens_total{model_name="m"} 1000\n'
        b'vllm:request_success_total{finished_reason="stop",model_name="m"} 10\n'
    )
    settings = Settings(estimate_kv_usage=True, block_size=16)
    outcome = watch("vllm", engine_version="0.24.0", settings=settings).see(body, 0.0)
    bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "kv_cache_usage"}
    assert bounds[LOWER] == pytest.approx(3 * 16 / 10_000)
    assert bounds[UPPER] == pytest.approx(3 / 5 + 3 * 16 / 10_000)


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


def test_the_first_requests_of_a_load_make_no_false_bounds() -> None:
    """17 prompts of 100 tokens were read, one request has finished with 10: the 16 that run hold 1,664."""
    found = estimate(Batch(16, 16, 16), Totals(1700, 10 + 16 * 4, 17, 1), Cache(10_000))
    assert found is not None
    assert found.lower <= (1600 + 64) / 10_000 <= found.upper


WORKLOADS: dict[str, Callable[[random.Random], tuple[int, int]]] = {
    "constant": lambda _: (200, 100),
    "geometric": lambda chance: (200, 1 + int(chance.expovariate(1 / 50))),
    "few long answers": lambda chance: (50, 2000 if chance.random() < 0.1 else 20),
    "long prompts with long answers": lambda chance: (4000, 800) if chance.random() < 0.1 else (100, 20),
}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("lengths", ["buckets", "times", "none"])
def test_the_truth_lies_between_the_bounds(name: str, lengths: str, watch: Callable[..., Any]) -> None:
    """Eight slots that are never empty, one token a step for each. The value is near the truth where one request's
    length says nothing of its prompt."""
    chance, capacity, target = random.Random(7), 40_000, watch("vllm", engine_version="0.6.2")
    target.settings = Settings(kv_capacity=float(capacity), estimate_kv_usage=True)
    running: list[list[int]] = [[*WORKLOADS[name](chance), 0] for _ in range(8)]
    answers: list[int] = []
    prompts, generated, truths, values = 0, 0, [], []
    for second in range(12_000):
        for request in running:
            prompts += request[0] if request[2] == 0 else 0
            request[2], generated = request[2] + 1, generated + 1
        answers += [request[1] for request in running if request[2] >= request[1]]
        running = [request if request[2] < request[1] else [*WORKLOADS[name](chance), 0] for request in running]
        if second % 100 or second < 3000:
            continue
        truth = sum(request[0] + request[2] for request in running if request[2]) / capacity
        outcome = target.see(_counted(prompts, generated, answers, lengths), float(second))
        bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "kv_cache_usage"}
        if all(request[2] for request in running):  # one between two requests is in no batch
            assert bounds[LOWER] <= truth <= bounds[UPPER]
        truths.append(truth)
        values += [one.value for one in outcome.reading.answer("kv_cache_usage").series]
    if lengths != "none" and "with" not in name:
        assert sum(values) / sum(truths) == pytest.approx(1, abs=0.25)


def _counted(prompts: int, generated: int, answers: list[int], lengths: str) -> bytes:
    """A page of eight running requests, with the answers' lengths as asked for: by tokens or by seconds of 33 each."""
    family, edges = "request_generation_tokens", [1.0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
    if lengths == "times":
        family, edges = "request_decode_time_seconds", [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60]
    scale = 1 / 33 if lengths == "times" else 1.0
    lines = [
        "# TYPE vllm:num_requests_running gauge", "# TYPE vllm:prompt_tokens counter",
        "# TYPE vllm:generation_tokens counter", "# TYPE vllm:request_success counter",
        "vllm:num_requests_running 8", f"vllm:prompt_tokens_total {prompts}",
        f"vllm:generation_tokens_total {generated}",
        f'vllm:request_success_total{{finished_reason="stop"}} {len(answers)}',
    ]  # fmt: skip
    if lengths != "none":
        lines.append(f"# TYPE vllm:{family} histogram")
        held = sorted(one * scale for one in answers)
        lines += [f'vllm:{family}_bucket{{le="{edge}"}} {bisect.bisect_right(held, edge)}' for edge in edges]
        lines += [f'vllm:{family}_bucket{{le="+Inf"}} {len(held)}', f"vllm:{family}_count {len(held)}"]
        lines.append(f"vllm:{family}_sum {sum(held)}")
    return ("\n".join(lines) + "\n").encode()


def test_of_equal_lengths_none_is_more_often_seen() -> None:
    assert length_bias([(10.0, 0.0), (20.0, 7.0), (math.inf, 7.0)], 105) == pytest.approx(1)
    assert length_bias([], 0) == 1
    assert length_bias([(10.0, 0.0), (math.inf, 0.0)], 0) == 1


def test_one_long_answer_among_short_ones_is_seen_most_of_the_time() -> None:
    """Nine of 5 and one of 955 above the last edge: E[L^2] / E[L]^2 is 91,225 / 100^2."""
    assert length_bias([(10.0, 9.0), (100.0, 9.0), (math.inf, 10.0)], 1000) == pytest.approx(9.1225)


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


@given(*[st.floats(0, 1e9)] * 8, st.floats(0, 1e3))
def test_it_is_a_ratio_between_its_bounds(
    running: float, more: float, prompt: float, answer: float, begun: float, finished: float, capacity: float,
    concurrency: float, bias: float,
) -> None:  # fmt: skip
    batch = Batch(running, 0.0, running + more)
    found = estimate(batch, Totals(prompt, answer, begun, finished), Cache(capacity, concurrency), bias)
    if found is None:
        assert not capacity or not finished
    else:
        assert 0 <= found.lower <= found.value <= found.upper <= 1
