"""What happened, in order: the one record from which pages, logs and the truth are all made. Times in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for. ``output_tokens`` is what the model will say, at most ``max_tokens``."""

    id: int
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    cached_tokens: int = 0

    @property
    def finish_reason(self) -> str:
        """``length`` if the limit ends the answer, else ``stop``."""
        return "length" if self.output_tokens >= self.max_tokens else "stop"


@dataclass(frozen=True, slots=True)
class Arrived:
    """The layer (or, without one, the engine's front end) received a request."""

    t: int
    request: Request


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The layer took a request out of its own queue."""

    t: int
    id: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The engine's front end got a request: the clock of TTFT and E2E starts (vLLM: arrival_time)."""

    t: int
    id: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The engine core took in new requests and formed a batch; counts are those after it.

    ``queued``: new in the core's queue. ``started``: scheduled for the first time, with ``hits`` prompt tokens of each
    found in the prefix cache. ``resumed``: scheduled again.
    ``preempted``: pushed out because no block was free. ``aborted``: removed because the client went away.
    """

    t: int
    queued: tuple[int, ...]
    started: tuple[int, ...]
    hits: tuple[int, ...]
    resumed: tuple[int, ...]
    preempted: tuple[int, ...]
    aborted: tuple[int, ...]
    waiting: int
    running: int
    used_blocks: int


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step ended: one token for each id in ``tokens``; ``finished`` are complete. Counts are those after it."""

    t: int
    started_at: int
    tokens: tuple[int, ...]
    finished: tuple[int, ...]
    prompt_tokens: int
    waiting: int
    running: int
    used_blocks: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A request ended for the client. ``outcome``: ok, aborted, lost (engine died) or refused (engine down)."""

    t: int
    id: int
    outcome: str


@dataclass(frozen=True, slots=True)
class WentDown:
    """The engine's process died."""

    t: int


@dataclass(frozen=True, slots=True)
class CameUp:
    """The engine's process is ready, with new counters; the first one is at time 0."""

    t: int


Event = Arrived | Dispatched | Admitted | Scheduled | Stepped | Ended | WentDown | CameUp


class EventLog:
    """The record. Readers hold an absolute position, so that a live server can drop what all have read."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._dropped = 0

    def append(self, event: Event) -> None:
        """Add an event; time never goes back."""
        self._events.append(event)

    @property
    def kept(self) -> int:
        """How many events are held."""
        return len(self._events)

    @property
    def end(self) -> int:
        """The position after the last event."""
        return self._dropped + len(self._events)

    def read(self, position: int, until: int) -> Iterator[Event]:
        """The events from ``position`` on that happened at ``until`` or before."""
        for index in range(position - self._dropped, len(self._events)):
            if self._events[index].t > until:
                return
            yield self._events[index]

    def drop(self, position: int) -> None:
        """Forget the events before ``position``."""
        count = position - self._dropped
        if count > 0:
            del self._events[:count]
            self._dropped = position
