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

No request waits longer than until its first token, so the sum of TTFT is above, and the corrected sum is kept below it.
There is no bound from below: what of the TTFT does not fit into the batch's time beside the decoding was spent before
the batch, but how much of it in the queue, and how much on the way to it through the API server (tokenization, say), no
page tells. Of a server that does not get its CPU it is mostly the queue: vLLM stamps the arrival when it gets to the
request (seen on a real one: TTFT was 0.046 s more than the queue, while scrapes waited for a second). Such a server may
take requests in just after it answered a scrape, so that the waiting gauge alone lies low. It is known by how long it
lets a scrape wait; then, and only then, what was spent before the batch raises the estimate.

The batch's size is that of the slots, or the largest seen, as long as the running gauge proves fair. A preempted
request waits between two tokens, which looks like decoding: while any are preempted, or where that is not told, nothing
is made of that time.
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
STARVED = 0.2
"""Seconds that a page takes on average from a server that does not get its CPU: one that does takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look tells, each by its labels, empty where the page does not say.

    ``began`` counts requests that got their first token, or finished; ``ttft`` and ``decoding`` are the sums of the
    TTFT and of the inter-token latency histograms, in seconds, ``steps`` is the count of the latter. ``slots`` is the
    most requests that can run, or 0. ``floor`` says that ``waiting`` is a lower bound, which must stay one in the
    integral. ``preempted`` counts preemptions. ``took`` is how long the page let us wait, None where it is not known.
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
    took: float | None = None


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

    ``most`` is the largest batch seen; ``took`` and ``looks`` are the seconds that pages took, and how many told.
    """

    seconds: float = 0.0
    decoding: float = 0.0
    ttft: float = 0.0
    way: float = 0.0
    most: float = 0.0
    took: float = 0.0
    looks: int = 0

    @property
    def starved(self) -> bool:
        """Whether pages take so long that the server does not get its CPU."""
        return self.looks >= ENOUGH and self.took / self.looks >= STARVED

    def unspent(self, slots: float) -> float:
        """Return the TTFT that neither a batch of so many slots nor the way to the queue can have taken."""
        return self.ttft - max(0.0, max(slots, self.most) * self.seconds - self.decoding) - self.way


@dataclass(frozen=True, slots=True)
class State:
    """What is carried from look to look: published totals, which never fall, and what they are built from.

    ``sum`` and ``count`` are published; ``banked`` is the sum of past epochs, ``plain`` the uncorrected sum. ``upper``
    bounds the sum, as long as ``bounded``. ``spans`` counts the spans that were added, ``skipped`` those that were not;
    ``preempted`` the preemptions in the former.
    """

    last: Sample | None = None
    sum: float = 0.0
    count: float = 0.0
    banked: float = 0.0
    plain: float = 0.0
    room: Room = Room()
    upper: float = 0.0
    bounded: bool = True
    spans: int = 0
    skipped: int = 0
    preempted: float = 0.0
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
    upper = state.upper + (ttft or 0.0)
    bounded = state.bounded and ttft is not None
    corrected = state.banked + epoch.waiting * epoch.correction
    if sample.ttft:
        fair = bool(sample.slots) or (epoch.spans >= ENOUGH and 0 < epoch.decoding < BIASED * epoch.running)
        at_least = room.unspent(sample.slots) if room.starved and fair and sample.preempted else 0.0
        most = upper if bounded else max(plain, upper)
        corrected = min(max(corrected, at_least), most)
    whole = max(state.sum, corrected)
    closed = epoch.seconds >= EPOCH
    return State(
        last=sample,
        sum=whole,
        count=state.count + began,
        banked=whole if closed else state.banked,
        plain=plain,
        room=room,
        upper=upper,
        bounded=bounded,
        spans=state.spans + 1,
        skipped=state.skipped,
        preempted=state.preempted + (growth(last.preempted, sample.preempted) or 0.0),
        epoch=Epoch() if closed else epoch,
    )


def _room(before: Room, last: Sample, sample: Sample, began: float, decoding: float) -> Room:
    """Return the room of the batch after one more span. A span in which nothing happened took none."""
    most = max([before.most, *last.running.values(), *sample.running.values()])
    ttft = growth(last.ttft, sample.ttft) or 0.0
    if sample.took is not None:
        before = replace(before, took=before.took + sample.took, looks=before.looks + 1)
    if not (any(last.running.values()) or any(sample.running.values()) or began or decoding):
        return replace(before, ttft=before.ttft + ttft, most=most)
    seconds = sample.time - last.time
    steps = growth(last.steps, sample.steps)
    way = 2 * began * decoding / steps if steps else seconds
    # A preempted request waits between two tokens: what looks like decoding may all have been that.
    decoded = decoding if growth(last.preempted, sample.preempted) == 0 else -decoding
    return replace(
        before,
        seconds=before.seconds + seconds,
        decoding=before.decoding + decoded,
        ttft=before.ttft + ttft,
        way=before.way + way,
        most=most,
    )


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
