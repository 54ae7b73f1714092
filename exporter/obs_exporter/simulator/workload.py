"""The load, as data: phases in a row, lengths of prompts and outputs, and what goes wrong."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts: log-normal with this mean and coefficient of variation ``spread`` (0: always the mean)."""

    mean: float
    spread: float = 0.0

    def __post_init__(self) -> None:
        """Refuse lengths that cannot be drawn."""
        if not (1 <= self.mean < math.inf and 0 <= self.spread < math.inf):
            raise ValueError(f"lengths need a finite mean of at least 1 and a finite spread of at least 0, not {self}")

    def draw(self, rng: random.Random) -> int:
        """One length, at least 1."""
        if self.spread == 0:
            return max(1, round(self.mean))
        sigma2 = math.log1p(self.spread**2)
        return max(1, round(rng.lognormvariate(math.log(self.mean) - sigma2 / 2, math.sqrt(sigma2))))


@dataclass(frozen=True, slots=True)
class Steady:
    """Open loop: ``rate`` requests a second, at random moments (Poisson) or evenly."""

    seconds: float
    rate: float
    even: bool = False


@dataclass(frozen=True, slots=True)
class Ramp:
    """Open loop: the rate goes evenly from ``from_rate`` to ``to_rate`` requests a second."""

    seconds: float
    from_rate: float
    to_rate: float


@dataclass(frozen=True, slots=True)
class Closed:
    """Closed loop: each of ``clients`` sends its next request ``think_s`` after the end of its last one."""

    seconds: float
    clients: int
    think_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Bursts:
    """``size`` requests at once, every ``every_s`` seconds, the first at the start of the phase."""

    seconds: float
    size: int
    every_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """No new request."""

    seconds: float


Phase = Steady | Ramp | Closed | Bursts | Idle

PHASES: dict[str, type[Phase]] = {"steady": Steady, "ramp": Ramp, "closed": Closed, "bursts": Bursts, "idle": Idle}
"""The kinds of phase, as configuration data names them."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """A ``share`` of the clients hangs up ``after_s`` seconds after sending, if the answer is not complete by then."""

    share: float
    after_s: float


@dataclass(frozen=True, slots=True)
class Restart:
    """The engine's process dies at ``at`` and is back ``down_s`` later with new counters; requests inside are lost."""

    at: float
    down_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The metrics page does not answer from ``start`` until before ``end``; the engine goes on."""

    start: float
    end: float


def open_loop_times(phase: Steady | Ramp | Bursts, rng: random.Random) -> list[float]:
    """Arrival times within one phase, in seconds after its start, rising."""
    if isinstance(phase, Bursts):
        count = math.ceil(phase.seconds / phase.every_s)
        return [number * phase.every_s for number in range(count) for _ in range(phase.size)]
    if isinstance(phase, Steady):
        if phase.rate <= 0:
            return []
        if phase.even:
            return [number / phase.rate for number in range(math.ceil(phase.seconds * phase.rate))]
        return _thinned(phase.seconds, phase.rate, phase.rate, rng)
    return _thinned(phase.seconds, phase.from_rate, phase.to_rate, rng)


def _thinned(seconds: float, start: float, end: float, rng: random.Random) -> list[float]:
    """A Poisson process whose rate goes linearly from ``start`` to ``end``: drawn at the peak rate, then thinned."""
    peak = max(start, end)
    times: list[float] = []
    if peak <= 0:
        return times
    now = rng.expovariate(peak)
    while now < seconds:
        if rng.random() * peak < start + (end - start) * now / seconds:
            times.append(now)
        now += rng.expovariate(peak)
    return times
