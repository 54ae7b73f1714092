"""Looks between Prometheus' scrapes, where a signal is an integral over looks: a background thread, and polite."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

TICK = 0.2
"""Seconds between two checks of what is due."""


class Sampled(Protocol):
    """A target that can be looked at between the scrapes."""

    @property
    def sample_again(self) -> float:
        """Seconds after which another look is worth its cost; 0: never."""

    def sample(self) -> None:
        """Look once and keep what is learned; a look that is under way already is left alone."""


class Sampler:
    """Takes the looks that are due, each on a worker, so that one that hangs holds up no other."""

    def __init__(self, targets: Sequence[Sampled], submit: Callable[[Callable[[], None]], object]) -> None:
        """``submit`` runs a function on a worker."""
        self._targets = targets
        self._submit = submit
        self._due: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the thread (not for looks that hang)."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * TICK)

    def tick(self, now: float) -> None:
        """Submit the looks that are due at ``now``."""
        for index, target in enumerate(self._targets):
            period = target.sample_again
            if not period:
                self._due.pop(index, None)
            elif index not in self._due:
                self._due[index] = now + period
            elif now >= self._due[index]:
                self._due[index] = now + period
                self._submit(target.sample)

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            self.tick(time.monotonic())
