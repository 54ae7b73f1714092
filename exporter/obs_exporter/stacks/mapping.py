"""From samples of native families to series of the schema: units, labels, aggregation, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from obs_exporter.exposition import Page, Sample
from obs_exporter.schema import BY_ID, Aggregation, Histogram, Kind, Scalar, Series, Signal
from obs_exporter.stacks.model import Oddity, Row

_UNTYPED = frozenset({"", "untyped", "unknown"})
_Labels = tuple[tuple[str, str], ...]
_INF = math.inf


@dataclass(slots=True)
class Mapped:
    """What one row yields on one page.

    ``seen`` says that the page has samples of the family, whatever became of them; ``oddities`` what was wrong.
    """

    series: tuple[Series, ...] = ()
    seen: bool = False
    oddities: list[Oddity] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Where a stack keeps the schema's model and engine labels, and which series are not the engine's own."""

    model: tuple[str, ...]
    engine: tuple[str, ...]
    foreign: str = ""

    def of(self, row: Row, labels: Mapping[str, str]) -> _Labels:
        """Return the schema labels of a native series, sorted."""
        chosen = {
            "model": _first(labels, self.model),
            "engine": _first(labels, self.engine),
            **{name: labels.get(native, "") for name, native in row.labels.items()},
            **row.constants,
        }
        return tuple(sorted(chosen.items()))


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def apply(row: Row, name: str, page: Page, rule: LabelRule, count_name: str = "") -> Mapped:
    """Read one row's family, spelled ``name`` on this page, into series of the schema.

    Series that are equal in the schema's labels are aggregated as the signal says. A family of an unexpected type, a
    value that cannot be, and a histogram without its last bucket yield no series but an oddity.
    """
    signal = BY_ID[row.signal]
    mapped = Mapped()
    refused = _refused(row, name, page, mapped)
    if refused:
        mapped.seen = True
        return mapped
    if row.product:
        return _info_labels(row, page.samples.get(name, []), rule, mapped, signal)
    if row.count:
        return _pair(row, page, (name, count_name), rule, mapped)
    if row.kind is Kind.HISTOGRAM:
        return _histograms(row, name, page, rule, mapped)
    return _scalars(row, page.samples.get(name, []), rule, mapped, signal)


def _refused(row: Row, name: str, page: Page, mapped: Mapped) -> bool:
    """Whether the declared type forbids the mapping; a counter that was only retyped on the way passes with a note."""
    declared = page.kind(name)
    if declared in _UNTYPED or declared == row.kind or (declared == "info" and row.product):
        return False
    if row.kind is Kind.COUNTER and declared == "gauge" and name.endswith("_total"):
        mapped.oddities.append(Oddity("retyped", f"{name} is declared a gauge; it is a counter", row.signal))
        return False
    message = f"{name} is declared a {declared}, not a {row.kind}; its values are not used"
    mapped.oddities.append(Oddity("wrong_type", message, row.signal))
    return True


def _selected(row: Row, samples: Iterable[Sample], rule: LabelRule, mapped: Mapped) -> list[Sample]:
    """Return the samples that the row selects, the last of twins only, and none that a router made up."""
    unique: dict[frozenset[tuple[str, str]], Sample] = {}
    for sample in samples:
        if rule.foreign and rule.foreign in sample.labels:
            continue
        if all(sample.labels.get(label) == value for label, value in row.where.items()):
            twin = unique.setdefault(frozenset(sample.labels.items()), sample)
            if twin.value != sample.value and not (math.isnan(twin.value) and math.isnan(sample.value)):
                message = (
                    f"{row.family} has one series twice, with {twin.value:g} and {sample.value:g}; the last is used"
                )
                mapped.oddities.append(Oddity("duplicate_series", message, row.signal))
                unique[frozenset(sample.labels.items())] = sample
    return list(unique.values())


def _scalars(row: Row, samples: list[Sample], rule: LabelRule, mapped: Mapped, signal: Signal) -> Mapped:
    """Gauges and counters."""
    values: dict[_Labels, float] = {}
    for sample in _selected(row, samples, rule, mapped):
        mapped.seen = True
        value = sample.value * row.factor
        if not _plausible(signal, value, row, mapped):
            continue
        labels = rule.of(row, sample.labels)
        values[labels] = _combine(signal, values[labels], value) if labels in values else value
    mapped.series = tuple(Scalar(labels, value) for labels, value in sorted(values.items()))
    return mapped


def _combine(signal: Signal, one: float, other: float) -> float:
    return max(one, other) if signal.aggregation is Aggregation.MAX else one + other


NO_NUMBER = "no_number"
"""The code of an oddity: NaN stands in place of a value. What it means depends on whether the engine ever worked."""


def _plausible(signal: Signal, value: float, row: Row, mapped: Mapped) -> bool:
    """Whether a value can be; what cannot be is noted."""
    if math.isnan(value):
        message = f"{row.family} shows NaN, which is no number; it is not used"
        mapped.oddities.append(Oddity(NO_NUMBER, message, row.signal))
        return False
    if value < 0 or math.isinf(value) or (signal.unit == "ratio" and value > 1):
        kind = "a ratio" if signal.unit == "ratio" else "a count"
        message = f"{row.family} shows {value:g} for {kind}; it is not used"
        mapped.oddities.append(Oddity("out_of_range", message, row.signal))
        return False
    return True


def _info_labels(row: Row, samples: list[Sample], rule: LabelRule, mapped: Mapped, signal: Signal) -> Mapped:
    """Values that stand in labels: the product of the named ones. Text that is no number is no value."""
    values: dict[_Labels, float] = {}
    for sample in _selected(row, samples, rule, mapped):
        mapped.seen = True
        value = row.factor
        try:
            for label in row.product:
                value *= float(sample.labels[label])
        except (KeyError, ValueError):
            continue
        if _plausible(signal, value, row, mapped):
            labels = rule.of(row, sample.labels)
            values[labels] = _combine(signal, values[labels], value) if labels in values else value
    engines = {dict(labels)["engine"] for labels in values} if row.shared else {""}
    mapped.series = tuple(Scalar(labels, value / len(engines)) for labels, value in sorted(values.items()))
    return mapped


def _pair(row: Row, page: Page, names: tuple[str, str], rule: LabelRule, mapped: Mapped) -> Mapped:
    """Two counters, one the sum and one the count of the same observations, as a histogram of one bucket."""
    totals: list[dict[_Labels, float]] = []
    for name in names:
        total: dict[_Labels, float] = {}
        for sample in _selected(row, page.samples.get(name, []), rule, mapped):
            mapped.seen = True
            labels = rule.of(row, sample.labels)
            total[labels] = total.get(labels, 0.0) + sample.value
        totals.append(total)
    sums, counts = totals
    mapped.series = tuple(
        Histogram(labels, ((_INF, count),), sums[labels] * row.factor)
        for labels, count in sorted(counts.items())
        if labels in sums
        and _plausible(BY_ID[row.signal], count, row, mapped)
        and _plausible(BY_ID[row.signal], sums[labels], row, mapped)
    )
    return mapped


@dataclass(slots=True)
class _Raw:
    """One histogram as the page prints it."""

    buckets: dict[float, float] = field(default_factory=dict)
    sum: float | None = None
    count: float | None = None


def _histograms(row: Row, name: str, page: Page, rule: LabelRule, mapped: Mapped) -> Mapped:
    """Histograms: raw ones are put together by their labels, checked, then added up over the schema's labels."""
    raw: dict[tuple[tuple[str, str], ...], _Raw] = {}
    for sample in _selected(row, page.samples.get(name + "_bucket", []), rule, mapped):
        edge = sample.labels.get("le", "")
        labels = tuple(sorted(item for item in sample.labels.items() if item[0] != "le"))
        try:
            raw.setdefault(labels, _Raw()).buckets[float(edge)] = sample.value
        except ValueError:
            mapped.oddities.append(Oddity("damaged_lines", f"{name}_bucket has le={edge!r}", row.signal))
    for sample in _selected(row, page.samples.get(name + "_sum", []), rule, mapped):
        raw.setdefault(tuple(sorted(sample.labels.items())), _Raw()).sum = sample.value
    for sample in _selected(row, page.samples.get(name + "_count", []), rule, mapped):
        raw.setdefault(tuple(sorted(sample.labels.items())), _Raw()).count = sample.value
    mapped.seen = bool(raw)
    groups: dict[_Labels, list[tuple[dict[float, float], float]]] = {}
    for native, histogram in raw.items():
        whole = _whole(histogram, name, row, mapped)
        if whole is not None:
            groups.setdefault(rule.of(row, dict(native)), []).append(whole)
    mapped.series = tuple(_add_up(labels, members, row.factor) for labels, members in sorted(groups.items()))
    return mapped


def _whole(raw: _Raw, name: str, row: Row, mapped: Mapped) -> tuple[dict[float, float], float] | None:
    """Return the buckets and the sum of a complete histogram; note and refuse any other."""
    if raw.count is not None and raw.buckets.setdefault(_INF, raw.count) != raw.count:
        message = f"{name}_count is {raw.count:g}, and its last bucket {raw.buckets[_INF]:g}; it is not used"
        mapped.oddities.append(Oddity("out_of_range", message, row.signal))
        return None
    ordered = [raw.buckets[edge] for edge in sorted(raw.buckets)]
    if _INF not in raw.buckets or raw.sum is None:
        what = "its _sum" if _INF in raw.buckets else "its last bucket"
        mapped.oddities.append(Oddity("incomplete_histogram", f"{name} has a series without {what}", row.signal))
        return None
    if any(math.isnan(value) for value in ordered) or ordered != sorted(ordered) or ordered[0] < 0:
        message = f"{name} has buckets that do not rise; it is not used"
        mapped.oddities.append(Oddity("out_of_range", message, row.signal))
        return None
    if not 0 <= raw.sum < _INF:
        mapped.oddities.append(Oddity("out_of_range", f"{name}_sum is {raw.sum:g}; it is not used", row.signal))
        return None
    return raw.buckets, raw.sum


def _add_up(labels: _Labels, members: list[tuple[dict[float, float], float]], factor: float) -> Histogram:
    """Add histograms on the edges that all of them have: cumulative counts stay right when edges differ."""
    edges = sorted(set.intersection(*(set(buckets) for buckets, _ in members)))
    buckets = tuple((_scaled(edge, factor), sum(member[edge] for member, _ in members)) for edge in edges)
    return Histogram(labels, buckets, sum(total for _, total in members) * factor)


def _scaled(edge: float, factor: float) -> float:
    """Scale a bucket edge without binary dust: 300 ms is 0.3 s, not 0.30000000000000004."""
    return edge if factor == 1.0 or math.isinf(edge) else float(f"{edge * factor:.12g}")
