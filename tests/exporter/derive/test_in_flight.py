"""Requests inside the engine: exact on the real pages, a lower bound of the waiting, re-based at rest and on reload."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.in_flight import LONG_REST, REST, Counts, Model, State, step
from obs_exporter.derive.in_flight import Known as Difference
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


def before_first_token(model: Model) -> float:
    """What the bound takes for requests before their first token."""
    return model.waiting_at_least(-1_000_000)


def test_what_never_ends_is_dropped_at_rest() -> None:
    """Ten of twenty requests failed in the engine: they were admitted and never finish."""
    at_rest = Counts(20, 10, 10, 100)
    rested = [(0.0, Counts(10, 10, 10, 50)), (5.0, at_rest), (10.0, at_rest), (5 + REST, at_rest)]
    model = play(*rested)
    assert (model.inside, before_first_token(model), model.known) == (0, 0, Difference.AT_LEAST)
    busy = step(State({_ONE: model}), 30 + REST, {_ONE: Counts(24, 12, 11, 110)}).models[_ONE]
    assert (busy.inside, before_first_token(busy)) == (3, 2)
    long = play(*rested, (5 + LONG_REST, at_rest))
    assert (long.inside, long.known) == (0, Difference.EXACT)


def test_a_stall_is_not_exactly_nothing() -> None:
    stalled = Counts(20, 15, 10, 100)
    looks = [(0.0, Counts(10, 10, 10, 50)), (5.0, stalled), (5 + REST, stalled)]
    assert play(*looks).known is Difference.AT_LEAST
    later = play(*looks, (30.0, Counts(20, 20, 19, 120)))
    assert (later.inside, later.known) == (0, Difference.AT_LEAST)
    assert later.waiting_at_least(1) == 0
    over = play(*looks, (30.0, Counts(20, 20, 20, 130)), (31.0, Counts(22, 21, 20, 140)))
    assert (over.inside, over.known) == (2, Difference.EXACT)


def test_before_the_first_look_requests_may_have_failed() -> None:
    """103 are admitted and not finished, but only three of them are inside: the others failed long ago."""
    model = play((0, Counts(1103, 1003, 1000)))
    assert (model.inside, model.known, model.waiting_at_least(4)) == (103, Difference.AT_MOST, 0)
    # Then two arrive, and one that came a second ago begins: all who came before it and have not begun are gone.
    looks = [(0.0, Counts(1103, 1003, 1000, 0, 100.0)), (2.0, Counts(1104, 1003, 1000, 9, 100.0))]
    model = play(*looks, (4.0, Counts(1105, 1004, 1001, 19, 101.0)))
    assert (model.inside, model.known) == (5, Difference.AT_MOST), "four in truth, and one that may have gone"
    assert model.waiting_at_least(1) <= 1


def test_ends_that_are_counted_before_their_admissions_shift_nothing() -> None:
    model = play((0, Counts(10, 10, 10)), (1, Counts(14, 14, 15)), (2, Counts(20, 15, 15)))
    assert (model.inside, model.waiting_at_least(4), model.known) == (5, 1, Difference.EXACT)


def test_more_ends_than_admissions_at_the_first_look_are_a_reload_long_ago() -> None:
    model = play((0, Counts(3, 324, 322)), (1, Counts(14, 326, 323)))
    assert model.known is Difference.AT_LEAST
    assert model.inside <= 13
    assert play((0, Counts(3, 324, 322)), (1, Counts(322, 326, 322))).known is Difference.AT_LEAST


def test_requests_that_leave_are_noticed_by_those_that_begin_behind_them() -> None:
    """Eight slots, two thirds in use; a burst of sixty, of which forty-two leave before their first token."""
    state, queue, left = State(), list[tuple[float, int]](), 0
    admitted = first = finished = 0
    ttft = tokens = 0.0
    running: list[float] = []
    truth: list[tuple[float, int, int, Model]] = []
    for tick in range(3000):
        now = tick / 10
        ends = [end for end in running if end <= now]
        finished, running = finished + len(ends), [end for end in running if end > now]
        for _ in range((tick % 3 == 0) + 60 * (tick == 200)):
            queue, admitted = [*queue, (now, admitted)], admitted + 1
        if tick == 230:
            stay = [one for one in queue if one[0] != 20.0]
            left, queue = len(queue) - len(stay), stay
        while queue and len(running) < 8:
            came, _ = queue.pop(0)
            running, first, ttft, tokens = [*running, now + 1.5], first + 1, ttft + now - came + 0.05, tokens + 40
        if tick % 10 == 9:
            state = step(state, now, {_ONE: Counts(admitted, first, finished, tokens, ttft)})
            truth.append((now, len(queue), len(queue) + len(running), state.models[_ONE]))
    assert left > 30
    before = [one for one in truth if one[0] < 20]
    assert all(model.inside == inside for _, _, inside, model in before)
    after = [one for one in truth if one[0] > 40]
    assert all(model.waiting_at_least(8) <= waiting for _, waiting, _, model in after)
    assert all(inside <= model.inside <= inside + 8 for _, _, inside, model in after)
    assert {model.known for *_, model in after} == {Difference.AT_MOST}


def test_a_reload_restarts_the_layers_counter_and_the_difference() -> None:
    """Triton's own counters restart at zero with a reload, the backend's go on."""
    model = play((0, Counts(320, 320, 320)), (10, Counts(3, 320, 320)), (20, Counts(7, 322, 321)))
    assert model.inside == 3
    assert model.known is Difference.AT_LEAST, "six in truth: the three of before the look cannot be told from old ones"
    at_rest = Counts(7, 325, 325)
    looks = [(0.0, Counts(3, 320, 320)), (1.0, Counts(1, 320, 320)), (2.0, at_rest)]
    assert play(*looks, (2 + LONG_REST, at_rest)).known is Difference.EXACT


def test_a_restart_of_the_whole_server_is_exact_from_the_first_look_on() -> None:
    """All counters begin at zero, so that their difference needs no base."""
    model = play((0, Counts(320, 312, 308)), (10, Counts(14, 4, 2)))
    assert (model.inside, model.waiting_at_least(4), model.known) == (12, 8, Difference.EXACT)
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
        assert model.waiting_at_least(slots) >= 0
