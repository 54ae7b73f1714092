"""The two sides of the layer's queue as a page has them: sums at the edge and behind it, by group."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from obs_exporter.derive.layer_queue import NONE, Point, Sums, limits
from obs_exporter.exposition import Page
from obs_exporter.stacks.base import LayerWait

_Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sides:
    """Groups with both sides, and the names of those of which it cannot be told what the edge calls."""

    points: dict[str, Point] = field(default_factory=dict)
    unclear: tuple[str, ...] = ()


def read(page: Page, facts: LayerWait) -> Sides:
    """Return what a page says of both sides."""
    outer, inner = _family(page, facts.outer, facts.factor), _family(page, facts.inner, facts.factor)
    points: dict[str, Point] = {}
    unclear = []
    for group in sorted({dict(labels).get(facts.group) for labels in outer}, key=str):
        if group == "":
            continue
        ours = {labels: sums for labels, sums in outer.items() if dict(labels).get(facts.group) == group}
        behind = {labels: sums for labels, sums in inner.items() if dict(labels).get(facts.group) == group}
        called = _called(behind, facts)
        if called is None:
            unclear.append(group or "(no name)")
            continue
        if not called:
            continue
        doubtful = [sums for labels, sums in ours.items() if dict(labels).get(facts.status) in facts.doubtful]
        sure = [sums for labels, sums in ours.items() if dict(labels).get(facts.status) not in facts.doubtful]
        lone = _processes(ours) == _processes(called) == 1
        points[group or ""] = Point(_total(sure), _total(doubtful), _total(called.values()), lone)
    return Sides(points, tuple(unclear))


def _called(behind: dict[_Labels, Sums], facts: LayerWait) -> dict[_Labels, Sums] | None:
    """Return the series of what the edge calls itself; None where it cannot be told which they are."""
    if not facts.part:
        return behind
    over = {labels: sums for labels, sums in behind.items() if dict(labels).get(facts.route) != ""}
    names = {dict(labels).get(facts.part, "") for labels in over}
    chosen = {name for name in names if name.startswith(facts.ingress)} or (names if len(names) == 1 else set())
    if over and not chosen:
        return None
    return {labels: sums for labels, sums in over.items() if dict(labels).get(facts.part, "") in chosen}


_PROCESS = ("WorkerId", "replica", "pod_name")


def _processes(series: Iterable[_Labels]) -> int:
    return len({tuple(value for name, value in labels if name in _PROCESS) for labels in series})


def _family(page: Page, name: str, factor: float) -> dict[_Labels, Sums]:
    """Return a histogram family's series by their labels; one that is broken is left out."""
    buckets: dict[_Labels, list[tuple[float, float]]] = {}
    for one in page.samples.get(name + "_bucket", []):
        key = tuple(sorted(item for item in one.labels.items() if item[0] != "le"))
        try:
            buckets.setdefault(key, []).append((float(one.labels.get("le", "")) * factor, one.value))
        except ValueError:
            continue
    totals = {tuple(sorted(one.labels.items())): one.value for one in page.samples.get(name + "_sum", [])}
    found: dict[_Labels, Sums] = {}
    for one in page.samples.get(name + "_count", []):
        key = tuple(sorted(one.labels.items()))
        low, high = limits(sorted(buckets.get(key, [(math.inf, one.value)])))
        total = totals.get(key, math.nan) * factor
        if math.isfinite(total) and math.isfinite(one.value):
            found[key] = Sums(total, one.value, low, high)
    return found


def _total(sums: Iterable[Sums]) -> Sums:
    total = NONE
    for one in sums:
        total = total.plus(one)
    return total
