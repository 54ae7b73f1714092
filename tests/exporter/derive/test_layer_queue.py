"""The layer's queue as a difference: exact on Ray 2.44.1, bounds only where sums are rebuilt from buckets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.layer_queue import NONE, Point, State, Sums, step
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


EDGES = (100.0, 400.0, 500.0, 1000.0, math.inf)


def _histogram(family: str, labels: str, count: int, total: float, *, worker: str = "w") -> bytes:
    """One series in milliseconds; all observations are equal."""
    each = total / count if count else 0.0
    text = f'Component="core_worker",SessionName="s",WorkerId="{worker}",{labels}'
    lines = [f'{family}_bucket{{{text},le="{edge}"}} {count if each <= edge else 0}\n' for edge in EDGES]
    return ("".join(lines) + f"{family}_count{{{text}}} {count}\n{family}_sum{{{text}}} {total}\n").encode()


def _at(count: int, total: float, app: str = "default", status: int = 200, worker: str = "w") -> bytes:
    labels = f'Version="VERSION",application="{app}",method="POST",route="/",status_code="{status}"'
    return _histogram("ray_serve_http_request_latency_ms", labels, count, total, worker=worker)


def _in(
    count: int, total: float, app: str = "default", deployment: str = "LLMRouter", replica: str = "r", route: str = "/"
) -> bytes:
    labels = f'Version="VERSION",application="{app}",deployment="{deployment}",replica="{replica}",route="{route}"'
    return _histogram("ray_serve_deployment_processing_latency_ms", labels, count, total, worker=replica)


def _page(*series: bytes, version: str = "2.44.1") -> bytes:
    types = b"# TYPE ray_serve_http_request_latency_ms histogram\n"
    types += b"# TYPE ray_serve_deployment_processing_latency_ms histogram\n"
    return (types + b"".join(series)).replace(b"VERSION", version.encode())


def _seen(outcome: Any) -> tuple[float, float, str]:
    """The published sum, count and precision; zeros where nothing is published."""
    answer = outcome.reading.answer("layer_queue_wait")
    series = [one for one in answer.series if isinstance(one, Histogram)]
    return sum(one.sum for one in series), sum(one.count for one in series), str(answer.precision)


def test_paths_that_no_application_serves_are_not_in_it(
    data: Callable[[str], bytes], watch: Callable[..., Any]
) -> None:
    page = data("ray/2.44.1-llm-standin-engine/after.txt")
    more = _at(20, 20.0, app="", status=404).replace(b"VERSION", b"2.44.1")
    captured = _seen(watch("ray-serve").see(page, 0.0))
    assert captured[0] == pytest.approx(40.6, abs=0.1)
    assert captured[1:] == (203, "exact")
    assert _seen(watch("ray-serve").see(page + more, 0.0)) == captured


def test_each_application_is_taken_for_itself(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """A second one: 1,000 requests of 50 ms, 45 of them inside."""
    page = data("ray/2.44.1-llm-standin-engine/after.txt")
    more = _at(1000, 50_000, app="other") + _in(1000, 45_000, app="other", deployment="Model")
    found = _seen(watch("ray-serve").see(page + more.replace(b"VERSION", b"2.44.1"), 0.0))
    assert found[0] == pytest.approx(45.6, abs=0.1)
    assert found[1:] == (1203, "exact")


def test_an_application_whose_entrance_is_unknown_is_named_and_left_out(watch: Callable[..., Any]) -> None:
    both = _in(5, 500, app="odd", deployment="A") + _in(5, 400, app="odd", deployment="B")
    page = _page(_at(10, 3000), _in(10, 1000), _at(5, 5000, app="odd"), both)
    outcome = watch("ray-serve").see(page, 0.0)
    assert _seen(outcome) == (2.0, 10, "exact")
    assert "cannot be told of odd" in outcome.reading.answer("layer_queue_wait").reason


def test_calls_between_deployments_are_no_requests_of_the_edge(watch: Callable[..., Any]) -> None:
    page = _page(_at(10, 3000), _in(10, 1000), _in(7, 7000, route=""))
    assert _seen(watch("ray-serve").see(page, 0.0)) == (2.0, 10, "exact")


@pytest.mark.parametrize("status", [408, 499, 503])
def test_a_request_that_may_not_have_got_inside_counts_where_it_did(watch: Callable[..., Any], status: int) -> None:
    outside = _at(10, 3000) + _at(4, 2000, status=status)
    assert _seen(watch("ray-serve").see(_page(outside, _in(10, 1000)), 0.0)) == (2.0, 10, "exact")
    assert _seen(watch("ray-serve").see(_page(outside, _in(14, 2000)), 0.0)) == (3.0, 14, "exact")
    refused = watch("ray-serve").see(_page(outside, _in(12, 1500)), 0.0)
    answer = refused.reading.answer("layer_queue_wait")
    assert (answer.state, answer.series) == (Known.LOST, ())
    assert "differ in number" in answer.reason


def test_counts_that_differ_for_ever_are_left_out_and_what_follows_is_exact(watch: Callable[..., Any]) -> None:
    target = watch("ray-serve")
    looks = [target.see(_page(_at(223, 60_203), _in(203, 20_300)), 15.0 * look) for look in range(3)]
    assert [_seen(one)[1] for one in looks] == [0, 0, 0]
    found = target.see(_page(_at(233, 63_203), _in(213, 21_300)), 45.0)
    assert _seen(found) == (2.0, 10, "exact")
    assert "left out" in found.reading.answer("layer_queue_wait").reason


def test_a_side_that_reports_later_does_not_shift_the_mean(watch: Callable[..., Any]) -> None:
    """400 requests of 3 s, 1 s of it inside; the replicas report 5 requests late, until the load ends."""
    target, means = watch("ray-serve"), []
    for second in range(41):
        count = 10 * second
        late = max(count - 5, 0)
        total, waited, precision = _seen(
            target.see(_page(_at(count, 3000.0 * count), _in(late, 1000.0 * late)), second)
        )
        if waited:
            means.append(total / waited)
            assert precision == "sampled"
    assert len(means) > 30
    assert means == pytest.approx([2.0] * len(means))
    assert _seen(target.see(_page(_at(400, 1_200_000), _in(400, 400_000)), 50.0)) == (800, 400, "exact")


def test_what_was_published_too_high_under_load_is_not_called_exact(watch: Callable[..., Any]) -> None:
    """The 5 requests that the replicas tell late were inside for 30 s each."""
    target = watch("ray-serve")
    target.see(_page(_at(50, 60_000), _in(50, 50_000)), 0.0)
    high, _, precision = _seen(target.see(_page(_at(150, 300_000), _in(145, 145_000)), 5.0))
    assert (high, precision) == (143, "sampled")
    assert _seen(target.see(_page(_at(150, 300_000), _in(150, 295_000)), 10.0)) == (high, 150, "sampled")
    low = _seen(target.see(_page(_at(350, 700_000), _in(350, 495_000)), 15.0))
    assert low == (205, 350, "exact")


def test_a_restarted_cluster_goes_on_from_what_was_published(watch: Callable[..., Any]) -> None:
    target = watch("ray-serve")
    target.see(_page(_at(10, 30_000), _in(10, 10_000)), 0.0)
    assert _seen(target.see(_page(_at(1, 3000), _in(1, 1000)), 15.0)) == (22, 11, "exact")


def test_a_replica_that_is_gone_makes_no_false_wait(watch: Callable[..., Any]) -> None:
    """Its series leave the page with it, so that 100 s inside would turn into waiting."""
    target = watch("ray-serve")
    target.see(_page(_at(200, 210_000), _in(100, 100_000), _in(100, 100_000, replica="q")), 0.0)
    for time in (15.0, 30.0):
        assert _seen(target.see(_page(_at(200, 210_000), _in(100, 100_000)), time)) == (10, 200, "exact")
    assert _seen(target.see(_page(_at(210, 220_500), _in(110, 110_000)), 45.0)) == (10.5, 210, "exact")


def test_several_processes_agree_only_when_they_stand_still(watch: Callable[..., Any]) -> None:
    """One replica is ahead by the 20 short requests that the other is behind: the counts agree, the requests do not."""
    target = watch("ray-serve")
    both = _in(100, 100_000), _in(100, 100_000, replica="q")
    target.see(_page(_at(200, 220_000), *both), 0.0)
    skewed = _page(_at(240, 264_000), _in(140, 104_000), both[1])
    assert _seen(target.see(skewed, 5.0))[2] == "sampled"
    assert _seen(target.see(skewed, 20.0))[2] == "exact"


def _limits(outcome: Any) -> list[float]:
    kinds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "layer_queue_wait"}
    return [kinds[kind] for kind in (SUM_LOWER, SUM_UPPER) if kind in kinds]


def test_bounds_hold_whatever_side_is_ahead(watch: Callable[..., Any]) -> None:
    """Nobody waits. The proxy has told of 58 requests, the replica of 45; later both of all."""
    target = watch("ray-serve")

    def see(outside: int, inside: int, time: float) -> list[float]:
        page = _page(_at(outside, 450.0 * outside), _in(inside, 450.0 * inside), version="2.60.0")
        return _limits(target.see(page, time))

    assert see(58, 45, 0.0) == []
    assert see(1000, 46, 10.0) == []
    assert see(3000, 3000, 20.0) == [0.0, pytest.approx(300)]
    assert see(4000, 3001, 25.0) == [0.0, pytest.approx(300)]
    assert see(4000, 4000, 60.0) == [0.0, pytest.approx(400)]


def test_an_upper_bound_that_was_open_once_stays_open(watch: Callable[..., Any]) -> None:
    """Two requests of 2 s lie above the last edge; so the sum has no upper bound, whatever comes after them."""
    target = watch("ray-serve")
    slow, quick = _at(2, 4000), _at(9, 4050, status=201)
    for time in (0.0, 15.0, 30.0):
        assert len(_limits(target.see(_page(slow, _in(2, 900), version="2.60.0"), time))) == 1
    more = _page(slow, quick, _in(2, 900), _in(9, 4050, route="/x"), version="2.60.0")
    for time in (45.0, 60.0):
        assert _limits(target.see(more, time)) == [pytest.approx(2 * 1.0 - 2 * 0.5)]


def test_a_lower_bound_that_is_contradicted_is_given_up() -> None:
    """Two looks of one process each that agree by chance, at different requests, and then at the same ones."""
    state = step(State(), {"": Point(Sums(9, 10, 9, 9), NONE, Sums(1, 10, 1, 1))}, 0.0)
    assert state.groups[""].total.low == 8
    state = step(state, {"": Point(Sums(12, 20, 12, 12), NONE, Sums(11, 20, 11, 11))}, 5.0)
    assert state.groups[""].total.low == 1
    assert state.groups[""].total.sum == 8


_SUMS = st.builds(
    lambda total, count, low, more: Sums(total, count, low, low + more),
    st.floats(0, 1e6), st.integers(0, 1000).map(float), st.floats(0, 1e6), st.floats(0, 1e6) | st.just(math.inf),
)  # fmt: skip
_POINTS = st.dictionaries(st.sampled_from("ab"), st.builds(Point, _SUMS, _SUMS, _SUMS, st.booleans()))


@given(st.lists(st.tuples(_POINTS, st.floats(-60, 60))))
def test_nothing_published_ever_falls(looks: list[tuple[dict[str, Point], float]]) -> None:
    state, now = State(), 0.0
    for points, later in looks:
        now += later
        before, state = state, step(state, points, now)
        for name, old in before.groups.items():
            new = state.groups[name]
            assert new.total.sum >= old.total.sum
            assert new.total.count >= old.total.count
            assert 0 <= new.total.low <= new.total.high
            assert not math.isnan(new.total.high)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.05, 0.3, 0.45, 2.0, 9.0]), st.integers(0, 1)), min_size=1),
    st.integers(0, 3),
)
def test_the_truth_lies_between_the_bounds(load: list[tuple[int, float, int]], late: int) -> None:
    """Requests one after another through one proxy and one replica, which tells of them ``late`` looks later."""
    state, total, inside, told = State(), NONE, NONE, [(NONE, 0.0)]
    for look, (count, each, wait) in enumerate([*load, *[(0, 1.0, 0)] * (late + 1)]):
        total, inside = total.plus(_bucketed(count, each + wait)), inside.plus(_bucketed(count, each))
        told.append((inside, told[-1][1] + count * wait))
        known = told[max(0, len(told) - 1 - late)][0]
        state = step(state, {"": Point(total, NONE, known)}, 10.0 * look)
        found = state.groups[""]
        if found.agreed and not found.left_out:
            assert found.total.low <= told[-1][1] + 1e-9
        if found.exact and not found.left_out and known.count == total.count:
            assert found.total.sum == pytest.approx(told[-1][1])
            assert found.total.high >= told[-1][1] - 1e-9


def _bucketed(count: int, each: float) -> Sums:
    edges = (0.0, 0.1, 0.4, 0.5, 1.0, 3.0, math.inf)
    above = next(index for index, edge in enumerate(edges) if each <= edge)
    return Sums(count * each, count, count * edges[above - 1], count * edges[above] if count else 0.0)
