"""Several shards of one run become one result, exactly: every number is computed anew from all records.

A single result of a run without shards is taken too: after a crash its numbers are made that way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.recover import key_of, read_whole
from obs_exporter.probe.report.levels import OVERLAP_FLOOR
from obs_exporter.probe.results import ResultError, ResultWriter, read_records, read_result
from obs_exporter.probe.summary import Accumulator, LevelKey

_SAME = ("run_id", "slo", "load", "target")
_LOOK_S = 0.5


def merge_files(paths: Sequence[Path], output: Path) -> dict[str, Any]:
    """Merge result files with their requests files into ``output``; return the result.

    Raises ResultError when a file cannot be read, or when the files are not the shards of one run.
    """
    parts = [read_whole(path) for path in paths]
    _check_same_run(paths, parts)
    if output.resolve() in {path.resolve() for path in paths}:
        raise ResultError(f"{output}: is one of the shards: give another --output")
    header = {key: parts[0][key] for key in (*_SAME, "seed") if key in parts[0]}
    shards = [part.get("shard") for part in parts]
    writer = ResultWriter(output, header | {"shard": None, "merged_from": shards})
    accumulators: dict[LevelKey, Accumulator] = {}
    spans: dict[LevelKey, list[tuple[float, float]]] = {}
    for path, part in zip(paths, parts, strict=True):
        own: dict[LevelKey, tuple[float, float]] = {}
        for record in read_records(path.with_name(part["requests_file"])):
            key = LevelKey.of(record)
            accumulators.setdefault(key, Accumulator(key)).add(record)
            own[key] = _wider(own.get(key), record)
            writer.record(record)
        for key, span in own.items():
            spans.setdefault(key, []).append(span)
    writer.result["calibration"] = [entry for part in parts for entry in part["calibration"]]
    for key in sorted(accumulators, key=lambda key: (key.repeat, key)):
        writer.level(_merged_level(key, accumulators[key], parts, spans[key]))
    writer.result["started_at"] = min(part["started_at"] for part in parts)
    for part in parts:
        for note in part["notes"]:
            writer.note(note)
    missing = _missing(shards)
    reasons = [
        (f"shard {part['shard']}: " if part.get("shard") else "") + str(part["partial_reason"])
        for part in parts
        if part["partial"]
    ]
    writer.finish("; ".join([*missing, *reasons]))
    return writer.result


def shard_files(paths: Sequence[Path], output: Path, wait_s: float = 0.0) -> list[Path]:
    """Return the shards' files: folders stand for the shards in them. Wait for those that have not ended.

    Raises ResultError when there is none, also after the wait.
    """
    deadline = time.monotonic() + wait_s
    while True:
        found = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
        found = [file for file in found if file.resolve() != output.resolve() or file in paths]
        if time.monotonic() >= deadline or _all_ended([file for file in found if file.exists()]):
            break
        time.sleep(_LOOK_S)
    if not found:
        raise ResultError(f"{', '.join(map(str, paths))}: no result file (*.json) in it")
    return found


def _all_ended(paths: Sequence[Path]) -> bool:
    parts = [read_result(path) for path in paths]
    shards = [part.get("shard") for part in parts]
    return bool(parts) and all(shards) and not _missing(shards) and all(part["finished_at"] for part in parts)


def _check_same_run(paths: Sequence[Path], parts: Sequence[dict[str, Any]]) -> None:
    for path, part in zip(paths[1:], parts[1:], strict=True):
        for key in _SAME:
            if part.get(key) != parts[0].get(key):
                raise ResultError(f"{path}: not a shard of the same run as {paths[0]}: {key} differs")
    seen: dict[str, Path] = {}
    for path, part in zip(paths, parts, strict=True):
        shard = part.get("shard")
        if not shard and len(paths) > 1:
            raise ResultError(f"{path}: not a shard: it was run without --shard")
        if str(shard) in seen:
            raise ResultError(f"{path}: the same shard ({shard}) as {seen[str(shard)]}")
        seen[str(shard)] = path


def _missing(shards: Sequence[str | None]) -> list[str]:
    if not shards[0]:
        return []
    count = int(str(shards[0]).partition("/")[2])
    lacking = [f"{i}/{count}" for i in range(count) if f"{i}/{count}" not in shards]
    return [f"shards missing: {', '.join(lacking)}"] if lacking else []


def _wider(span: tuple[float, float] | None, record: Record) -> tuple[float, float]:
    start, end = record.started_at, record.started_at + (record.e2e_s or 0.0)
    return (start, end) if span is None else (min(span[0], start), max(span[1], end))


def _overlap(spans: list[tuple[float, float]]) -> tuple[float, str]:
    """Return for which share of a level all its shards ran, and why that is too little, or ""."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    whole = max(ends) - min(starts)
    overlap = max(0.0, min(ends) - max(starts)) / whole if whole > 0 else 1.0
    if len(spans) < 2 or overlap >= OVERLAP_FLOOR:
        return overlap, ""
    text = f"the shards ran together for only {overlap:.0%} of this level"
    if max(starts) - min(starts) > (1 - OVERLAP_FLOOR) / 2 * whole:
        return overlap, f"{text}: they started apart: start them with --rendezvous"
    return overlap, f"{text}: they started together and ended apart: give each more requests, or equal slots"


def _merged_level(
    key: LevelKey, accumulator: Accumulator, parts: Sequence[dict[str, Any]], spans: list[tuple[float, float]]
) -> dict[str, Any]:
    """Return a level's summary, with the client sides of its shards joined."""
    summary = accumulator.summary()
    own = [level for part in parts for level in part["levels"] if key_of(level) == key]
    clients = [level["client"] for level in own]
    lag = LagHistogram()
    for client in clients:
        if client["lag_s"] is not None:
            lag.merge(LagHistogram.from_json(client["lag_s"]))
    reasons = [client["limited"] for client in clients if client["limited"]]
    overlap, why = _overlap(spans)
    if why:
        reasons.append(why)
    errors = [client["ttft_error_p99_s"] for client in clients if client["ttft_error_p99_s"] is not None]
    middles = [client["ttft_error_p50_s"] for client in clients if client["ttft_error_p50_s"] is not None]
    summary["client"] = {
        "calibrated": bool(clients) and all(client["calibrated"] for client in clients),
        "ttft_error_p50_s": max(middles, default=None),
        "ttft_error_p99_s": max(errors, default=None),
        "cpu_share": max((one["cpu_share"] for one in clients if one["cpu_share"] is not None), default=None),
        "lag_s": lag.to_json(),
        "limited": "; ".join(dict.fromkeys(reasons)),
        "shards": len(spans),
        "shard_overlap": round(overlap, 4),
    }
    summary["client_limited"] = bool(reasons)
    summary["server"] = next((level["server"] for level in own if level.get("server")), None)
    return summary
