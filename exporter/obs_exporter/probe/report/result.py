"""The report of one result: a row a level, what the numbers can bear, and charts. Pure: a result in, a document out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from obs_exporter.probe.report.document import Block, Chart, Document, Line, Table, Text

_P99_NEEDS = 368
"""From so many values on, order statistics give p99 a two-sided 95 % interval: 0.99^n <= 0.025."""
_CEILING_WORTH_SAYING = 0.97

Load = tuple[str, int | None, float | None]
LIMITED = "client-limited"


def load_of(level: dict[str, Any]) -> Load:
    """Return a level's scenario, concurrency and rate."""
    return level["scenario"], level.get("concurrency"), level.get("rate")


def load_name(load: Load) -> str:
    """Return a load in words."""
    scenario, slots, rate = load
    return f"{scenario} c={slots}" if slots else f"{scenario} {rate or 0:g}/s"


def by_load(result: dict[str, Any]) -> dict[Load, list[dict[str, Any]]]:
    """Return the repeats of each load, loads sorted."""
    found: dict[Load, list[dict[str, Any]]] = {}
    for level in sorted(
        result["levels"], key=lambda one: (one["scenario"], one.get("concurrency") or 0, one.get("rate") or 0)
    ):
        found.setdefault(load_of(level), []).append(level)
    return found


def median_of(levels: Sequence[dict[str, Any]], *path: str) -> float | None:
    """Return the median over repeats of a number at ``path`` (throughput, ttft_s p95); None when no repeat has it."""
    values = values_of(levels, *path)
    return statistics.median(values) if values else None


def values_of(levels: Sequence[dict[str, Any]], *path: str) -> list[float]:
    """Return the numbers at ``path`` of all repeats that have one."""
    found = []
    for level in levels:
        value: Any = level
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            found.append(float(value))
    return found


def document(result: dict[str, Any], baseline: dict[str, Any] | None = None) -> Document:
    """Return the report; with a baseline its curves are drawn beside."""
    loads = by_load(result)
    blocks: list[Block] = [Text(tuple(_head(result)))]
    blocks.append(_main_table(loads))
    failures = _failures(loads)
    if failures.rows:
        blocks.append(failures)
    server = _server_table(loads)
    if server.rows:
        blocks.append(server)
    remarks = [*result.get("notes", ()), *_remarks(loads)]
    if remarks:
        blocks.append(Text(tuple(remarks)))
    blocks += _charts(result, baseline)
    return Document(f"obs-probe: {_name(result)}", tuple(blocks))


def _name(result: dict[str, Any]) -> str:
    target = result["target"]
    return str(target.get("name") or target.get("url") or "result")


def _head(result: dict[str, Any]) -> list[str]:
    target, slo = result["target"], result["slo"]
    known = [
        f"{label} {target[key]}"
        for label, key in (("model", "model"), ("stack", "stack"), ("stack version", "stack_version"),
                           ("engine", "engine_version"), ("engine generation", "engine_generation"), ("GPU", "gpu"))
        if target.get(key)
    ]  # fmt: skip
    lines = [", ".join(known)] if known else []
    settings = target.get("settings") or {}
    if settings:
        lines.append("settings: " + ", ".join(f"{key}={value}" for key, value in sorted(settings.items())))
    limits = [f"TTFT <= {slo['ttft_s']:g} s", f"E2E <= {slo['e2e_s']:g} s"]
    if slo.get("tpot_s"):
        limits.append(f"TPOT <= {slo['tpot_s']:g} s")
    lines.append(f"good: {' and '.join(limits)}; the denominator is every request sent")
    if result.get("partial"):
        lines.insert(0, f"PARTIAL RESULT: {result.get('partial_reason') or 'the run did not end'}")
    return lines


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _main_table(loads: dict[Load, list[dict[str, Any]]]) -> Table:
    columns = (
        "level", "runs", "requests", "goodput", "tokens/s", "TTFT p50", "TTFT p95", "TTFT p99", "TPOT p50", "E2E p95",
        "client error p99",
    )  # fmt: skip
    rows = []
    for load, levels in loads.items():
        sound = [level for level in levels if not level.get("client_limited")]
        counts = (load_name(load), str(len(levels)), str(sum(level.get("requests") or 0 for level in levels)))
        error = median_of(levels, "client", "ttft_error_p99_s")
        tail = f"{error * 1e3:.2f} ms" if error is not None else "not calibrated"
        if levels and not sound:
            rows.append((*counts, *[LIMITED] * 7, tail))
            continue
        goodput = _pooled_goodput(sound)
        p99 = _number(median_of(sound, "ttft_s", "p99"), ".4f")
        if p99 != "-" and min(values_of(sound, "ttft_s", "n"), default=0) < _P99_NEEDS:
            p99 = f"~{p99}"
        rows.append((
            *counts, _number(goodput, ".1%"), _spread(sound), _number(median_of(sound, "ttft_s", "p50"), ".4f"),
            _number(median_of(sound, "ttft_s", "p95"), ".4f"), p99, _number(median_of(sound, "tpot_s", "p50"), ".5f"),
            _number(median_of(sound, "e2e_s", "p95"), ".3f"), tail,
        ))  # fmt: skip
    return Table("Levels (seconds; medians over runs)", columns, tuple(rows))


def _pooled_goodput(levels: Sequence[dict[str, Any]]) -> float | None:
    sent = sum(level.get("requests") or 0 for level in levels)
    good = values_of(levels, "good")
    if sent and len(good) == len(levels):
        return float(sum(good)) / float(sent)
    return median_of(levels, "goodput")


def _spread(levels: Sequence[dict[str, Any]]) -> str:
    values = values_of(levels, "output_tokens_per_s")
    if not values:
        return "-"
    text = f"{statistics.median(values):.1f}"
    return f"{text} ({min(values):.1f}..{max(values):.1f})" if len(values) > 1 else text


def _failures(loads: dict[Load, list[dict[str, Any]]]) -> Table:
    kinds = sorted({kind for levels in loads.values() for level in levels for kind in level.get("errors") or {}})
    rows = []
    for load, levels in loads.items():
        counts = [sum((level.get("errors") or {}).get(kind, 0) for level in levels) for kind in kinds]
        cancelled = sum(level.get("cancelled") or 0 for level in levels)
        if any(counts) or cancelled:
            rows.append((load_name(load), *map(str, counts), str(cancelled)))
    return Table(
        "Failed requests by kind (all are misses), and those that the probe's own stop cut",
        ("level", *kinds, "cancelled"),
        tuple(rows),
    )


def _server_table(loads: dict[Load, list[dict[str, Any]]]) -> Table:
    columns = (
        "level",
        "client TTFT mean",
        "engine TTFT mean",
        "lost between",
        "engine queue mean",
        "KV usage peak",
        "preemptions",
    )
    rows = []
    for load, levels in loads.items():
        if not any(level.get("server") for level in levels):
            continue

        def cell(form: str, *path: str, levels: list[dict[str, Any]] = levels) -> str:
            value = median_of(levels, "server", *path)
            return "not seen" if value is None else format(value, form)

        rows.append((
            load_name(load), _number(median_of(levels, "ttft_s", "mean"), ".4f"),
            cell(".4f", "signals", "ttft", "value"),
            cell(".4f", "lost_s", "value"), cell(".4f", "signals", "queue_wait", "value"),
            cell(".1%", "signals", "kv_cache_usage", "value"), cell("g", "signals", "preemptions", "value"),
        ))  # fmt: skip
    return Table("The server's own side (seconds; medians over runs)", columns, tuple(rows))


def _engine_waits(loads: dict[Load, list[dict[str, Any]]]) -> list[str]:
    """Say what the answers themselves told of the engine's queue."""
    found = []
    for load, levels in loads.items():
        mean, high = (median_of(levels, "engine_queue_wait_s", part) for part in ("mean", "p95"))
        if mean is not None and high is not None:
            told = f"mean {mean:.4f} s, p95 {high:.4f} s"
            found.append(f"{load_name(load)}: the engine's own queue wait, as its answers tell it: {told}")
    return found


def _remarks(loads: dict[Load, list[dict[str, Any]]]) -> list[str]:
    found = _engine_waits(loads)
    for load, levels in loads.items():
        name = load_name(load)
        limited = [level["client"]["limited"] for level in levels if level.get("client_limited")]
        if limited:
            found.append(
                f"{name}: {len(limited)} of {len(levels)} runs are limited by this client: {limited[0]}:"
                " share the load with --processes or --shard"
            )
        ceiling, waves = median_of(levels, "shape", "ceiling"), median_of(levels, "shape", "waves")
        if ceiling is not None and waves is not None and ceiling < _CEILING_WORTH_SAYING:
            steady = median_of(levels, "shape", "steady", "output_tokens_per_s")
            tail = f"; in the steady state it is {steady:.1f} tokens/s" if steady is not None else ""
            found.append(
                f"{name}: the requests are {waves:.2f} waves of the slots:"
                f" the ends alone hold throughput to {ceiling:.0%}{tail}"
            )
        merged = sum(level.get("ambiguous_first_tokens") or 0 for level in levels)
        if merged:
            found.append(f"{name}: {merged} first tokens came merged with later ones: their TTFT may read too long")
        again = sum(level.get("redone") or 0 for level in levels)
        if again:
            found.append(
                f"{name}: {again} requests were sent again, on a new connection: the server had closed the kept one"
                " without an answer (their times are those of the second send)"
            )
        whole = sum(level.get("not_streamed") or 0 for level in levels)
        if whole:
            found.append(f"{name}: {whole} answers were not streamed: their TTFT is the time of the whole answer")
        sources = sorted({source for level in levels for source in level.get("token_source") or {}})
        if sources and sources != ["usage"]:
            found.append(
                f"{name}: tokens counted from {' and '.join(sources)}"
                + (" (an event may carry several tokens)" if "chunks" in sources else "")
            )
        if any(level.get("schedule") for level in levels):
            late = median_of(levels, "schedule", "late_s", "p99")
            found.append(
                f"{name}: SLOs are judged from the schedule; requests left {_number(late, '.4f')} s late at p99"
            )
    counts = [n for levels in loads.values() for n in values_of(levels, "ttft_s", "n")]
    if any(0 < n < _P99_NEEDS for n in counts):
        found.append(f"~: p99 of fewer than {_P99_NEEDS} values is little more than the largest one")
    return found


def _charts(result: dict[str, Any], baseline: dict[str, Any] | None) -> list[Chart]:
    sides = [(f"{_name(one)}", one) for one in (baseline, result) if one is not None]
    if len(sides) == 2 and sides[0][0] == sides[1][0]:
        sides = [("baseline", sides[0][1]), ("this result", sides[1][1])]
    speed, good = [], []
    for name, one in sides:
        for scenario in sorted({load[0] for load in by_load(one) if load[1]}):
            levels = {load[1]: runs for load, runs in by_load(one).items() if load[0] == scenario and load[1]}
            sound = {slots: [r for r in runs if not r.get("client_limited")] for slots, runs in levels.items() if slots}
            label = f"{name}, {scenario}"
            speed.append(_line(label, sound, 1.0, "output_tokens_per_s"))
            good.append(_line(label, sound, 100.0, "goodput"))
    charts = [
        Chart("Throughput by concurrency", "concurrency", "output tokens/s", tuple(speed), log_x=True),
        Chart("Goodput by concurrency", "concurrency", "good requests, %", tuple(good), log_x=True, top=100.0),
    ]
    slo = result["slo"]["ttft_s"]
    for title, one in sides:
        curves = tuple(
            _curve(load, levels) for load, levels in by_load(one).items() if levels[-1].get("ttft_s", {}).get("curve")
        )
        if curves:
            name = f"TTFT distribution, {title} (last run of each level)"
            charts.append(Chart(name, "TTFT, s", "requests at most so slow, %", curves, top=100.0, mark_x=(slo, "SLO")))
    return [chart for chart in charts if any(line.points for line in chart.lines)]


def _line(name: str, levels: dict[int, list[dict[str, Any]]], factor: float, key: str) -> Line:
    points, band = [], []
    for slots, runs in sorted(levels.items()):
        values = [value * factor for value in values_of(runs, key)]
        if values:
            points.append((float(slots), statistics.median(values)))
            if len(values) > 1:
                band.append((float(slots), min(values), max(values)))
    return Line(name, tuple(points), tuple(band))


def _curve(load: Load, levels: Sequence[dict[str, Any]]) -> Line:
    values = levels[-1]["ttft_s"]["curve"]
    share = 100.0 / max(1, len(values) - 1)
    return Line(load_name(load), tuple((value, i * share) for i, value in enumerate(values)))
