"""Queue wait by Little's law: the time-integral of the waiting gauge as sum, requests that began as count.

Requests that wait add up to seconds of waiting: over any span, the integral of the number waiting is the sum of the
waits (L = lambda W). So ``rate(sum)/rate(count)`` is the mean wait, on any stack that shows how many wait.

Two things make it lie, and both are handled:

- What is between two looks is unknown when they are far apart, the page failed in between, the engine restarted, or a
  clock jumped. Such a span adds to neither sum nor count.
- A server that is starved of CPU answers a scrape when its engine has just gone idle: the sampled gauge lies low. The
  same samples give the integral of the running gauge, which the page also tells exactly: the sum of its inter-token
  latencies is the time that requests spent decoding. The ratio of the two says how low the samples lie, and corrects
  the waiting integral. It never corrects downwards, since prefill time is not in that sum.

Waiting again after a preemption is in the gauge, and not in the engine's own queue time of later versions.

Bounds of the sum come from the page as well, and the corrected sum is kept between them. No request waits longer than
until its first token, so the sum of TTFT is above. And a batch of known size has only so much time: what of the TTFT
does not fit into the slots' time beside the decoding was spent before the batch, in the queue or on the way to it from
the API server, for which two steps a request are allowed. A preempted request waits between two tokens, which looks
like decoding: while any are preempted, or where that is not told, the lower bound stays where it is. Both bounds hold
over a span that begins at rest; of one that begins under load, the first requests bring some wait from before it.

Where the slots are not given and the running gauge proves fair, the largest batch seen stands for them in the estimate,
though no bound is published then. For a starved front end may take requests in just after it answered a scrape, so that
the waiting gauge alone lies low.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from obs_exporter.derive.counting import growth
from obs_exporter.derive.model import Labels

MAX_GAP = 90.0
"""Seconds between two looks above which nothing is said of the time between: one missed scrape at 30 s is bridged."""
EPOCH = 600.0
"""Seconds over which one correction is found; then it starts anew, since the load on the machine changes."""
BIASED = 1.1
"""The correction is used from here on: below it, it is noise."""
MOST = 10.0
"""The correction is never larger: of so few samples at work it would be a guess."""
ENOUGH = 5
"""Spans in an epoch before its correction is used."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look tells, each by its labels, empty where the page does not say.

    ``began`` counts requests that got their first token, or finished; ``ttft`` and ``decoding`` are the sums of the
    TTFT and of the inter-token latency histograms, in seconds, ``steps`` is the count of the latter. ``slots`` is the
    most requests that can run, or 0. ``floor`` says that ``waiting`` is a lower bound, which must stay one in the
    integral. ``preempted`` counts preemptions.
    """

    time: float
    waiting: Mapping[Labels, float]
    began: Mapping[Labels, float]
    running: Mapping[Labels, float]
    decoding: Mapping[Labels, float]
    ttft: Mapping[Labels, float]
    slots: float = 0.0
    floor: bool = False
    steps: Mapping[Labels, float] = field(default_factory=dict)
    preempted: Mapping[Labels, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The integrals since a correction was last started: waiting and running as sampled, decoding as the page says."""

    waiting: float = 0.0
    running: float = 0.0
    decoding: float = 0.0
    seconds: float = 0.0
    spans: int = 0

    @property
    def correction(self) -> float:
        """How many times too low the samples lie; 1 where that cannot be told, or is within noise."""
        if self.spans < ENOUGH or self.running <= 0:
            return 1.0
        ratio = self.decoding / self.running
        return 1.0 if ratio < BIASED else min(ratio, MOST)


@dataclass(frozen=True, slots=True)
class Room:
    """What the batch had time for: seconds in which it worked, those spent decoding, TTFT, and the way to the queue.

    ``most`` is the largest batch seen.
    """

    seconds: float = 0.0
    decoding: float = 0.0
    ttft: float = 0.0
    way: float = 0.0
    most: float = 0.0

    def unspent(self, slots: float) -> float:
        """Return the TTFT that neither a batch of so many slots nor the way to the queue can have taken."""
        return self.ttft - max(0.0, slots * self.seconds - self.decoding) - self.way


@dataclass(frozen=True, slots=True)
class State:
    """What is carried from look to look: published totals, which never fall, and what they are built from.

    ``sum`` and ``count`` are published; ``banked`` is the sum of past epochs, ``plain`` the uncorrected sum. ``upper``
    bounds the sum, as long as ``bounded``; ``lower`` does where the slots are known: it is the highest that ``room``
    ever left unspent. ``spans`` counts the spans that were added, ``skipped`` those that were not.
    """

    last: Sample | None = None
    sum: float = 0.0
    count: float = 0.0
    banked: float = 0.0
    plain: float = 0.0
    room: Room = Room()
    lower: float = 0.0
    upper: float = 0.0
    bounded: bool = True
    spans: int = 0
    skipped: int = 0
    epoch: Epoch = Epoch()


def step(state: State, sample: Sample) -> State:
    """Return the state after a look. Spans that cannot be trusted only move the starting point."""
    last = state.last
    if last is None:
        return replace(state, last=sample)
    seconds = sample.time - last.time
    began = growth(last.began, sample.began)
    usable = 0 < seconds <= MAX_GAP and _finite(last.waiting) and _finite(sample.waiting)
    if not usable or began is None or last.waiting.keys() != sample.waiting.keys():
        return replace(state, last=sample, skipped=state.skipped + 1)
    decoding = growth(last.decoding, sample.decoding) or 0.0
    ttft = growth(last.ttft, sample.ttft)
    before = state.epoch
    epoch = Epoch(
        before.waiting + _integral(last.waiting, sample.waiting, seconds, floor=sample.floor),
        before.running + _integral(last.running, sample.running, seconds),
        before.decoding + decoding,
        before.seconds + seconds,
        before.spans + 1,
    )
    room = _room(state.room, last, sample, began, decoding)
    plain = state.plain + epoch.waiting - before.waiting
    lower = max(state.lower, room.unspent(sample.slots)) if sample.slots else state.lower
    upper = state.upper + (ttft or 0.0)
    bounded = state.bounded and ttft is not None
    corrected = state.banked + epoch.waiting * epoch.correction
    if sample.ttft:
        fair = epoch.spans >= ENOUGH and 0 < epoch.decoding < BIASED * epoch.running
        at_least = room.unspent(room.most) if fair and sample.preempted else 0.0
        most = upper if bounded else max(plain, upper)
        corrected = max(lower, min(max(corrected, at_least), most))
    whole = max(state.sum, corrected)
    closed = epoch.seconds >= EPOCH
    return State(
        last=sample,
        sum=whole,
        count=state.count + began,
        banked=whole if closed else state.banked,
        plain=plain,
        room=room,
        lower=lower,
        upper=upper,
        bounded=bounded,
        spans=state.spans + 1,
        skipped=state.skipped,
        epoch=Epoch() if closed else epoch,
    )


def _room(before: Room, last: Sample, sample: Sample, began: float, decoding: float) -> Room:
    """Return the room of the batch after one more span. A span in which nothing happened took none."""
    most = max([before.most, *last.running.values(), *sample.running.values()])
    ttft = growth(last.ttft, sample.ttft) or 0.0
    if not (any(last.running.values()) or any(sample.running.values()) or began or decoding):
        return replace(before, ttft=before.ttft + ttft, most=most)
    seconds = sample.time - last.time
    steps = growth(last.steps, sample.steps)
    way = 2 * began * decoding / steps if steps else seconds
    # A preempted request waits between two tokens: what looks like decoding may all have been that.
    decoded = decoding if growth(last.preempted, sample.preempted) == 0 else -decoding
    return Room(before.seconds + seconds, before.decoding + decoded, before.ttft + ttft, before.way + way, most)


def lost_sight(state: State) -> State:
    """Return the state after a look that failed: the span around it will add nothing."""
    return replace(state, last=None, skipped=state.skipped + 1) if state.last is not None else state


def _finite(values: Mapping[Labels, float]) -> bool:
    return all(map(math.isfinite, values.values()))


def _integral(
    before: Mapping[Labels, float], after: Mapping[Labels, float], seconds: float, *, floor: bool = False
) -> float:
    """Return the integral over a span: by the trapezoid, or of the smaller end where it is to be a lower bound."""
    one, other = sum(before.values(), 0.0), sum(after.values(), 0.0)
    mean = min(one, other) if floor else (one + other) / 2
    return seconds * mean if math.isfinite(mean) else 0.0
