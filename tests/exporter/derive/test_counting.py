"""Counters that restart: totals never fall, and growth is said only where it is known."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive.counting import Total, growth

_SEEN = st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e9))


def test_growth_is_the_sum_over_all_series() -> None:
    assert growth({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.0}) == 3.0


def test_a_new_series_counts_whole_beside_others_that_went_on() -> None:
    assert growth({"a": 1.0}, {"a": 1.0, "b": 5.0}) == 5.0


def test_a_restart_a_loss_and_a_nan_are_no_growth() -> None:
    assert growth({"a": 5.0}, {"a": 1.0}) is None
    assert growth({"a": 5.0, "b": 1.0}, {"a": 6.0}) is None
    assert growth({"a": 5.0}, {"a": math.nan}) is None
    assert growth({}, {"a": 7.0}) is None


def test_a_total_goes_on_over_a_restart() -> None:
    total = Total().seen({"a": 101.0}).seen({"a": 151.0}).seen({"a": 1.0}).seen({"a": 51.0})
    assert total.value == 151 + 51


@given(st.lists(_SEEN))
def test_a_total_never_falls_and_is_at_least_the_highest_number_seen(looks: list[dict[str, float]]) -> None:
    total, highest = Total(), 0.0
    for look in looks:
        before = total.value
        total = total.seen(look)
        assert total.value >= before
        highest = max([highest, *look.values()])
        assert total.value >= highest * (1 - 1e-9)
