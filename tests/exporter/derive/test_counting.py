"""Counters that restart: what mixed numbers prove never falls, and growth is said only where it is known."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.counting import MOST_RUNS, Runs, growth


def test_growth_is_the_sum_over_all_series() -> None:
    assert growth({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.0}) == 3.0


def test_a_new_series_counts_whole_beside_others_that_went_on() -> None:
    assert growth({"a": 1.0}, {"a": 1.0, "b": 5.0}) == 5.0


def test_a_restart_a_loss_and_a_nan_are_no_growth() -> None:
    assert growth({"a": 5.0}, {"a": 1.0}) is None
    assert growth({"a": 5.0, "b": 1.0}, {"a": 6.0}) is None
    assert growth({"a": 5.0}, {"a": math.nan}) is None
    assert growth({}, {"a": 7.0}) is None


def test_runs_go_on_over_a_restart() -> None:
    runs = Runs()
    for number in (101.0, 151.0, 1.0, 51.0):
        runs = runs.seen(number)
    assert runs.value == 151 + 51


@given(st.lists(st.floats(0, 1e9)))
def test_runs_never_fall_and_are_at_least_the_highest_number_seen(numbers: list[float]) -> None:
    runs, highest = Runs(), 0.0
    for number in numbers:
        before, runs = runs.value, runs.seen(number)
        highest = max(highest, number)
        assert runs.value >= before
        assert runs.value >= highest * (1 - 1e-9)


def test_runs_are_bounded_in_memory() -> None:
    runs = Runs()
    for number in range(2 * MOST_RUNS, 0, -1):
        runs = runs.seen(float(number))
    assert len(runs.last) == MOST_RUNS
