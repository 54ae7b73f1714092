"""Reads the event record forward, keeping a folded state; reading an earlier time starts over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from obs_exporter.simulator.events import Event, EventLog


class Folder(Protocol):
    """Anything that takes in events in order."""

    def fold(self, event: Event) -> None:
        """Take in one event."""


State = TypeVar("State", bound=Folder)


class Reader(Generic[State]):
    """A state folded up to a time."""

    def __init__(self, log: EventLog, make: Callable[[], State]) -> None:
        self._log = log
        self._make = make
        self._t = -1
        self._state = make()
        self.position = 0

    def at(self, t: int) -> State:
        """The state at ``t`` nanoseconds."""
        if t < self._t:
            self._state, self.position = self._make(), 0
        for event in self._log.read(self.position, t):
            self._state.fold(event)
            self.position += 1
        self._t = t
        return self._state
