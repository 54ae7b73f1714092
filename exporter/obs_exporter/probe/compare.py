"""What a layer costs over a baseline, level by level, and how sure that is. Pure: results in, findings out.

Ratios are compared as logarithms, goodput as a difference of shares. The unit is a server life when a side has several
result files, else a repeat within one life, which understates the variance and is named so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from obs_exporter.probe import stats
from obs_exporter.probe.comparable import (
    Mismatch,
    cannot_say,
    client_obstacle,
    level_obstacle,
    mismatches,
    slo_obstacle,
)
from obs_exporter.probe.compare_design import METRICS, Design, Metric, counted_from, design_of, unit_values
from obs_exporter.probe.compare_trend import Trend, trends_of
from obs_exporter.probe.report.levels import Load

ALPHA = 0.05
_ROUNDING = 1e-12
"""Runs whose spread is no more than this are copies: the rest is how numbers are added up."""


class Verdict(StrEnum):
    """What may be said of one number at one level."""

    SLOWER = "slower"
    FASTER = "faster"
    EQUIVALENT = "equivalent"
    NOISE = "indistinguishable from noise"
    NOT_COMPARABLE = "not comparable"
    NO_INTERVAL = "one measurement: no interval"
    NO_VARIATION = "runs do not vary: no interval"


Noise = Mapping[str, Mapping[int, float]]
"""Metric id -> {concurrency: run-to-run variation as a share}; a number stands for its level and those below it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One number at one level.

    ``effect`` is the stack over the baseline less one (-0.70: 70 % less), or for goodput the difference of shares;
    ``low`` and ``high`` its 95 % interval for this level alone; ``p`` is adjusted for all levels (Holm); ``detectable``
    is the least effect that these runs would find four times in five. A latency counts from the send or, in an open
    loop, from the schedule (``counted_from``).
    """

    metric: Metric
    load: Load
    baseline: float | None
    stack: float | None
    effect: float | None
    verdict: Verdict
    reason: str
    low: float | None = None
    high: float | None = None
    p: float | None = None
    detectable: float | None = None
    counted_from: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All findings, sorted by metric and load, and what they rest on."""

    findings: tuple[Finding, ...]
    trends: tuple[Trend, ...]
    design: str
    refused: tuple[Mismatch, ...]
    remarks: tuple[str, ...]
    margin: float


def compare(
    baseline: Sequence[dict[str, Any]],
    stack: Sequence[dict[str, Any]],
    margin: float = 0.05,
    noise: Noise | None = None,
    allow_version_mismatch: bool = False,
) -> Comparison:
    """Compare results of a baseline with those of a stack; one result a server life."""
    found, unknown = mismatches(baseline, stack)
    refused = tuple(one for one in found if not (one.version and allow_version_mismatch))
    remarks = [*cannot_say([one for one in found if one.version and allow_version_mismatch]), *unknown]
    remarks += [f"partial result: {one['partial_reason']}" for one in (*baseline, *stack) if one.get("partial")]
    if noise:
        remarks.append("the given noise: if it was seen within one server life, restarts vary by more than it says")
    design = design_of(baseline, stack)
    loads = sorted(
        {load for unit in design.baseline for load in unit} & {load for unit in design.stack for load in unit},
        key=lambda load: (load[0], load[1] or 0, load[2] or 0.0),
    )
    timed = any(_timed(one) for one in (*baseline, *stack))
    terms = _Terms(margin, noise or {}, "; ".join(one.text for one in refused), slo_obstacle(baseline, stack), timed)
    findings: list[Finding] = []
    for metric in METRICS:
        row = [_finding(metric, load, design, terms) for load in loads]
        findings += _adjusted([one for one in row if one is not None], margin)
    remarks += _schedule_remarks(findings)
    sound = {(one.metric.id, one.load) for one in findings if one.verdict is not Verdict.NOT_COMPARABLE}
    trends = tuple(trends_of(design, loads, sound))
    return Comparison(tuple(findings), trends, design.words, refused, tuple(dict.fromkeys(remarks)), margin)


def _timed(result: dict[str, Any]) -> bool:
    return any(level.get("duration_s") for level in (result.get("load") or {}).get("levels") or ())


def _schedule_remarks(findings: Sequence[Finding]) -> list[str]:
    """Say from when the latencies of open loops count."""
    sources = {one.counted_from for one in findings if one.load[1] is None and one.counted_from}
    found = []
    if "schedule" in sources:
        found.append(
            "open loop: TTFT and E2E count from each request's scheduled time, and goodput is judged from it: what a"
            " request waited to be sent is in them"
        )
    if "send" in sources:
        found.append(
            "a rate without times from the schedule: whether TTFT and E2E hold the wait to be sent is not known"
        )
    return found


@dataclass(frozen=True, slots=True)
class _Terms:
    """On what terms all numbers are compared; ``refused`` and ``slo`` are obstacles in words, or ""."""

    margin: float
    noise: Noise
    refused: str
    slo: str
    timed: bool

    def obstacle(self, metric: Metric, runs: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> str:
        """Return why this number cannot be compared over these runs of a level, or ""."""
        if self.refused or (metric.share and self.slo):
            return self.refused or self.slo
        if metric.share and not any(level.get("client_limited") for side in runs for level in side):
            return ""  # goodput holds failures already: they are no obstacle to it
        return level_obstacle(runs[0], runs[1], self.timed)


def _finding(metric: Metric, load: Load, design: Design, terms: _Terms) -> Finding | _Pending | None:
    """Return the finding of one number at one level, its p value not adjusted yet; None when neither side has it."""
    runs = _runs(design.baseline, load), _runs(design.stack, load)
    since = counted_from([*runs[0], *runs[1]], metric)
    scheduled = "schedule" in since
    a, b = (unit_values(side, load, metric, scheduled) for side in (design.baseline, design.stack))
    if not a and not b:
        return None
    back = (lambda x: x) if metric.share else math.exp
    left, right = (back(stats.mean(a)) if a else None), (back(stats.mean(b)) if b else None)
    if left is None or right is None:
        side = "baseline" if left is None else "stack"
        why = f"the {side} has no value" + (" from the schedule" if len(since) > 1 else "")
        return Finding(metric, load, left, right, None, Verdict.NOT_COMPARABLE, why)
    difference = stats.mean(b) - stats.mean(a)
    effect = difference if metric.share else math.expm1(difference)
    base = Finding(
        metric, load, left, right, effect, Verdict.NOISE, "", counted_from="schedule" if scheduled else "".join(since)
    )
    obstacle = terms.obstacle(metric, runs)
    if obstacle:
        return _not_comparable(base, obstacle, runs)
    if len(a) < 2 or len(b) < 2:
        return _single(base, difference, terms.noise)
    # Pairs are pairs of runs: where one run lacks the number, the others may no longer stand opposite their own.
    pairs = design.paired and len(a) == len(design.baseline) and len(b) == len(design.stack)
    estimate = stats.paired(a, b) if pairs else stats.welch(a, b)
    if estimate.error <= _ROUNDING * max(1.0, *map(abs, (*a, *b))):
        return _constant(base, runs, terms.margin)
    return _estimated(base, estimate, (len(a), len(b)))


def _not_comparable(base: Finding, reason: str, runs: tuple[list[dict[str, Any]], ...]) -> Finding:
    """Return the finding without a verdict on the two; a number that the client limits is not shown as the server's."""
    found = replace(base, verdict=Verdict.NOT_COMPARABLE, reason=reason)
    left, right = (bool(client_obstacle(side)) for side in runs)
    if not (left or right):
        return found
    return replace(found, baseline=None if left else base.baseline, stack=None if right else base.stack, effect=None)


def band(noise: Noise, metric: Metric, load: Load) -> tuple[float, str] | None:
    """Return the given run-to-run variation at a load and its source in words; None when none is given."""
    known = noise.get(metric.id, {})
    slots = load[1]
    if slots is None:
        return None
    at = min((key for key in known if key >= slots), default=None)
    return None if at is None else (known[at], f"the given noise of {known[at]:.1%} a run at concurrency <= {at}")


def _runs(units: Sequence[dict[Load, list[dict[str, Any]]]], load: Load) -> list[dict[str, Any]]:
    return [level for unit in units for level in unit.get(load, ())]


def _single(base: Finding, difference: float, noise: Noise) -> Finding:
    """Judge one run a side: only a noise band that the user gives can decide."""
    given = band(noise, base.metric, base.load)
    if given is None:
        return replace(base, verdict=Verdict.NO_INTERVAL, reason="one run on a side, and no --noise is given for it")
    share, words = given
    # Each of the two runs varies, so their difference varies by the square root of two more.
    limit = math.sqrt(2) * share
    why = f"one measurement: no interval; {words} makes a band of +-{limit:.1%} for a difference of two"
    if abs(difference) <= limit:
        return replace(base, reason=why)
    return replace(base, verdict=_direction(base.metric, difference), reason=f"{why}: outside it")


def _direction(metric: Metric, difference: float) -> Verdict:
    return Verdict.FASTER if (difference > 0) == metric.more_is_better else Verdict.SLOWER


def _constant(base: Finding, runs: tuple[list[dict[str, Any]], ...], margin: float) -> Finding:
    """Judge runs that do not vary at all: t says nothing, but for a share the pooled counts give exact bounds."""
    if not base.metric.share:
        why = "several runs, and no variation between them at all: no interval; are they copies of one run?"
        return replace(base, verdict=Verdict.NO_VARIATION, reason=why)
    bounds = []
    for side in runs:
        sent = sum(level.get("requests") or 0 for level in side)
        if not sent:
            return replace(
                base, verdict=Verdict.NO_VARIATION, reason="the runs do not vary, and their counts are not known"
            )
        good = round(sum((level.get("goodput") or 0.0) * (level.get("requests") or 0) for level in side))
        bounds.append(stats.clopper_pearson(good, sent))
    (a_low, a_high), (b_low, b_high) = bounds
    why = (
        f"no variation between runs; pooled requests (Clopper-Pearson) say baseline {a_low:.1%}..{a_high:.1%},"
        f" stack {b_low:.1%}..{b_high:.1%}"
    )
    low, high = b_low - a_high, b_high - a_low
    if low > 0 or high < 0:
        return replace(base, verdict=Verdict.FASTER if low > 0 else Verdict.SLOWER, reason=why, low=low, high=high)
    within = -margin < low and high < margin
    return replace(base, verdict=Verdict.EQUIVALENT if within else Verdict.NOISE, reason=why, low=low, high=high)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A finding whose verdict waits for the p values of the other levels; ``deviation`` is one run's, estimated."""

    base: Finding
    estimate: stats.Estimate
    deviation: float


def _estimated(base: Finding, estimate: stats.Estimate, runs: tuple[int, int]) -> _Pending:
    low, high = estimate.interval()
    detectable = estimate.detectable()
    if not base.metric.share:
        low, high, detectable = math.expm1(low), math.expm1(high), math.expm1(detectable)
    found = replace(base, low=low, high=high, detectable=detectable, reason=estimate.method)
    return _Pending(found, estimate, estimate.error / math.sqrt(1 / runs[0] + 1 / runs[1]))


def _adjusted(row: Sequence[Finding | _Pending], margin: float) -> list[Finding]:
    """Return the findings of one metric, with p values adjusted for their number and the verdicts that follow."""
    adjusted = iter(stats.holm([one.estimate.p for one in row if isinstance(one, _Pending)]))
    return [_decide(one, next(adjusted), margin) if isinstance(one, _Pending) else one for one in row]


def _decide(one: _Pending, p: float, margin: float) -> Finding:
    metric = one.base.metric
    low, high = (-margin, margin) if metric.share else (math.log1p(-margin), math.log1p(margin))
    within = one.estimate.p_equivalent(low, high) < ALPHA
    reason = f"{one.base.reason}, Holm p={p:.3g}"
    if p < ALPHA:
        verdict = _direction(metric, one.estimate.difference)
        reason += f"; smaller than the margin of {margin:.0%}" if within else ""
    elif within:
        verdict = Verdict.EQUIVALENT
        reason += f"; within +-{margin:.0%} (two one-sided tests)"
    else:
        verdict = Verdict.NOISE
        runs = stats.runs_needed(one.deviation, high)
        reason += f"; equivalence within {margin:.0%} would take about {runs} runs a side"
    return replace(one.base, verdict=verdict, reason=reason, p=p)
