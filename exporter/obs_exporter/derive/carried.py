"""Gauges that a page shows only now and then: the last value goes on, with its age, until it is too old.

Ray 2.52 to 2.56 clears its gauges at every scrape and fills them again every 10 s, so that of two scrapers each sees
them in some of its scrapes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from obs_exporter.derive.model import AGE, LOWER, UPPER, Extra
from obs_exporter.schema import Kind, State
from obs_exporter.stacks.model import Answer, Reading

STANDING = frozenset({"kv_cache_capacity", "kv_cache_max_concurrency", "gpu_memory_total"})
"""Gauges that an engine sets at its start and never again: they do not age with the page."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The last answers of gauges that had a value, and when."""

    answers: Mapping[str, tuple[Answer, float]] = field(default_factory=dict)


def step(state: Carried, answers: Mapping[str, Answer], now: float) -> Carried:
    """Return the state after a look: what has a value now is remembered."""
    seen = {
        name: (answer, now)
        for name, answer in answers.items()
        if answer.state.publishes and answer.signal.kind is Kind.GAUGE
    }
    return Carried({**state.answers, **seen})


def fill(state: Carried, answers: Mapping[str, Answer], now: float, limit: float) -> dict[str, tuple[Answer, float]]:
    """Return answers with their age for the gauges that are missing now: carried on, or stale."""
    filled: dict[str, tuple[Answer, float]] = {}
    for name, (last, time) in state.answers.items():
        if answers[name].state is not State.IDLE:
            continue
        age = now - time
        if 0 <= age <= limit:
            filled[name] = (last, age)
        else:
            reason = "every scrape clears this stack's gauges, and the last value seen is too old"
            filled[name] = (Answer(last.signal, State.STALE, reason, native_name=last.native_name), max(age, 0.0))
    return filled


def aged(reading: Reading, extras: Sequence[Extra], older: float, limit: float) -> tuple[Reading, tuple[Extra, ...]]:
    """Return a look's reading and extras as they are to be published ``older`` seconds later, without a new look.

    A gauge that is then older than ``limit`` seconds, by its own age, is stale. Totals stay: they are as true as ever,
    and what was counted since comes with the next look.
    """
    ages = {extra.signal: extra.value for extra in extras if extra.kind == AGE}
    answers = []
    stale = set()
    for answer in reading.answers:
        name = answer.signal.id
        ageing = answer.state.publishes and answer.signal.kind is Kind.GAUGE and name not in STANDING
        if ageing and ages.get(name, 0.0) + older > limit:
            reason = f"older than {limit:g} s, and this stack's page may not be asked again yet"
            answer = Answer(answer.signal, State.STALE, reason, native_name=answer.native_name)
            stale.add(name)
        answers.append(answer)
    kept = (one for one in extras if not (one.signal in stale and one.kind in (LOWER, UPPER)))
    later = tuple(replace(one, value=one.value + older) if one.kind == AGE else one for one in kept)
    return replace(reading, answers=tuple(answers)), later
