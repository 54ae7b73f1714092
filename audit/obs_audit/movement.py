"""Hold a stack's counters against what a client counted itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from obs_audit.evidence import Evidence, Exercise
from obs_exporter.schema import Histogram, Scalar, State
from obs_exporter.stacks import Answer


@dataclass(frozen=True, slots=True)
class Movement:
    """How far one signal should have moved during an exercise, and how far it did.

    ``moved`` is None where the page after has no value of it.
    """

    signal: str
    name: str
    expected: int
    moved: float | None

    @property
    def dead(self) -> bool:
        """Whether a published signal stood still although it had to move."""
        return self.moved == 0 and self.expected > 0

    @property
    def wrong(self) -> bool:
        """Whether it moved, and by another amount."""
        return self.moved is not None and self.moved != 0 and self.moved != self.expected


_PER_REQUEST = ("ttft", "request_duration", "queue_wait", "requests_finished", "layer_request_duration")
"""Signals that count each finished request once."""


def expectations(exercise: Exercise) -> dict[str, int]:
    """Return by how much each counting signal should move; tokens only where every answer told them."""
    expected = dict.fromkeys(_PER_REQUEST, exercise.requests)
    if not exercise.untold:
        expected["prompt_tokens"] = exercise.prompt_tokens
        expected["generation_tokens"] = exercise.completion_tokens
    return expected


def movements(evidence: Evidence) -> list[Movement]:
    """Return the movements of an exercise, in the order of the expectations; [] where there was none to judge."""
    if evidence.exercise is None or evidence.moved is None or not evidence.exercise.requests:
        return []
    before, after = (exhibit.reading for exhibit in evidence.moved)
    if not (before.reachable and after.reachable):
        return []
    found = []
    for signal, expected in expectations(evidence.exercise).items():
        answer = after.answer(signal)
        moved = total(answer) - total(before.answer(signal)) if answer.state.publishes else None
        if moved is not None or answer.state is State.IDLE:
            found.append(Movement(signal, answer.native_name, expected, moved if moved is not None else 0.0))
    return found


def total(answer: Answer) -> float:
    """Return the sum of a counter's series, or the number of a histogram's observations."""
    values = (series.count if isinstance(series, Histogram) else series.value for series in answer.series)
    return sum(values, 0.0)


def moved_at_all(first: Answer, second: Answer) -> bool:
    """Whether any series of a signal differs between two pages."""

    def plain(answer: Answer) -> list[tuple[object, float]]:
        return [(s.labels, s.value if isinstance(s, Scalar) else s.count) for s in answer.series]

    return plain(first) != plain(second)
