"""What the checks look at: the evidence, one answer a signal from all of it, and what the user asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from obs_audit.evidence import Evidence, Exhibit
from obs_audit.movement import Movement, movements
from obs_audit.profiles import EVERYTHING, Profile
from obs_exporter.schema import State
from obs_exporter.stacks import Answer, Known, Reading

PAPER = "table of facts"
"""The source of what no page says."""


@dataclass(frozen=True, slots=True)
class Case:
    """One target on trial.

    ``reading`` has one answer a signal, ``places`` says for each signal id where it was found, ``expected`` are the
    settings that the user believes in (``--expect``), ``profile`` the signals that matter.
    """

    evidence: Evidence
    reading: Reading
    places: Mapping[str, str]
    movements: tuple[Movement, ...] = ()
    expected: Mapping[str, str] = field(default_factory=dict)
    profile: Profile = EVERYTHING

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self.evidence.stack.name

    @property
    def release(self) -> str:
        """The newest stack release that fits, or "" (for the engine alone: the engine's)."""
        return self.reading.stack_version.best

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers that the profile asks for, in the schema's order."""
        return tuple(answer for answer in self.reading.answers if self.profile.asks_for(answer.signal.id))

    @property
    def source(self) -> str:
        """Where the last page that could be read came from."""
        pages = self.evidence.readable or self.evidence.exhibits
        return pages[-1].source if pages else PAPER


def build(evidence: Evidence, expected: Mapping[str, str] | None = None, profile: Profile = EVERYTHING) -> Case:
    """Make a case of the evidence: combine the pages, and call dead what stood still during an exercise."""
    reading, places = _combined(evidence)
    moves = tuple(movements(evidence))
    return Case(evidence, _with_dead(reading, moves, evidence), places, moves, dict(expected or {}), profile)


def _combined(evidence: Evidence) -> tuple[Reading, dict[str, str]]:
    """Take each signal from the last page that publishes it, else the last readable page's answer."""
    if not evidence.exhibits:
        return evidence.paper, {answer.signal.id: PAPER for answer in evidence.paper.answers}
    looks = _looks(evidence.exhibits)
    last = (_looks(evidence.readable) or looks)[-1]
    answers: list[Answer] = []
    places: dict[str, str] = {}
    for index, answer in enumerate(last.reading.answers):
        chosen, place = answer, last.source
        for exhibit in reversed(looks):
            if exhibit.reading.answers[index].state.publishes:
                chosen, place = exhibit.reading.answers[index], exhibit.source
                break
        answers.append(chosen)
        places[answer.signal.id] = place
    readings = [exhibit.reading for exhibit in looks if exhibit.reading.reachable] or [last.reading]
    reading = replace(
        last.reading,
        answers=tuple(answers),
        stack_version=_sharpest([one.stack_version for one in readings]),
        engine_version=_sharpest([one.engine_version for one in readings]),
        generation=next((one.generation for one in reversed(readings) if one.generation), ""),
    )
    return reading, places


def _sharpest(versions: Sequence[Known]) -> Known:
    """Return what is known best of one version by several pages of a target; of equals the last page's."""
    told = [known for known in versions if known.candidates]
    best = min(((len(known.candidates), known.floor) for known in told), default=None)
    found = [known for known in told if (len(known.candidates), known.floor) == best]
    return found[-1] if found else versions[-1]


def _looks(exhibits: tuple[Exhibit, ...]) -> list[Exhibit]:
    """Return every look at the pages: a second look at a page comes before the first, which is the one to trust."""
    looks = []
    for exhibit in exhibits:
        if exhibit.later is not None and exhibit.later.reading.reachable:
            looks.append(exhibit.later)
        looks.append(exhibit)
    return looks


def _with_dead(reading: Reading, moves: tuple[Movement, ...], evidence: Evidence) -> Reading:
    """Turn published signals that an exercise could not move into stale ones."""
    dead = {move.signal for move in moves if move.dead}
    if not dead or evidence.exercise is None:
        return reading
    reason = f"it stood still while {evidence.exercise.requests} requests were answered"
    answers = tuple(
        replace(answer, state=State.STALE, reason=reason, series=(), remedy="look at what feeds it")
        if answer.signal.id in dead
        else answer
        for answer in reading.answers
    )
    return replace(reading, answers=answers)
