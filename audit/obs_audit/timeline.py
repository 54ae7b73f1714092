"""What each stack does with each signal, release by release: when it appeared, was renamed, hidden, and vanished. Pure.

Walks the same tables that judge a page, on paper, for every release whose facts are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from obs_exporter.schema import SIGNALS, State
from obs_exporter.stacks import STACKS, Answer, Claims, Known, Reading, Stack, read_paper
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.catalogue import catalogue
from obs_exporter.stacks.versions import span

Cell = tuple[State, str]
"""A state, and the name under which the stack prints the signal ("" where it does not)."""


@dataclass(frozen=True, slots=True)
class Column:
    """Neighbouring releases of one stack that treat every signal alike; ``engines`` are the vLLM releases in them."""

    releases: tuple[str, ...]
    engines: tuple[str, ...]
    generation: str
    answers: tuple[Answer, ...]

    @property
    def title(self) -> str:
        """The releases, in words."""
        return span(self.releases)

    @property
    def engine(self) -> str:
        """The engine, in words."""
        return f"{span(self.engines)} {self.generation}".strip() if self.engines else "none"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring releases in which one signal has one state and one name."""

    releases: tuple[str, ...]
    answer: Answer

    @property
    def title(self) -> str:
        """The releases, in words."""
        return span(self.releases)


def cell(answer: Answer) -> Cell:
    """Return what a matrix shows of an answer."""
    return answer.state, answer.native_name if answer.state.publishes else ""


@cache
def readings(stack: str) -> tuple[tuple[str, Reading], ...]:
    """Return what a stack does on paper at each release, oldest first."""
    table = STACKS[stack]
    return tuple((release, read_paper(table, _claims(table, release))) for release in table.releases)


def _claims(stack: Stack, release: str) -> Claims:
    known = Known((release,), "given")
    return Claims(engine_version=known) if stack.is_engine else Claims(stack_version=known)


@cache
def columns(stack: str) -> tuple[Column, ...]:
    """Return the releases of a stack in runs that treat every signal alike."""
    found: list[Column] = []
    for release, reading in readings(stack):
        engine = reading.engine_version.best
        if found and _alike(found[-1], reading):
            last = found.pop()
            engines = last.engines if engine in ("", *last.engines) else (*last.engines, engine)
            found.append(Column((*last.releases, release), engines, last.generation, last.answers))
        else:
            engines = (engine,) if engine else ()
            found.append(Column((release,), engines, reading.generation, reading.answers))
    return tuple(found)


def _alike(column: Column, reading: Reading) -> bool:
    cells = [cell(answer) for answer in column.answers]
    return cells == [cell(answer) for answer in reading.answers] and column.generation == reading.generation


def stretches(stack: str, signal: str) -> list[Stretch]:
    """Return what a stack does with one signal, as runs of releases."""
    found: list[Stretch] = []
    for release, reading in readings(stack):
        answer = reading.answer(signal)
        if found and cell(found[-1].answer) == cell(answer) and found[-1].answer.remedy == answer.remedy:
            found[-1] = Stretch((*found[-1].releases, release), answer)
        else:
            found.append(Stretch((release,), answer))
    return found


@dataclass(frozen=True, slots=True)
class Life:
    """The life of one family in one generation of the engine: how its releases treat it, as runs."""

    family: str
    generation: str
    runs: tuple[tuple[str, str, str], ...]
    note: str


def lives(signal: str) -> list[Life]:
    """Return the lives of every engine family that carries a signal; V0 first, then V1."""
    found: list[Life] = []
    for generation in ("V0", "V1"):
        seen = set()
        for row in vllm.ROWS:
            if row.signal == signal and row.family not in seen:
                seen.add(row.family)
                runs = tuple(_runs(row.family, generation))
                if runs:
                    found.append(Life(row.family, generation, runs, row.note))
    return found


def _runs(family: str, generation: str) -> Iterator[tuple[str, str, str]]:
    """Yield (status, first release, last release) of a family in one generation."""
    table = catalogue()
    runs: list[list[str]] = []
    for release in table.having(family, generation):
        entry = next(
            entry for engine in table.engines
            if engine.release == release and engine.generation == generation
            and (entry := table.registration(family, engine)) is not None
        )  # fmt: skip
        if runs and runs[-1][0] == entry.status:
            runs[-1][2] = release
        else:
            runs.append([entry.status, release, release])
    yield from ((status, first, last) for status, first, last in runs)


def signals() -> list[str]:
    """Return the ids of all signals, in the schema's order."""
    return [signal.id for signal in SIGNALS]
