"""Requests inside the engine: exact on the real pages, a lower bound of the waiting, re-based at rest and on reload."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.in_flight import REST, Counts, Model, State, step
from obs_exporter.derive.model import Labels, Settings
from obs_exporter.schema import Precision, Scalar
from obs_exporter.schema import State as Known

_ONE: Labels = (("engine", ""), ("model", "m"))
_PAGES = "triton/24.10-vllm0.32.0-custom-metrics"


def play(*looks: tuple[float, Counts]) -> Model:
    state = State()
    for now, counts in looks:
        state = step(state, now, {_ONE: counts})
    return state.models[_ONE]


def test_the_real_pages_give_32_inside_at_32_clients(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    target = watch("triton", settings=Settings(max_num_seqs=16))
    values = {}
    for index, page in enumerate(("before", "during", "after")):
        reading = target.see(data(f"{_PAGES}/{page}.txt"), 10.0 * index).reading
        inside, waiting = (reading.answer(name) for name in ("layer_requests_ongoing", "requests_waiting"))
        assert (inside.state, waiting.state) == (Known.DERIVED, Known.DERIVED)
        assert (inside.precision, waiting.precision) == (Precision.EXACT, Precision.LOWER_BOUND)
        assert isinstance(inside.series[0], Scalar)
        assert isinstance(waiting.series[0], Scalar)
        values[page] = (inside.series[0].value, waiting.series[0].value)
    assert values == {"before": (0, 0), "during": (32, 16), "after": (0, 0)}


def test_without_slots_nothing_is_said_of_the_waiting(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    answer = watch("triton").see(data(f"{_PAGES}/during.txt"), 0.0).reading.answer("requests_waiting")
    assert answer.state is Known.LOST
    assert "--max-num-seqs" in answer.remedy


def test_a_page_without_the_backends_metrics_has_nothing_inside(data: Any, watch: Any, drop: Any) -> None:
    page = drop(data(f"{_PAGES}/during.txt"), "vllm:")
    answer = watch("triton", settings=Settings(max_num_seqs=16)).see(page, 0.0).reading.answer("layer_requests_ongoing")
    assert answer.state is Known.NEVER


def test_what_never_ends_is_dropped_at_rest() -> None:
    """Ten of twenty requests failed in the engine: they were admitted and never finish."""
    at_rest = Counts(20, 10, 10, 100)
    model = play((0, Counts(10, 10, 10, 50)), (5, at_rest), (10, at_rest), (5 + REST, at_rest))
    assert (model.inside, model.before_first_token) == (0, 0)
    busy = step(State({_ONE: model}), 30 + REST, {_ONE: Counts(24, 12, 11, 110)}).models[_ONE]
    assert (busy.inside, busy.before_first_token) == (3, 2)


def test_a_reload_restarts_the_layers_counter_and_the_difference() -> None:
    """Triton's own counters restart at zero with a reload, the backend's go on."""
    model = play((0, Counts(320, 320, 320)), (10, Counts(3, 320, 320)), (20, Counts(7, 322, 321)))
    assert model.inside == 3
    assert model.floor, "six are inside in truth: the three of before the look cannot be told from old ones"
    at_rest = Counts(7, 325, 325)
    assert not play((0, Counts(3, 320, 320)), (1, Counts(1, 320, 320)), (2, at_rest), (2 + REST, at_rest)).floor


def test_a_restart_of_the_whole_server_is_exact_from_the_first_look_on() -> None:
    """All counters begin at zero, so that their difference needs no base."""
    model = play((0, Counts(320, 312, 308)), (10, Counts(14, 4, 2)))
    assert (model.inside, model.waiting_at_least(4), model.floor) == (12, 8, False)
    young = play((0, Counts(12, 0, 0)), (10, Counts(9, 4, 0)))
    assert (young.inside, young.waiting_at_least(4)) == (9, 5)


@given(st.randoms(use_true_random=False), st.sampled_from(["server", "layer"]))
def test_the_bound_is_never_above_the_truth_over_reloads(random: Random, restarts: str) -> None:
    """A queue before four slots; a reload loses all that is inside, and restarts Triton's counter or all of them."""
    admitted = first = finished = 0
    waiting, running = 0, [0, 0]  # in their prefill, decoding
    state = State()
    for now in range(1, 61):
        for _ in range(random.randrange(8)):
            event = random.randrange(4)
            if event == 0:
                admitted, waiting = admitted + 1, waiting + 1
            elif event == 1 and waiting and sum(running) < 4:
                waiting, running[0] = waiting - 1, running[0] + 1
            elif event == 2 and running[0]:
                running, first = [running[0] - 1, running[1] + 1], first + 1
            elif event == 3 and running[1]:
                running[1], finished = running[1] - 1, finished + 1
        state = step(state, now, {_ONE: Counts(admitted, first, finished)})
        model = state.models[_ONE]
        assert model.waiting_at_least(4) <= waiting
        assert model.inside <= waiting + sum(running)
        if random.randrange(15) == 0 and admitted > 20:
            waiting, running, admitted = 0, [0, 0], 0
            first, finished = (0, 0) if restarts == "server" else (first, finished)
            state = step(state, now, {_ONE: Counts(admitted, first, finished)})


def test_a_client_that_leaves_before_its_first_token_does_not_hide_behind_running_ones() -> None:
    model = play((0, Counts(40, 40, 40)), (1, Counts(60, 56, 40)))
    assert model.waiting_at_least(16) == 4, "20 are inside, but 16 of them have begun"


_FOUND = st.builds(Counts, *[st.integers(0, 100).map(float)] * 4)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), _FOUND), min_size=1), st.integers(1, 20))
def test_nothing_is_ever_negative_or_more_than_was_admitted(looks: list[tuple[float, Counts]], slots: int) -> None:
    state = State()
    for now, counts in looks:
        state = step(state, now, {_ONE: counts})
        model = state.models[_ONE]
        assert model.inside >= 0
        assert model.before_first_token >= 0
        assert 0 <= model.waiting_at_least(slots) <= model.inside
