"""What one target of ``serve`` may cost: so many requests a minute and tokens an hour, in any window of that length."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds of any monotonic clock."""

_HOUR_S = 3600.0
_MINUTE_S = 60.0
_SLACK_S = 0.1
"""Added to the window of requests: the server sees them a little nearer to each other or apart than they left here."""


class Budget:
    """Tokens spent in the last hour."""

    def __init__(self, tokens_per_hour: int, clock: Clock = time.monotonic) -> None:
        self._limit = tokens_per_hour
        self._clock = clock
        self._spent: deque[tuple[float, int]] = deque()
        self._total = 0

    def allows(self, tokens: int) -> bool:
        """Return whether so many tokens may be spent now."""
        horizon = self._clock() - _HOUR_S
        while self._spent and self._spent[0][0] <= horizon:
            self._total -= self._spent.popleft()[1]
        return self._total + tokens <= self._limit

    def spend(self, tokens: int) -> None:
        """Note that tokens were spent."""
        self._spent.append((self._clock(), tokens))
        self._total += tokens


def whole_requests(requests_per_minute: float) -> tuple[int, float]:
    """Return a number of requests and the window in seconds, none of which may hold more of them.

    A fraction above 1 is rounded down (2.5 a minute: 2 in any 60 s); below 1 the window grows (0.5: 1 in any 120 s).
    """
    if requests_per_minute < 1:
        return 1, _MINUTE_S / requests_per_minute
    return math.floor(requests_per_minute), _MINUTE_S


class Pace:
    """When the next request of a target may leave.

    Requests aim at an even interval, each moved by up to ``jitter`` of it; on top, one leaves only when the window
    before it has room, whatever the jitter drew and however long the requests before it took.
    """

    def __init__(
        self, requests_per_minute: float, jitter: float, clock: Clock = time.monotonic, rng: random.Random | None = None
    ) -> None:
        self._count, self._window_s = whole_requests(requests_per_minute)
        self._interval_s = self._window_s / self._count
        self._jitter = jitter
        self._clock = clock
        self._random = rng or random.Random()  # noqa: S311 - spreads requests in time
        self._sent: deque[float] = deque(maxlen=self._count)
        self._next = clock() + self._interval_s * jitter * self._random.random()

    def left(self) -> float:
        """Return for how many seconds to wait still; 0 when a request may leave now."""
        room = self._sent[0] + self._window_s + _SLACK_S if len(self._sent) == self._count else self._next
        return max(0.0, max(self._next, room) - self._clock())

    def turn(self) -> None:
        """Begin the next interval now, whether or not a request leaves."""
        self._next = self._clock() + self._interval_s * (1 + self._jitter * (2 * self._random.random() - 1))

    def sent(self, ago_s: float = 0.0) -> None:
        """Note that a request left so many seconds ago, at the latest."""
        self._sent.append(self._clock() - ago_s)
