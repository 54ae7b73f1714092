"""Requests inside the engine, from two counters: those admitted to it less those that it finished.

On Triton with the vLLM backend's own metrics, ``nv_inference_request_success`` counts admissions and the count of the
end-to-end histogram counts ends, so their difference is what runs or waits in the engine (seen: 97 - 65 = 32 at 32
clients). More than the engine's slots cannot run, so what is above them waits: a lower bound, since slots may be empty.

Requests that end in an error, or whose client leaves, are admitted and never finish. No counter tells them from those
that wait, so three things are told apart (``Known``), and the bound of the waiting has a base of its own:

- **exact** from a look on at which the two counters agree, or after a long rest.
- **at most**: before that, since what ended in an error before the first look is in the difference; and from the moment
  on at which requests are seen to have gone. The engine serves in order of arrival, so whoever gets the first token was
  admitted before all that still wait. What was admitted before a request that has just begun, and has not begun, is
  gone: how long that request waited is known from the sums of TTFT.
- **at least**: after a reload that restarted one of the counters, after a short rest, and where ends outnumber
  admissions at the first look: how many are inside at that moment cannot be known, so counting begins at 0.

The bound of the waiting counts from the last such moment. It can be above the truth by requests that have gone and have
not been noticed yet: no more than have been admitted since the last request that began.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from obs_exporter.derive.model import Labels

REST = 15.0
"""Seconds without any admission, token or end after which nothing seems to be under way. It may be a stall."""
LONG_REST = 120.0
"""Seconds after which it is no stall."""
_LOOKS = 64
"""Looks of which the admissions are remembered."""


class Known(Enum):
    """What the difference is."""

    EXACT = "exact"
    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Counts:
    """What one look tells of one model: requests admitted, with a first token, finished, and tokens generated.

    ``ttft`` is the sum of the times to first token, in seconds.
    """

    admitted: float
    first_tokens: float
    finished: float
    tokens: float = 0.0
    ttft: float = 0.0

    @property
    def inside(self) -> float:
        """Admitted and not finished."""
        return self.admitted - self.finished

    @property
    def before(self) -> float:
        """Admitted and without a first token."""
        return self.admitted - self.first_tokens


@dataclass(frozen=True, slots=True)
class Model:
    """One model's counters as last seen, since when nothing moves, and what of the differences is not counted.

    ``gone`` are differences that are no requests any more, ``base`` is what the lower bound leaves out: (inside, before
    the first token) each. ``clean`` says that the counters began together, ``left`` that requests which the bound took
    for waiting were seen to have gone. ``looks`` are (time, admitted) of late.
    """

    last: Counts
    moved: float
    known: Known
    gone: tuple[float, float] = (0.0, 0.0)
    base: tuple[float, float] = (0.0, 0.0)
    clean: bool = True
    left: bool = False
    looks: tuple[tuple[float, float], ...] = ()

    @property
    def inside(self) -> float:
        """Requests that run or wait in the engine: exactly, at most or at least, as ``known`` says."""
        return max(0.0, self.last.inside - (self.base if self.known is Known.AT_LEAST else self.gone)[0])

    def waiting_at_least(self, slots: int) -> float:
        """Return how many requests wait at least, in an engine of so many slots."""
        return max(0.0, min(self.last.inside - self.base[0] - slots, self.last.before - self.base[1]))


@dataclass(frozen=True, slots=True)
class State:
    """All models of a target."""

    models: Mapping[Labels, Model] = field(default_factory=dict)


def step(state: State, now: float, counts: Mapping[Labels, Counts]) -> State:
    """Return the state after a look; a model that is not on the page any more is forgotten."""
    return State({labels: _model(state.models.get(labels), now, found) for labels, found in counts.items()})


def _model(before: Model | None, now: float, found: Counts) -> Model:
    looks = ((now, found.admitted),)
    if before is None:
        return _first(found, now, looks)
    last = before.last
    moved = before.moved if found == last else now
    fallen = found.admitted < last.admitted, found.first_tokens < last.first_tokens, found.finished < last.finished
    if fallen[0] and (fallen[1] or not last.first_tokens) and min(found.inside, found.before) >= 0:
        return Model(found, now, Known.EXACT, looks=looks)  # all began anew at zero, with the whole server
    if any(fallen):
        return _based(found, now, Known.AT_LEAST, looks, clean=False)
    # A clock that jumped forwards must not look like a rest: two looks close to each other have to agree.
    if (rest := now - moved) >= REST and not (before.known is Known.EXACT and found.inside == before.gone[0]):
        known = Known.EXACT if rest >= LONG_REST else Known.AT_LEAST
        return replace(_based(found, moved, known, looks, clean=before.clean), left=before.left)
    if before.clean and not found.inside and not found.before:
        return Model(found, moved, Known.EXACT, left=before.left, looks=(*before.looks[1 - _LOOKS :], *looks))
    model = replace(before, last=found, moved=min(moved, now), looks=(*before.looks[1 - _LOOKS :], *looks))
    return _noticed(_lowered(model, last), _gone_by(before, now, found))


def _first(found: Counts, now: float, looks: tuple[tuple[float, float], ...]) -> Model:
    if min(found.inside, found.before) < 0:
        return _based(found, now, Known.AT_LEAST, looks, clean=False)
    return _based(found, now, Known.AT_MOST if found.inside else Known.EXACT, looks, clean=True)


def _based(found: Counts, moved: float, known: Known, looks: tuple[tuple[float, float], ...], *, clean: bool) -> Model:
    """Return a model whose bound begins at 0 here; where that is exact, what the counters differ by is gone."""
    here = found.inside, found.before
    gone = here if known is Known.EXACT else (0.0, 0.0)
    return Model(found, moved, known, gone, here, clean=clean, looks=looks)


def _lowered(model: Model, last: Counts) -> Model:
    """Return the model with bases that leave nothing below 0.

    Ends that outnumber admissions by no more than have ended since the last look were only counted first.
    """
    found = model.last
    if model.known is Known.EXACT and model.gone[0] - found.inside <= found.finished - last.finished:
        return model
    base = min(model.base[0], found.inside), min(model.base[1], found.before)
    return replace(model, base=base, gone=(min(model.gone[0], found.inside), min(model.gone[1], found.before)))


def _gone_by(before: Model, now: float, found: Counts) -> float:
    """Return how many are gone for certain: admitted before one that has just begun, and have not begun.

    As differences of the counters, which a reload shifts; -inf where nothing can be said.
    """
    began = found.first_tokens - before.last.first_tokens
    took = found.ttft - before.last.ttft
    if began <= 0 or took <= 0 or now <= before.looks[-1][0]:
        return -math.inf
    # At least one of them took no longer than their mean, and none began before the last look.
    admitted_at = before.looks[-1][0] - took / began
    earlier = [admitted for at, admitted in before.looks if at <= admitted_at]
    return earlier[-1] - found.first_tokens if earlier else -math.inf


def _noticed(model: Model, gone: float) -> Model:
    """Return the model after it was seen how many are gone; where they were in the bound, that begins anew."""
    found, more = model.last, gone - model.gone[1]
    if more > 0 and model.known is not Known.AT_LEAST:
        model = replace(model, known=Known.AT_MOST, gone=(model.gone[0] + more, gone))
    return replace(model, base=(found.inside, found.before), left=True) if gone > model.base[1] else model
