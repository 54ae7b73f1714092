"""The statistics against published tables and against simulation of what they promise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe import stats

TABLE = [  # Student's t from printed tables (NIST/SEMATECH e-Handbook, section 1.3.6.7.2)
    (0.975, 1, 12.706),
    (0.975, 2, 4.303),
    (0.975, 4, 2.776),
    (0.975, 10, 2.228),
    (0.975, 30, 2.042),
    (0.975, 100, 1.984),
    (0.995, 1, 63.657),
    (0.995, 5, 4.032),
    (0.95, 8, 1.860),
    (0.8, 4, 0.941),
    (0.8, 8, 0.889),
]


@pytest.mark.parametrize(("share", "df", "expected"), TABLE)
def test_t_quantiles(share: float, df: float, expected: float) -> None:
    assert stats.t_quantile(share, df) == pytest.approx(expected, abs=6e-4)
    assert stats.t_quantile(1 - share, df) == pytest.approx(-expected, abs=6e-4)


@given(st.floats(0.001, 0.999), st.floats(1, 200))
def test_quantile_and_distribution_are_inverse(share: float, df: float) -> None:
    assert stats.t_cdf(stats.t_quantile(share, df), df) == pytest.approx(share, abs=1e-9)


def test_closed_forms() -> None:
    assert stats.t_cdf(1.0, 1) == pytest.approx(0.75)  # Cauchy
    assert stats.t_cdf(2.0, 2) == pytest.approx(0.5 + 2 / (2 * math.sqrt(2 + 4)))
    assert stats.beta_cdf(0.3, 1, 1) == pytest.approx(0.3)
    assert stats.beta_cdf(0.3, 2, 1) == pytest.approx(0.09)


@pytest.mark.parametrize(
    ("good", "total", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (5, 10, 0.1871, 0.8129), (98, 100, 0.9296, 0.9976)],
)
def test_clopper_pearson(good: int, total: int, low: float, high: float) -> None:
    assert stats.clopper_pearson(good, total) == pytest.approx((low, high), abs=1e-4)


def test_detectable_effects() -> None:
    # Three, five and eight runs a side at a variation of 0.9 %: about 2.7, 1.8 and 1.4 %.
    for runs, expected in ((3, 2.7), (5, 1.8), (8, 1.4)):
        half = 0.9 / math.sqrt(2)
        side = [half, -half] if runs == 2 else _with_deviation(runs, 0.9)
        assert stats.welch(side, side).detectable() == pytest.approx(expected, abs=0.05)


def _with_deviation(count: int, deviation: float) -> list[float]:
    values = [float(i) for i in range(count)]
    scale = deviation / math.sqrt(stats.variance(values))
    return [value * scale for value in values]


def test_welch_and_pairs_by_hand() -> None:
    welch = stats.welch([1.0, 2.0, 3.0], [4.0, 6.0, 8.0])
    assert welch.difference == pytest.approx(4.0)
    assert welch.error == pytest.approx(math.sqrt(1 / 3 + 4 / 3))
    assert welch.df == pytest.approx((5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2))
    paired = stats.paired([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert (paired.difference, paired.df) == (2.0, 2.0)
    assert paired.error == pytest.approx(1 / math.sqrt(3))


def test_the_interval_covers_what_it_promises() -> None:
    rng = random.Random(5)
    hits = 0
    for _ in range(2000):
        first = [rng.gauss(0, 0.07) for _ in range(3)]
        second = [rng.gauss(0.1, 0.07) for _ in range(3)]
        low, high = stats.welch(first, second).interval()
        hits += low <= 0.1 <= high
    assert 0.94 <= hits / 2000 <= 0.985


def test_slope() -> None:
    line = stats.slope([0, 1, 2, 3], [1.0, 3.1, 4.9, 7.0])
    assert line.difference == pytest.approx(1.98)
    low, high = line.interval()
    assert low < 2.0 < high
    with pytest.raises(ValueError, match="three points"):
        stats.slope([1, 2], [1, 2])


def test_holm() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_and_keeps_the_order(ps: list[float]) -> None:
    adjusted = stats.holm(ps)
    assert all(a >= p for a, p in zip(adjusted, ps, strict=True))
    assert [p for _, p in sorted(zip(ps, adjusted, strict=True))] == sorted(adjusted)


def test_equivalence() -> None:
    near = stats.Estimate(0.001, 0.01, 8, "")
    assert near.p_equivalent(-0.05, 0.05) < 0.01
    assert stats.Estimate(0.05, 0.01, 8, "").p_equivalent(-0.05, 0.05) == pytest.approx(0.5)


@pytest.mark.parametrize(("deviation", "runs"), [(0.009, 2), (0.02, 4), (0.05, 19), (0.07, 36)])
def test_runs_needed(deviation: float, runs: int) -> None:
    assert abs(stats.runs_needed(deviation, math.log(1.05)) - runs) <= 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.t_quantile(1.0, 3),
        lambda: stats.clopper_pearson(0, 0),
        lambda: stats.variance([1.0]),
        lambda: stats.welch([1.0], [1.0, 2.0]),
    ],
)
def test_what_cannot_be_computed_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ValueError):
        call()


WELCH_P, WELCH_DF, WELCH_CI = 0.4049273483645311, 3.213387948987471, (-0.756760197046132, 0.3967601970461325)
PAIRED_P, PAIRED_CI = 0.4338519001393958, (-0.8155603697398507, 0.4555603697398508)
TOST_P = 0.09068311377357617
FIRST, SECOND = [4.6, 4.71, 4.55, 4.66], [4.2, 4.6, 4.9, 4.1]


def test_welch_and_pairs_against_another_implementation() -> None:
    """What scipy 1.17.1's ttest_ind(equal_var=False) and ttest_rel give for these logarithms."""
    welch, paired = stats.welch(FIRST, SECOND), stats.paired(FIRST, SECOND)
    assert (welch.p, welch.df) == pytest.approx((WELCH_P, WELCH_DF), rel=1e-9)
    assert welch.interval() == pytest.approx(WELCH_CI, rel=1e-9)
    assert paired.p == pytest.approx(PAIRED_P, rel=1e-9)
    assert paired.interval() == pytest.approx(PAIRED_CI, rel=1e-9)
    assert welch.p_equivalent(-0.5, 0.5) == pytest.approx(TOST_P, rel=1e-9)
