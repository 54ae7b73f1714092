"""Requests inside the engine, from two counters: those admitted to it less those that it finished.

On Triton with the vLLM backend's own metrics, ``nv_inference_request_success`` counts admissions and the count of the
end-to-end histogram counts ends, so their difference is what runs or waits in the engine (seen: 97 - 65 = 32 at 32
clients). More than the engine's slots cannot run, so what is above them waits: a lower bound, since slots may be empty.

Requests that end in an error, or whose client leaves, are admitted and never finish. They are dropped from the
difference whenever the engine is at rest, and when a reload restarts one of the counters. Until then they are taken for
requests that wait, or that run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from obs_exporter.derive.model import Labels

REST = 15.0
"""Seconds without any admission, token or end after which nothing is under way, whatever the counters differ by."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What one look tells of one model: requests admitted, with a first token, finished, and tokens generated."""

    admitted: float
    first_tokens: float
    finished: float
    tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """One model's counters as last seen, what of their differences never ends, and since when nothing moves.

    ``floor``: one of the counters began anew while requests were under way. How many they were cannot be known, so that
    the differences are lower bounds until the engine has been at rest.
    """

    last: Counts
    moved: float
    stuck_inside: float = 0.0
    stuck_before: float = 0.0
    floor: bool = False

    @property
    def inside(self) -> float:
        """Requests that run or wait in the engine."""
        return self.last.admitted - self.last.finished - self.stuck_inside

    @property
    def before_first_token(self) -> float:
        """Requests that wait, or are in their prefill."""
        return self.last.admitted - self.last.first_tokens - self.stuck_before

    def waiting_at_least(self, slots: int) -> float:
        """Return how many requests wait at least, in an engine of so many slots."""
        return max(0.0, min(self.inside - slots, self.before_first_token))


@dataclass(frozen=True, slots=True)
class State:
    """All models of a target."""

    models: Mapping[Labels, Model] = field(default_factory=dict)


def step(state: State, now: float, counts: Mapping[Labels, Counts]) -> State:
    """Return the state after a look; a model that is not on the page any more is forgotten."""
    return State({labels: _model(state.models.get(labels), now, found) for labels, found in counts.items()})


def _model(before: Model | None, now: float, found: Counts) -> Model:
    inside, waiting = found.admitted - found.finished, found.admitted - found.first_tokens
    if before is None:
        return Model(found, now, min(0.0, inside), min(0.0, waiting))
    last = before.last
    moved = before.moved if found == last else now
    fallen = found.admitted < last.admitted, found.first_tokens < last.first_tokens, found.finished < last.finished
    if fallen[0] and (fallen[1] or not last.first_tokens):
        return Model(found, now, min(0.0, inside), min(0.0, waiting))  # all began anew at zero, with the whole server
    # A clock that jumped forwards must not look like a rest: two looks close to each other have to agree.
    if any(fallen) or now - moved >= REST:
        return Model(found, now if any(fallen) else moved, inside, waiting, floor=any(fallen))
    return replace(
        before,
        last=found,
        moved=min(moved, now),
        stuck_inside=min(before.stuck_inside, inside),
        stuck_before=min(before.stuck_before, waiting),
    )
