"""The statistics of comparing runs. Pure, standard library only.

The unit is a run, never a request: requests of one run share its warm-up, its memory layout and its neighbours.
Student's t comes from the regularised incomplete beta function (Lentz's continued fraction, DLMF 8.17.22), its
quantiles from bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TINY = 1e-300
_EPSILON = 1e-15


def _continued_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    h = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            h *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return h


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for 0 <= x <= 1."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def _invert(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Return where a rising function reaches ``target``, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        if function(middle) < target:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * max(1.0, abs(high)):
            break
    return (low + high) / 2


def t_cdf(t: float, df: float) -> float:
    """Return the probability that Student's t with ``df`` degrees of freedom is at most ``t``."""
    tail = beta_cdf(df / (df + t * t), df / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def _t_density(t: float, df: float) -> float:
    log = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return math.exp(log - (df + 1) / 2 * math.log1p(t * t / df))


def t_quantile(share: float, df: float) -> float:
    """Return the ``share`` quantile of Student's t. Raises ValueError outside 0 < share < 1 or df <= 0."""
    if not 0 < share < 1 or df <= 0:
        raise ValueError(f"no quantile {share} of t with {df} degrees of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < share:
        low, high = high, 2 * high
    at = (low + high) / 2
    for _ in range(100):
        missing = share - t_cdf(at, df)
        low, high = (at, high) if missing > 0 else (low, at)
        step = at + missing / _t_density(at, df)  # Newton, kept inside the bracket by bisection
        step = step if low < step < high else (low + high) / 2
        if abs(step - at) <= 1e-12 * max(1.0, at):
            return step
        at = step
    return at


def clopper_pearson(good: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share from ``good`` of ``total``. Raises ValueError without any."""
    if total < 1:
        raise ValueError("no trials")
    tail = (1 - level) / 2
    low = 0.0 if good == 0 else _invert(lambda p: beta_cdf(p, good, total - good + 1), tail, 0.0, 1.0)
    high = 1.0 if good == total else _invert(lambda p: beta_cdf(p, good + 1, total - good), 1 - tail, 0.0, 1.0)
    return low, high


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Return the sample variance (n - 1). Raises ValueError for fewer than two values."""
    if len(values) < 2:
        raise ValueError("a variance needs two values")
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference with its standard error and degrees of freedom; ``method`` says how it was got."""

    difference: float
    error: float
    df: float
    method: str

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided confidence interval."""
        half = t_quantile((1 + level) / 2, self.df) * self.error
        return self.difference - half, self.difference + half

    @property
    def p(self) -> float:
        """The two-sided p value of "no difference"."""
        if self.error <= 0:
            return 1.0 if self.difference == 0 else 0.0
        return 2 * t_cdf(-abs(self.difference) / self.error, self.df)

    def p_equivalent(self, low: float, high: float) -> float:
        """Return the p value of "outside low..high" (two one-sided tests)."""
        if self.error <= 0:
            return 0.0 if low < self.difference < high else 1.0
        below = t_cdf(-(self.difference - low) / self.error, self.df)
        above = t_cdf(-(high - self.difference) / self.error, self.df)
        return max(below, above)

    def detectable(self, level: float = 0.95, power: float = 0.8) -> float:
        """Return the difference that a test at ``level`` finds with ``power``: the minimum detectable effect."""
        return (t_quantile((1 + level) / 2, self.df) + t_quantile(power, self.df)) * self.error


def welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return second minus first for independent runs of unequal variance. Raises ValueError below two runs a side."""
    a, b = variance(first) / len(first), variance(second) / len(second)
    total = a + b
    df = len(first) + len(second) - 2.0
    if total > 0:
        df = total**2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    return Estimate(mean(second) - mean(first), math.sqrt(total), df, "Welch t")


def paired(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return second minus first for runs taken in pairs. Raises ValueError below two pairs or for unequal numbers."""
    differences = [b - a for a, b in zip(first, second, strict=True)]
    error = math.sqrt(variance(differences) / len(differences))
    return Estimate(mean(differences), error, len(differences) - 1.0, "paired t")


def slope(xs: Sequence[float], ys: Sequence[float]) -> Estimate:
    """Return the slope of a line through points, its error from the residuals. Raises ValueError below three points."""
    if len(xs) < 3 or len(set(xs)) < 2:
        raise ValueError("a slope with an interval needs three points at two places")
    middle_x, middle_y = mean(xs), mean(ys)
    spread = math.fsum((x - middle_x) ** 2 for x in xs)
    rise = math.fsum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / spread
    residual = math.fsum((y - middle_y - rise * (x - middle_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    df = len(xs) - 2.0
    return Estimate(rise, math.sqrt(residual / df / spread), df, "regression over levels")


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number (Holm's step-down), in the given order."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted = [0.0] * len(ps)
    worst = 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = worst
    return adjusted


def runs_needed(deviation: float, margin: float, level: float = 0.95, power: float = 0.8) -> int:
    """Return the runs a side that show equivalence within ``margin`` when there is no difference (two one-sided tests).

    ``deviation`` is a run's standard deviation and ``margin`` the half width, both on the log scale. Capped at 1000.
    """

    def enough(runs: int) -> bool:
        df = 2.0 * runs - 2
        reach = t_quantile(level, df) + t_quantile((1 + power) / 2, df)
        return reach * deviation * math.sqrt(2 / runs) <= margin

    low, high = 2, 2
    while high < 1000 and not enough(high):
        low, high = high + 1, min(1000, 2 * high)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
