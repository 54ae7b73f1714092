"""Gauges that a page shows only now and then: the last value goes on, with its age, until it is too old.

Ray 2.52 to 2.56 clears its gauges at every scrape and fills them again every 10 s, so that of two scrapers each sees
them in some of its scrapes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from obs_exporter.schema import Kind, State
from obs_exporter.stacks.model import Answer


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
