"""The layer's own queue where it publishes none: the time at its edge less the time inside what stands behind it.

The two are sums over requests, and their difference is a wait only where they are sums over the same requests. So they
are taken for each group (Ray's application) apart, without the requests that never got inside, and believed where their
counts agree. Processes report at their own moments (Ray's every 10 s), so under load the counts differ most of the
time: the side that is ahead is then read where it stood at the other's count, between two looks of the last seconds,
and the difference is no exact value. Where they still differ after everything has stood still, nobody knows why: those
requests are left out.

From Ray 2.52 on sums are rebuilt from bucket midpoints (off by up to 88 % against access logs), so that nothing but
bounds from the buckets can be said, and only while the counts agree. The router's fulfilment time is no way out: it is
observed once per attempt, and a request that replicas reject is observed many times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

QUIET = 12.0
"""Seconds of stillness after which everything that happened was reported: Ray's processes report every 10 s."""
RECENT = 35.0
"""Seconds of looks between which one side's state at an earlier count is read: longer than any skew."""
TOLERANCE = 0.1
"""How far the counts may differ, as a share, where no such looks are: what 10 s of skew make of 100 s of load."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sum in seconds and number of observations; ``low`` and ``high`` are the sum's bounds by its buckets."""

    sum: float = 0.0
    count: float = 0.0
    low: float = 0.0
    high: float = math.inf

    def plus(self, other: Sums) -> Sums:
        """Return both together."""
        return Sums(self.sum + other.sum, self.count + other.count, self.low + other.low, self.high + other.high)

    def since(self, base: Sums) -> Sums:
        """Return what was added since ``base``; of a sum without an upper bound there is none for the growth."""
        high = self.high - base.high if math.isfinite(self.high) else math.inf
        return Sums(self.sum - base.sum, self.count - base.count, self.low - base.low, high)


NONE = Sums(high=0.0)


@dataclass(frozen=True, slots=True)
class Point:
    """One group at one look.

    ``outer``: requests at the edge that surely got inside. ``doubtful``: those of which nobody knows. ``inner``: what
    stands behind the edge saw. ``lone``: one process at the edge and one behind it, so that equal counts are the same
    requests; with more, one may be ahead by what another is behind.
    """

    outer: Sums = NONE
    doubtful: Sums = NONE
    inner: Sums = NONE
    lone: bool = True

    @property
    def every(self) -> Sums:
        """All requests at the edge that may have got inside."""
        return self.outer.plus(self.doubtful)

    @property
    def counts(self) -> tuple[float, float, float]:
        """The three counts."""
        return self.outer.count, self.doubtful.count, self.inner.count


@dataclass(frozen=True, slots=True)
class Totals:
    """The waits in seconds, their requests, and the bounds of the waits."""

    sum: float = 0.0
    count: float = 0.0
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, slots=True)
class Group:
    """What is remembered of one group, and what is published of it.

    ``total`` is published and never falls, but for a lower bound that is contradicted; its bounds are as of when the
    counts last ``agreed``. ``exact``: its sum is a difference over the very same requests. ``left_out``: requests of
    which it was never known where they belong. ``base`` is the look from which growth is reckoned and ``start`` what
    it adds to, ``clean`` where that is exact. ``firm``: at that look both sides had told everything. ``marks`` are the
    looks of the last seconds at which a count had changed.
    """

    total: Totals = Totals()
    agreed: bool = False
    exact: bool = False
    left_out: float = 0.0
    base: Point = Point()
    start: Totals = Totals()
    clean: bool = True
    firm: bool = True
    last: Point | None = None
    moved: float = 0.0
    marks: tuple[tuple[float, Point], ...] = ()

    def based(self, point: Point, now: float, *, firm: bool) -> Group:
        """Return it with growth reckoned from a look on, and from what is published."""
        clean = self.clean and (self.exact or not self.total.count)
        return replace(self, base=point, start=self.total, clean=clean, firm=firm, marks=((now, point),))


@dataclass(frozen=True, slots=True)
class State:
    """All groups by name; one that is missing for a while keeps what was published of it."""

    groups: Mapping[str, Group] = field(default_factory=dict)

    @property
    def known(self) -> list[Group]:
        """The groups of which something is published."""
        return [one for one in self.groups.values() if one.total.count]

    @property
    def bounded(self) -> list[Group]:
        """The groups whose counts agreed once."""
        return [one for one in self.groups.values() if one.agreed]


def step(state: State, points: Mapping[str, Point], now: float) -> State:
    """Return the state after a look at ``now``, in seconds."""
    seen = {name: _look(state.groups.get(name, Group()), point, now) for name, point in points.items()}
    return State({**state.groups, **seen})


def _look(group: Group, point: Point, now: float) -> Group:
    """Return a group after a look."""
    first = group.last is None
    group = _restarted(group, point, now)
    if group.last is None or group.last.counts != point.counts:
        recent = tuple(mark for mark in group.marks if 0 <= now - mark[0] <= RECENT)
        group = replace(group, moved=now, marks=(*recent, (now, point)))
    quiet = now - group.moved >= QUIET
    group = replace(group, last=point)
    inner = point.inner.since(group.base.inner)
    sure, every = point.outer.since(group.base.outer), point.every.since(group.base.every)
    outer = min(every, sure, key=lambda one: abs(one.count - inner.count))
    if outer.count == inner.count and group.firm and (first or quiet or point.lone):
        reached = _agreed(group.start, outer, inner)
        group = _published(group, reached)
        start = replace(reached, low=group.total.low)
        return replace(group, base=point, start=start, marks=((now, point),)) if quiet else group
    if quiet:
        left_out = group.left_out + (abs(outer.count - inner.count) if group.firm else 0.0)
        return replace(group, left_out=left_out).based(point, now, firm=True)
    return group if first else _estimated(group, outer, inner, all_of_them=outer is every)


def _restarted(group: Group, point: Point, now: float) -> Group:
    """Return the group with a new base where counters fell: from zero where both sides did, else from here.

    Where one side alone began anew, it cannot be told which of its requests the other has counted before.
    """
    if group.last is None:
        return group
    outside, inside = point.every.count < group.last.every.count, point.inner.count < group.last.inner.count
    if outside and inside:
        return group.based(Point(), now, firm=True)
    return group.based(point, now, firm=False) if outside or inside else group


def _agreed(start: Totals, outer: Sums, inner: Sums) -> Totals:
    """Return the totals where both sides saw the same requests."""
    return Totals(
        start.sum + max(0.0, outer.sum - inner.sum),
        start.count + outer.count,
        start.low + max(0.0, outer.low - inner.high),
        start.high + max(0.0, outer.high - inner.low),
    )


def _published(group: Group, reached: Totals) -> Group:
    """Return the group with totals that both sides agree on; an estimate from before may stand above them."""
    before = group.total
    low = max(before.low, reached.low)
    total = Totals(
        max(before.sum, reached.sum),
        max(before.count, reached.count),
        low if low <= reached.high else reached.low,  # a bound that is contradicted was never true
        reached.high,
    )
    exact = group.clean and (total.sum, total.count) == (reached.sum, reached.count)
    return replace(group, total=total, agreed=True, exact=exact)


def _estimated(group: Group, outer: Sums, inner: Sums, *, all_of_them: bool) -> Group:
    """Return the group with both sides read at the smaller of the two counts, and the bounds as they were."""
    count = min(outer.count, inner.count)
    near = abs(outer.count - inner.count) <= TOLERANCE * outer.count
    origin = [NONE] if near else []
    sides = [
        [(mark.every if all_of_them else mark.outer).since(group.base.every if all_of_them else group.base.outer)
         for _, mark in group.marks],
        [mark.inner.since(group.base.inner) for _, mark in group.marks],
    ]  # fmt: skip
    outside, inside = (_read([*origin, *side], count) for side in sides)
    if outside is None or inside is None or count <= 0:
        return group
    before, start = group.total, group.start
    grown = start.sum + max(0.0, outside - inside)
    total = replace(before, sum=max(before.sum, grown), count=max(before.count, start.count + count))
    return replace(group, total=total, exact=False)


def _read(curve: Sequence[Sums], count: float) -> float | None:
    """Return the sum where a side stood at a count, between two looks; None where it was not seen around it."""
    for one, other in zip(reversed(curve[:-1]), reversed(curve[1:]), strict=True):
        if one.count <= count <= other.count:
            share = (count - one.count) / (other.count - one.count) if other.count > one.count else 1.0
            return one.sum + share * (other.sum - one.sum)
    return curve[-1].sum if curve and curve[-1].count == count else None


def limits(buckets: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return what a histogram's sum is at least and at most; the last bucket has no upper edge."""
    low = high = edge = below = 0.0
    for upper, count in buckets:
        inside = count - below
        low += inside * edge
        high += inside * upper if inside else 0.0
        edge, below = upper, count
    return low, high
