"""Several shards of one run become one result, exactly: every number is computed anew from all records.

A single result of a run without shards is taken too: after a crash its numbers are made that way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from obs_exporter.probe.aside import make_room
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.recover import key_of, read_whole, requests_of
from obs_exporter.probe.report.levels import OVERLAP_FLOOR
from obs_exporter.probe.results import Damage, ResultError, ResultWriter, load_result, read_records, read_result
from obs_exporter.probe.summary import Accumulator, LevelKey

_SAME = ("run_id", "slo", "load", "target")
_LOOK_S = 0.5
_ARRIVALS = 5.0
"""So many mean times between a shard's arrivals it may have to wait for its first one (exceeded once in 150)."""


def merge_files(paths: Sequence[Path], output: Path, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Merge result files with their requests files into ``output``; return the result.

    An earlier result at ``output`` is moved aside, which ``say`` is told. Damaged lines of a requests file make the
    merged result partial. Raises ResultError when a file cannot be read, or when the files are not one run's shards.
    """
    parts = [read_whole(path) for path in paths]
    files = [_requests(path, part) for path, part in zip(paths, parts, strict=True)]
    _check_same_run(paths, parts)
    if output.resolve() in {path.resolve() for path in paths}:
        raise ResultError(f"{output}: is one of the shards: give another --output")
    for file in files:
        next(read_records(file), None)  # one without any readable line is told before anything is moved
    if moved := make_room(output):
        say(moved)
    header = {key: parts[0][key] for key in (*_SAME, "seed") if key in parts[0]}
    shards = [part.get("shard") for part in parts]
    writer = ResultWriter(output, header | {"shard": None, "merged_from": shards})
    try:
        reasons = _fill(writer, parts, files)
    except ResultError as error:
        writer.finish(f"the merge ended early: {error}")
        raise
    writer.result["started_at"] = min((part["started_at"] for part in parts if part.get("started_at")), default=None)
    for part in parts:
        for note in part.get("notes") or ():
            writer.note(note)
    writer.finish("; ".join([*_missing(shards), *reasons]))
    return writer.result


def _requests(path: Path, part: dict[str, Any]) -> Path:
    file = requests_of(path, part)
    if file is None:
        raise ResultError(f"{path}: has no requests file to compute its numbers from")
    return file


def _fill(writer: ResultWriter, parts: Sequence[dict[str, Any]], files: Sequence[Path]) -> list[str]:
    """Write all records and the levels that they make; return why a part is not whole."""
    accumulators: dict[LevelKey, Accumulator] = {}
    spans: dict[LevelKey, list[tuple[float, float]]] = {}
    reasons = []
    for part, file in zip(parts, files, strict=True):
        own: dict[LevelKey, tuple[float, float]] = {}
        damage = Damage()
        for record in read_records(file, damage):
            key = LevelKey.of(record)
            accumulators.setdefault(key, Accumulator(key)).add(record)
            own[key] = _wider(own.get(key), record)
            writer.record(record)
        for key, span in own.items():
            spans.setdefault(key, []).append(span)
        told = str(part.get("partial_reason") or "") if part.get("partial") else ""
        why = [told, "" if damage.words(file) in told else damage.words(file)]
        who = f"shard {part['shard']}: " if part.get("shard") else ""
        reasons += [who + reason for reason in why if reason]
        if part.get("partial") and not any(why):
            reasons.append(f"{who}the run did not end")
    writer.result["calibration"] = [entry for part in parts for entry in part.get("calibration") or ()]
    for key in sorted(accumulators, key=lambda key: (key.repeat, key)):
        writer.level(_merged_level(key, accumulators[key], parts, spans[key]))
    return reasons


def shard_files(paths: Sequence[Path], output: Path, wait_s: float = 0.0) -> list[Path]:
    """Return the shards' files: folders stand for the shards in them. Wait for those that have not ended.

    Raises ResultError when there is none, also after the wait.
    """
    deadline = time.monotonic() + wait_s
    while True:
        found = [file for path in paths for file in (_in_folder(path) if path.is_dir() else [path])]
        found = [file for file in found if file.resolve() != output.resolve() or file in paths]
        if time.monotonic() >= deadline or _all_ended([file for file in found if file.exists()]):
            break
        time.sleep(_LOOK_S)
    if not found:
        raise ResultError(f"{', '.join(map(str, paths))}: no result file (*.json) in it")
    return found


def _in_folder(folder: Path) -> list[Path]:
    """Return the results in a folder but for those that were merged before, which may lie beside their shards."""
    return [file for file in sorted(folder.glob("*.json")) if "merged_from" not in load_result(file)]


def _all_ended(paths: Sequence[Path]) -> bool:
    parts = [read_result(path) for path in paths]
    shards = [part.get("shard") for part in parts]
    return bool(parts) and all(shards) and not _missing(shards) and all(part.get("finished_at") for part in parts)


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


def _overlap(spans: list[tuple[float, float]], rate: float) -> tuple[float, str]:
    """Return for which share of a level all its shards ran, and why that is too little, or "".

    In an open loop of ``rate`` requests a second each shard waits for arrivals of its own, at both ends.
    """
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    wait = _ARRIVALS * len(spans) / rate if rate else 0.0
    starts, ends = [max(first, start - wait) for start, _ in spans], [min(last, end + wait) for _, end in spans]
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
    clients = [level.get("client") or {} for level in own]
    lag = LagHistogram()
    for client in clients:
        if client.get("lag_s"):
            try:
                lag.merge(LagHistogram.from_json(client["lag_s"]))
            except ValueError as error:
                raise ResultError(f"{key.scenario}: client.lag_s.by_edge_s: {error}") from None
    reasons = [client["limited"] for client in clients if client.get("limited")]
    overlap, why = _overlap(spans, key.rate)
    if why:
        reasons.append(why)
    summary["client"] = {
        "calibrated": bool(clients) and all(client.get("calibrated") for client in clients),
        "ttft_error_p50_s": _worst(clients, "ttft_error_p50_s"),
        "ttft_error_p99_s": _worst(clients, "ttft_error_p99_s"),
        "cpu_share": _worst(clients, "cpu_share"),
        "lag_s": lag.to_json(),
        "limited": "; ".join(dict.fromkeys(reasons)),
        "shards": len(spans),
        "shard_overlap": round(overlap, 4),
    }
    summary["client_limited"] = bool(reasons)
    summary["server"] = next((level["server"] for level in own if level.get("server")), None)
    return summary


def _worst(clients: Sequence[dict[str, Any]], name: str) -> float | None:
    return max((client[name] for client in clients if client.get(name) is not None), default=None)
