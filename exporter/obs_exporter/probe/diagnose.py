"""Is a cap in the engine or in the layer above it? The same knob is turned bare and behind the stack. Pure.

If a knob (max_num_seqs, the number of clients, memory) speeds the bare engine up and hardly the stack, the engine had
room that the stack did not use: the cap is above the engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from obs_exporter.probe import stats
from obs_exporter.probe.comparable import client_obstacle, mismatches
from obs_exporter.probe.compare import Noise, band
from obs_exporter.probe.compare_design import METRICS, unit_values
from obs_exporter.probe.report.levels import Load, by_load, load_name

PASSED = 0.5
"""A stack that passes on at least half of the bare effect (log scale) follows its engine; below that it does not."""


class Where(StrEnum):
    """Where the cap is."""

    ENGINE = "engine-bound"
    LAYER = "layer-bound"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Effect:
    """A knob's effect on throughput: high over low less one, with an interval where there is one, and its source."""

    low_value: float
    high_value: float
    change: float
    low: float | None
    high: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict for one level; ``passed_on`` is the stack's effect over the bare one, on the log scale."""

    load: str
    bare: Effect | None
    stack: Effect | None
    passed_on: float | None
    where: Where
    why: str


def diagnose(
    bare: tuple[dict[str, Any], dict[str, Any]],
    stack: tuple[dict[str, Any], dict[str, Any]],
    noise: Noise | None = None,
) -> list[Diagnosis]:
    """Return a diagnosis for every level that all four results have, sorted; results are (knob low, knob high).

    Results of one level each are taken together whatever their levels are, so that concurrency itself can be the knob.
    """
    loads = [set(by_load(one)) for one in (*bare, *stack)]
    if all(len(own) == 1 for own in loads):
        picks = [tuple(next(iter(own)) for own in loads)]
    else:
        common = sorted(set.intersection(*loads), key=lambda load: (load[0], load[1] or 0, load[2] or 0.0))
        picks = [(load,) * 4 for load in common]
    return [_diagnose(pick, bare, stack, noise or {}) for pick in picks]


def obstacles(
    bare: tuple[dict[str, Any], dict[str, Any]], stack: tuple[dict[str, Any], dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return why the four results cannot be held against each other, and what of them cannot be checked.

    Bare and stack must agree at either end of the knob; between its ends the engine may differ, for that is the knob.
    """
    found: list[str] = []
    unknown: list[str] = []
    for end, sides in zip(("low", "high"), zip(bare, stack, strict=True), strict=True):
        more, less = mismatches(sides[:1], sides[1:])
        found += [f"knob {end}: {one.what}: bare {one.baseline}, stack {one.stack}" for one in more]
        unknown += [text.replace("the baseline", "the bare engine") for text in less]
    loops = {bool(level.get("concurrency")) for one in (*bare, *stack) for level in one["levels"]}
    if len(loops) > 1 and not found:
        found.append("closed and open loops are mixed")
    return found, list(dict.fromkeys(unknown))


def _diagnose(
    pick: Sequence[Load], bare: tuple[dict[str, Any], ...], stack: tuple[dict[str, Any], ...], noise: Noise
) -> Diagnosis:
    name = _name(pick)
    inside, outside = _effect(pick[:2], bare, noise), _effect(pick[2:], stack, noise)
    if inside is None or outside is None:
        return Diagnosis(name, inside, outside, None, Where.UNDECIDED, "a side has no throughput at this level")
    limited = client_obstacle(
        [level for load, one in zip(pick, (*bare, *stack), strict=True) for level in by_load(one)[load]]
    )
    if limited:
        return Diagnosis(
            name, inside, outside, None, Where.UNDECIDED, f"a run is {limited}: the cap may be the probe's"
        )
    gain, passed = math.log1p(inside.change), math.log1p(outside.change)
    if gain <= 0 or (inside.low is not None and inside.low <= 0):
        why = "the knob does not speed the bare engine up (beyond noise): it says nothing about the layer"
        return Diagnosis(name, inside, outside, None, Where.UNDECIDED, why)
    share = passed / gain
    where, why = _where(inside, outside, gain, share)
    return Diagnosis(name, inside, outside, share, where, why)


def _where(inside: Effect, outside: Effect, gain: float, share: float) -> tuple[Where, str]:
    half = math.expm1(PASSED * gain)
    low = outside.change if outside.low is None else outside.low
    high = outside.change if outside.high is None else outside.high
    said = f"{inside.change:+.1%} bare, {outside.change:+.1%} behind the stack ({share:.0%} of it passed on)"
    bounds = "" if outside.low is not None else "; no interval: single measurements without --noise"
    if high < half:
        return (
            Where.LAYER,
            f"{said}: the engine has room that the stack does not use: the cap is above the engine{bounds}",
        )
    if low > half:
        return Where.ENGINE, f"{said}: the stack follows its engine: the cap is in the engine{bounds}"
    return Where.UNDECIDED, f"{said}: the interval spans half of the bare effect: more runs would decide"


def _effect(loads: Sequence[Load], sides: tuple[dict[str, Any], ...], noise: Noise) -> Effect | None:
    """Return high over low of the throughput: Welch over repeats, else the given noise, else no interval."""
    metric = METRICS[0]
    values = [unit_values(_single_units(side), load, metric) for side, load in zip(sides, loads, strict=True)]
    if not values[0] or not values[1]:
        return None
    low, high = (math.exp(stats.mean(side)) for side in values)
    difference = stats.mean(values[1]) - stats.mean(values[0])
    change = math.expm1(difference)
    if min(map(len, values)) >= 2:
        estimate = stats.welch(values[0], values[1])
        bounds = estimate.interval()
        return Effect(low, high, change, math.expm1(bounds[0]), math.expm1(bounds[1]), "Welch t over repeats")
    given = [band(noise, metric, load) for load in loads]
    known = [one for one in given if one is not None]
    if len(known) < 2:
        return Effect(low, high, change, None, None, "single measurements: no interval")
    half = math.hypot(*(share for share, _ in known))
    return Effect(low, high, change, math.expm1(difference - half), math.expm1(difference + half), known[-1][1])


def _single_units(result: dict[str, Any]) -> list[dict[Load, list[dict[str, Any]]]]:
    numbers = sorted({level.get("repeat") or 0 for level in result["levels"]})
    return [
        by_load(result | {"levels": [one for one in result["levels"] if (one.get("repeat") or 0) == number]})
        for number in numbers
    ]


def _name(pick: Sequence[Load]) -> str:
    names = list(dict.fromkeys(load_name(load) for load in pick))
    return " -> ".join(names)
