"""The estimate of the KV cache usage: off unless asked for, within its bounds, silent where a number is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.kv_estimate import estimate
from obs_exporter.derive.model import LOWER, UPPER, Settings
from obs_exporter.schema import Scalar, State

PAGE = "triton/24.10-vllm0.32.0-custom-metrics/during.txt"


def test_it_is_off_unless_asked_for(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    settings = Settings(max_num_seqs=16, kv_capacity=10_000)
    assert watch("triton", settings=settings).see(data(PAGE), 0.0).reading.answer("kv_cache_usage").state is State.LOST


def test_slots_times_mean_context_over_capacity(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """16 slots; 182 requests finished of 2,567 prompt and 12,206 output tokens so far."""
    settings = Settings(max_num_seqs=16, kv_capacity=10_000, estimate_kv_usage=True)
    outcome = watch("triton", settings=settings).see(data(PAGE), 0.0)
    answer = outcome.reading.answer("kv_cache_usage")
    assert answer.state is State.ESTIMATED
    (series,) = answer.series
    assert isinstance(series, Scalar)
    assert series.value == pytest.approx(16 * (2567 + 12206 / 2) / 182 / 10_000)
    bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "kv_cache_usage"}
    assert bounds[LOWER] < series.value < bounds[UPPER]


@pytest.mark.parametrize("missing", [{"max_num_seqs": 0}, {"kv_capacity": 0.0}])
def test_a_missing_number_makes_no_estimate(data: Any, watch: Any, missing: dict[str, Any]) -> None:
    known: dict[str, Any] = {"max_num_seqs": 16, "kv_capacity": 10_000.0, "estimate_kv_usage": True} | missing
    answer = watch("triton", settings=Settings(**known)).see(data(PAGE), 0.0).reading.answer("kv_cache_usage")
    assert answer.state is State.LOST


@given(*[st.floats(0, 1e9)] * 4)
def test_it_is_a_ratio_between_its_bounds(running: float, prompt: float, answer: float, capacity: float) -> None:
    found = estimate(running, prompt, answer, capacity)
    if found is None:
        assert capacity == 0
    else:
        assert 0 <= found.lower <= found.value <= found.upper <= 1
