"""The layer's queue as a difference: exact on Ray 2.44.1, bounds only where sums are rebuilt from buckets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.layer_queue import State, Sums, step
from obs_exporter.derive.model import SUM_LOWER, SUM_UPPER
from obs_exporter.schema import Histogram, Precision
from obs_exporter.schema import State as Known


def test_ray_2_44_gives_what_its_access_log_says(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """402 requests spent 604,647 ms at the proxy and 43,633 ms in the replicas: 1,395.6 ms each outside them."""
    answer = watch("ray-serve").see(data("ray/2.44.1-serve/after.txt"), 0.0).reading.answer("layer_queue_wait")
    (histogram,) = answer.series
    assert isinstance(histogram, Histogram)
    assert (answer.state, answer.precision) == (Known.DERIVED, Precision.EXACT)
    assert histogram.sum / histogram.count == pytest.approx(1.3956, abs=5e-5)


def test_of_several_deployments_only_the_ingress_counts(
    data: Callable[[str], bytes], watch: Callable[..., Any]
) -> None:
    page = data("ray/2.44.1-llm-standin-engine/after.txt")
    answer = watch("ray-serve").see(page, 0.0).reading.answer("layer_queue_wait")
    (histogram,) = answer.series
    assert isinstance(histogram, Histogram)
    # 750,196 ms at the proxy, 709,604 ms in both replicas of LLMRouter, which the engine's deployment stands behind.
    assert histogram.sum == pytest.approx(40.6, abs=0.1)


def test_rebuilt_sums_give_bounds_and_no_value(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    outcome = watch("ray-serve").see(data("ray/2.60.0-llm-vllm0.29.0/after.txt"), 0.0)
    assert outcome.reading.answer("layer_queue_wait").state is Known.LOST
    bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "layer_queue_wait"}
    # The access log says 1,313.861 s at the proxy; the time in front of the ingress was a few seconds of it.
    assert bounds[SUM_LOWER] <= 5 <= bounds[SUM_UPPER]


def test_a_side_that_reports_later_does_not_shift_the_mean() -> None:
    """40 requests of 3 s, 1 s of it inside; the replicas report one request late."""
    state = State()
    for count in range(1, 41):
        state = step(state, Sums(3.0 * count, count), Sums(1.0 * max(count - 1, 1), max(count - 1, 1)))
    assert state.sum.value / state.count.value == pytest.approx(2.0)


def test_a_restarted_cluster_goes_on_from_what_was_published() -> None:
    state = step(State(), Sums(30, 10), Sums(10, 10))
    state = step(state, Sums(3, 1), Sums(1, 1))
    assert (state.sum.value, state.count.value) == (22, 11)


_SUMS = st.builds(
    Sums, st.floats(0, 1e6), st.integers(0, 1000).map(float), st.floats(0, 1e6), st.floats(0, 1e6) | st.just(math.inf)
)


@given(st.lists(st.tuples(_SUMS, _SUMS)))
def test_nothing_published_ever_falls(looks: list[tuple[Sums, Sums]]) -> None:
    state = State()
    for outer, inner in looks:
        before, state = state, step(state, outer, inner)
        for name in ("sum", "low", "high", "count"):
            assert getattr(state, name).value >= getattr(before, name).value
