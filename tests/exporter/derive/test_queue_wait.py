"""Little's law: right in known cases, silent where nothing is known, honest where sampling is biased."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.model import SUM_LOWER, SUM_UPPER, Labels, Settings
from obs_exporter.derive.queue_wait import MAX_GAP, MOST, Sample, State, lost_sight, step
from obs_exporter.schema import Histogram, Precision
from obs_exporter.schema import State as Known

_ONE: Labels = (("engine", ""), ("model", "m"))


def sample(time: float, waiting: float, began: float, took: float | None = None, **more: float) -> Sample:
    """A look at one model; ``running``, ``decoding``, ``ttft`` and ``slots`` where the page tells them."""
    names = ("running", "decoding", "ttft", "steps", "preempted")
    told: dict[str, dict[Labels, float]] = {name: {_ONE: more[name]} if name in more else {} for name in names}
    return Sample(
        time, {_ONE: waiting}, {_ONE: began}, told["running"], told["decoding"], told["ttft"], more.get("slots", 0.0),
        False, told["steps"], told["preempted"], took,
    )  # fmt: skip


def play(*samples: Sample) -> State:
    state = State()
    for one in samples:
        state = step(state, one)
    return state


def test_constant_queue_gives_the_wait_of_littles_law() -> None:
    # 6 wait all the time and 2 begin a second: each waits 3 s.
    state = play(*(sample(t, 6, 2 * t) for t in range(0, 101, 5)))
    assert state.count == 200
    assert state.sum / state.count == pytest.approx(3.0)


def test_a_gap_adds_to_neither_sum_nor_count() -> None:
    before = play(sample(0, 6, 0), sample(10, 6, 20))
    after = step(before, sample(10 + MAX_GAP + 1, 6, 2000))
    assert (after.sum, after.count) == (before.sum, before.count)
    resumed = step(after, sample(20 + MAX_GAP + 1, 6, 2020))
    assert resumed.count == 40
    assert resumed.sum / resumed.count == pytest.approx(3.0)


def test_a_failed_look_adds_to_neither_sum_nor_count() -> None:
    state = play(sample(0, 6, 0), sample(10, 6, 20))
    state = step(lost_sight(state), sample(20, 6, 40))
    assert (state.sum, state.count) == (60, 20)


@pytest.mark.parametrize("jump", [-3600.0, 0.0, 3600.0])
def test_a_clock_that_jumps_adds_nothing(jump: float) -> None:
    state = play(sample(1000, 6, 0), sample(1010, 6, 20))
    moved = step(state, sample(1010 + jump, 6, 40))
    assert (moved.sum, moved.count) == (state.sum, state.count)
    later = step(moved, sample(1020 + jump, 6, 60))
    assert later.sum - state.sum == pytest.approx(60)


def test_a_restart_of_the_engine_adds_nothing_and_goes_on() -> None:
    state = play(sample(0, 6, 1000), sample(10, 6, 1020), sample(20, 0, 3), sample(30, 6, 23))
    assert state.count == 20 + 20
    assert state.sum == pytest.approx(60 + 30)


_LOOKS = st.lists(
    st.tuples(
        st.floats(-1e4, 1e4, allow_nan=False), st.floats(0, 1e4), st.floats(0, 1e6), st.floats(0, 1e6),
        st.floats(0, 1e3), st.booleans(),
    ),
    max_size=30,
)  # fmt: skip


@given(_LOOKS)
def test_sum_count_and_bounds_never_fall_whatever_comes(
    looks: list[tuple[float, float, float, float, float, bool]],
) -> None:
    state = State()
    for time, waiting, began, ttft, running, failed in looks:
        before = state
        if failed:
            state = lost_sight(state)
        else:
            state = step(
                state,
                sample(
                    time,
                    waiting,
                    began,
                    ttft=ttft,
                    running=running,
                    decoding=ttft / 2,
                    slots=4,
                    steps=ttft,
                    preempted=0,
                ),
            )
        assert state.sum >= before.sum
        assert state.count >= before.count
        assert state.upper >= before.upper
        most = state.upper if state.bounded else state.plain  # waits that have not ended are not in the sum yet
        assert min(state.plain, most) <= state.sum + 1e-6 * max(1.0, state.plain)


def test_fair_samples_are_not_corrected() -> None:
    """Two of four slots decode all the time and the page says so: the ratio is one, with a little noise."""
    rng = random.Random(4)
    looks = [
        sample(t, 5, 2 * t, running=2, decoding=2 * t * (1 + rng.uniform(-0.03, 0.03)) if t else 0.0)
        for t in range(120)
    ]
    kept = [looks[0]]
    for look in looks[1:]:
        if look.decoding[_ONE] >= kept[-1].decoding[_ONE]:
            kept.append(look)
    state = play(*kept)
    assert state.sum == state.plain


def test_long_prefills_do_not_correct_downwards() -> None:
    state = play(*(sample(t, 5, 2 * t, running=4, decoding=1.0 * t) for t in range(60)))
    assert state.sum == state.plain


def test_a_correction_is_never_larger_than_its_limit() -> None:
    state = play(*(sample(t, 1, t, running=0.01, decoding=40.0 * t) for t in range(60)))
    assert state.sum == pytest.approx(MOST * state.plain)


def biased(rng: random.Random, patience: float) -> tuple[list[Sample], float]:
    """A server that is busy in spells of 0.8 s and idle for 0.4 s between them, and answers within ``patience`` seconds
    as soon as it is idle; 3 run and 9 wait while it is busy. Returns what a scraper sees, and the true mean wait."""
    samples, t = [], 0.0

    def busy_until(time: float) -> float:
        spells, rest = divmod(time, 1.2)
        return 0.8 * spells + min(rest, 0.8)

    while t < 300:
        answered = t
        if t % 1.2 < 0.8:
            wait = 0.8 - t % 1.2 + 1e-6
            answered = t + wait if wait <= patience else t + patience
        busy = answered % 1.2 < 0.8
        work = busy_until(answered)
        samples.append(
            sample(
                answered, 9.0 if busy else 0.0, 6 * work, running=3.0 if busy else 0.0, decoding=3 * work,
                ttft=9.12 * work, steps=150 * work, preempted=0.0, slots=3,
            )
        )  # fmt: skip
        t = answered + rng.uniform(0.9, 1.5)
    return samples, 9 / 6


@pytest.mark.parametrize("patience", [0.1, 0.2, 0.4, 0.6])
def test_biased_samples_are_corrected_and_bounded(patience: float) -> None:
    samples, truth = biased(random.Random(7), patience)
    state = play(*samples)
    plain, mean = state.plain / state.count, state.sum / state.count
    assert plain < 0.9 * truth, "the case is biased at all"
    assert abs(mean - truth) < 0.05 * truth
    assert state.upper >= truth * state.count


def test_the_real_starved_server(
    series: list[tuple[float, bytes]], watch: Callable[..., Any], drop: Callable[..., bytes]
) -> None:
    """The engine's own queue time is 0.639 s over 600 requests; the plain integral says 0.347 s."""
    target = watch("vllm", engine_version="0.7.2", settings=Settings(max_num_seqs=4))
    hidden = [(t, drop(page, "vllm:request_queue_time_seconds", "vllm:request_prefill_time")) for t, page in series]
    outcome = None
    for t, page in hidden:
        outcome = target.see(page, t)
    assert outcome is not None
    answer = outcome.reading.answer("queue_wait")
    assert (answer.state, answer.precision) == (Known.DERIVED, Precision.SAMPLED)
    (histogram,) = answer.series
    assert isinstance(histogram, Histogram)
    truth = own_queue_time(series)
    assert truth / 600 == pytest.approx(0.639, abs=0.001)
    assert histogram.count == 600
    assert target.memory.queue.plain / 600 == pytest.approx(0.347, abs=0.001)
    assert histogram.sum == pytest.approx(truth, rel=0.05)
    bounds = {extra.kind: extra.value for extra in outcome.extras if extra.signal == "queue_wait"}
    assert SUM_LOWER not in bounds, "how much of TTFT is spent on the way to the queue is not known"
    assert truth <= bounds[SUM_UPPER]
    assert bounds[SUM_UPPER] < 1.1 * truth


def own_queue_time(series: list[tuple[float, bytes]]) -> float:
    """Seconds of queue time between the first and the last page, by the engine's own histogram."""
    sums = [
        float(line.rpartition(b" ")[2])
        for _, page in (series[0], series[-1])
        for line in page.split(b"\n")
        if line.startswith(b"vllm:request_queue_time_seconds_sum")
    ]
    return sums[1] - sums[0]


def test_nothing_is_said_of_one_look(series: list[tuple[float, bytes]], watch: Callable[..., Any], drop: Any) -> None:
    target = watch("vllm", engine_version="0.7.2")
    answer = target.see(drop(series[5][1], "vllm:request_queue_time_seconds"), 0.0).reading.answer("queue_wait")
    assert not answer.state.publishes
    assert "second look" in answer.reason


def test_the_engines_own_histogram_is_never_replaced(
    series: list[tuple[float, bytes]], watch: Callable[..., Any]
) -> None:
    target = watch("vllm")
    answers = [target.see(page, t).reading.answer("queue_wait") for t, page in series[:6]]
    assert {answer.state for answer in answers} == {Known.NATIVE}


def test_waits_that_have_not_ended_stay_below_the_first_tokens() -> None:
    """A queue that grows: the integral holds the waits of all, the count only of those that began."""
    state = State()
    for second in range(60):
        began, waits = float(second), sum(0.5 * one for one in range(second))
        state = step(state, sample(float(second), waiting=4.0 * second, began=began, ttft=waits))
    assert state.plain > state.upper
    assert state.sum <= state.upper


def front_end(delay: float, took: float | None) -> State:
    """Four slots are full, two wait; each request comes ``delay`` seconds after its arrival was stamped."""
    looks = [
        sample(
            t, 2.0, 4.0 * t, running=4.0, decoding=4.0 * t, ttft=4.0 * t * (0.5 + delay), steps=400.0 * t,
            preempted=0.0, slots=4, took=took,
        )
        for t in map(float, range(60))
    ]  # fmt: skip
    return play(*looks)


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("took", [None, 0.003])
def test_time_on_the_way_to_the_queue_is_no_wait_in_it(delay: float, took: float | None) -> None:
    state = front_end(delay, took)
    assert state.sum / state.count == pytest.approx(0.5)
    assert state.upper / state.count == pytest.approx(0.5 + delay)


def test_of_a_server_that_lets_scrapes_wait_it_is() -> None:
    """It takes requests in just after it answered, so that the waiting gauge lies low, and the running one does not."""
    state = front_end(1.0, 0.8)
    assert 1.3 < state.sum / state.count <= 1.5


def test_a_wrong_number_of_slots_is_not_believed() -> None:
    """Four are seen to run, so there are at least four."""
    wrong, right = (
        play(*(
            sample(t, 2.0, 4.0 * t, running=4.0, decoding=4.0 * t, ttft=4.0 * t, steps=400.0 * t, preempted=0.0,
                   slots=slots, took=0.8)
            for t in map(float, range(60))
        ))
        for slots in (2, 4)
    )  # fmt: skip
    assert wrong.sum == right.sum


def test_looks_too_far_apart_publish_nothing_and_say_why(
    series: list[tuple[float, bytes]], watch: Callable[..., Any], drop: Any
) -> None:
    target = watch("vllm", engine_version="0.7.2")
    for number in range(3):
        body = drop(series[5 * number][1], "vllm:request_queue_time_seconds")
        answer = target.see(body, 120.0 * number).reading.answer("queue_wait")
        assert not answer.state.publishes
    assert "no two looks in a row were within 90 s" in answer.reason
