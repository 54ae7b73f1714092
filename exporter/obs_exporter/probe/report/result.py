"""The report of one result: a row a level, what the numbers can bear, and charts. Pure: a result in, a document out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from obs_exporter.probe.report.document import Block, Document, Table, Text
from obs_exporter.probe.report.levels import (
    LIMITED,
    OVERLAP_FLOOR,
    Load,
    by_load,
    due,
    load_name,
    median_of,
    target_name,
    values_of,
)
from obs_exporter.probe.report.result_charts import charts_of
from obs_exporter.probe.report.result_server import server_remarks, server_table

_P99_NEEDS = 368
"""From so many values on, order statistics give p99 a two-sided 95 % interval: 0.99^n <= 0.025."""
_CEILING_WORTH_SAYING = 0.97


def document(result: dict[str, Any], baseline: dict[str, Any] | None = None) -> Document:
    """Return the report; with a baseline its curves are drawn beside."""
    loads = by_load(result)
    blocks: list[Block] = [Text(tuple(_head(result)))]
    blocks.append(_main_table(loads))
    failures = _failures(loads)
    if failures.rows:
        blocks.append(failures)
    server = server_table(loads)
    if server.rows:
        blocks.append(server)
    remarks = [*(result.get("notes") or ()), *_remarks(loads)]
    if remarks:
        blocks.append(Text(tuple(remarks)))
    blocks += charts_of(result, baseline)
    return Document(f"obs-probe: {target_name(result)}", tuple(blocks))


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
        tail = f"{error * 1e3:.2f} ms" if error is not None else _not_measured(levels)
        if levels and not sound:
            rows.append((*counts, LIMITED, *["-"] * 6, tail))
            continue
        goodput = _pooled_goodput(sound)
        ttft, e2e = due(sound, "ttft"), due(sound, "e2e")
        p99 = _number(median_of(sound, *ttft, "p99"), ".4f")
        if p99 != "-" and min(values_of(sound, *ttft, "n"), default=0) < _P99_NEEDS:
            p99 = f"~{p99}"
        rows.append((
            *counts, _number(goodput, ".1%"), _spread(sound), _number(median_of(sound, *ttft, "p50"), ".4f"),
            _number(median_of(sound, *ttft, "p95"), ".4f"), p99, _number(median_of(sound, "tpot_s", "p50"), ".5f"),
            _number(median_of(sound, *e2e, "p95"), ".3f"), tail,
        ))  # fmt: skip
    return Table("Levels (seconds; medians over runs)", columns, tuple(rows))


def _not_measured(levels: Sequence[dict[str, Any]]) -> str:
    tried = any((level.get("client") or {}).get("calibrated") for level in levels)
    return "calibration failed" if tried else "not calibrated"


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
    found = [*_engine_waits(loads), *server_remarks(loads)]
    for load, levels in loads.items():
        name = load_name(load)
        of_client = [level for level in levels if level.get("client_limited")]
        clients = [level.get("client") or {} for level in of_client]
        limited = [client.get("limited") or "no reason is told" for client in clients]
        if limited:
            told = f"{name}: {len(limited)} of {len(levels)} runs are limited by this client: {limited[0]}"
            apart = all((client.get("shard_overlap") or 1.0) < OVERLAP_FLOOR for client in clients)
            found.append(told if apart else f"{told}: share the load with --processes or --shard")
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
            late, own = (median_of(levels, "schedule", key, "p99") for key in ("late_s", "own_late_s"))
            found.append(
                f"{name}: TTFT and E2E are shown, and SLOs judged, from the schedule;"
                f" requests left {_number(late, '.4f')} s late at p99, the probe's own part {_number(own, '.4f')} s"
            )
    counts = [n for levels in loads.values() for n in values_of(levels, "ttft_s", "n")]
    if any(0 < n < _P99_NEEDS for n in counts):
        found.append(f"~: p99 of fewer than {_P99_NEEDS} values is little more than the largest one")
    return found
