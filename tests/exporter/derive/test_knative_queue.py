"""queue-proxy's own queue: a difference before Knative 1.19, lost from then on, and never the engine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from obs_exporter.schema import Histogram, Precision, State

OUTER, INNER = "revision_request_latencies", "revision_app_request_latencies"


def _family(name: str, *series: tuple[int, int, int]) -> str:
    """A histogram in whole milliseconds: (status, requests, sum) each."""
    lines = [f"# TYPE {name} histogram"]
    for status, count, total in series:
        labels = f'pod_name="p",response_code="{status}",revision_name="r"'
        lines += [f'{name}_bucket{{{labels},le="5"}} 0', f'{name}_bucket{{{labels},le="+Inf"}} {count}']
        lines += [f"{name}_sum{{{labels}}} {total}", f"{name}_count{{{labels}}} {count}"]
    return "\n".join(lines) + "\n"


def _wait(outcome: Any) -> tuple[State, Precision, list[tuple[float, float]]]:
    answer = outcome.reading.answer("layer_queue_wait")
    return answer.state, answer.precision, [(one.sum, one.count) for one in answer.series if isinstance(one, Histogram)]


def test_before_1_19_it_is_the_difference(watch: Callable[..., Any]) -> None:
    page = _family(OUTER, (200, 10, 9000)) + _family(INNER, (200, 10, 5000))
    assert _wait(watch("kserve").see(page.encode(), 0.0)) == (State.DERIVED, Precision.EXACT, [(4.0, 10)])


def test_it_stands_beside_the_engines_own_wait(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    """As the aggregator prints both on one page."""
    page = data("vllm/0.32.0-real/during.txt")
    more = _family(OUTER, (200, 10, 9000)) + _family(INNER, (200, 10, 5000))
    outcome = watch("kserve").see(page + more.encode(), 0.0)
    assert _wait(outcome) == (State.DERIVED, Precision.EXACT, [(4.0, 10)])
    alone = watch("kserve").see(page, 0.0)
    assert outcome.reading.answer("queue_wait").series == alone.reading.answer("queue_wait").series


@pytest.mark.parametrize("status", [500, 503, 504])
def test_a_request_that_the_container_never_had_is_not_in_it(watch: Callable[..., Any], status: int) -> None:
    page = _family(OUTER, (200, 10, 9000), (status, 3, 30_000)) + _family(INNER, (200, 10, 5000))
    assert _wait(watch("kserve").see(page.encode(), 0.0)) == (State.DERIVED, Precision.EXACT, [(4.0, 10)])


def test_numbers_that_differ_otherwise_make_no_difference(watch: Callable[..., Any]) -> None:
    page = _family(OUTER, (200, 10, 9000)) + _family(INNER, (200, 4, 1000))
    assert _wait(watch("kserve").see(page.encode(), 0.0)) == (State.LOST, Precision.NONE, [])


def test_before_the_first_request_it_is_idle(watch: Callable[..., Any]) -> None:
    page = b'# TYPE revision_queue_depth gauge\nrevision_queue_depth{revision_name="r"} 0\n'
    assert _wait(watch("kserve").see(page, 0.0))[0] is State.IDLE


@pytest.mark.parametrize("family", ["kn_queueproxy_app_duration_seconds", "kn_serving_invocation_duration_seconds"])
def test_from_1_19_on_it_is_lost_and_the_duration_says_what_it_leaves_out(
    watch: Callable[..., Any], family: str
) -> None:
    outcome = watch("kserve").see(_family(family, (200, 10, 5)).encode(), 0.0)
    assert _wait(outcome) == (State.LOST, Precision.NONE, [])
    duration = outcome.reading.answer("layer_request_duration")
    assert [one.sum for one in duration.series if isinstance(one, Histogram)] == [5]
    assert "own queue is not in it" in duration.reason
