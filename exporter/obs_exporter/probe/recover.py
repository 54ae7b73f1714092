"""A result whose run was killed, with the numbers of the levels that it did not come to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from obs_exporter.probe.results import Damage, read_records, read_result
from obs_exporter.probe.summary import Accumulator, LevelKey

_UNKNOWN_CLIENT = {
    "calibrated": False, "ttft_error_p50_s": None, "ttft_error_p99_s": None, "cpu_share": None, "lag_s": None,
    "limited": "",
}  # fmt: skip


def key_of(level: dict[str, Any]) -> LevelKey:
    """Return the key of a level in a result."""
    return LevelKey(
        level["scenario"], level.get("concurrency") or 0, level.get("rate") or 0.0, level.get("repeat") or 0
    )


def read_whole(path: Path) -> dict[str, Any]:
    """Return a result; the levels that a partial one lacks are computed from the requests file beside it.

    The result stays marked partial, and a note names each such level; damaged lines are left out, and the reason counts
    and names them. Raises ResultError as ``read_result`` does, and when no line of the requests file can be read.
    """
    result = read_result(path)
    requests = requests_of(path, result)
    if not result.get("partial") or requests is None or not requests.exists():
        return result
    known = {key_of(level) for level in result["levels"]}
    found: dict[LevelKey, Accumulator] = {}
    damage = Damage()
    for record in read_records(requests, damage):
        key = LevelKey.of(record)
        if key not in known:
            found.setdefault(key, Accumulator(key)).add(record)
    notes = list(result.get("notes") or ())
    levels = list(result["levels"])
    for key in sorted(found, key=lambda key: (key.repeat, key)):
        summary = found[key].summary()
        client = _client(result, key)
        levels.append(summary | {"client": client, "client_limited": bool(client["limited"]), "server": None})
        load = f"c={key.concurrency}" if key.concurrency else f"{key.rate:g}/s"
        notes.append(
            f"{key.scenario} {load}, repeat {key.repeat + 1}: not ended:"
            f" computed from the {found[key].finished} requests that had;"
            " the client's CPU and lag, and the server's side, are not known"
        )
    reasons = [reason for reason in (result.get("partial_reason"), damage.words(requests)) if reason]
    return result | {"levels": levels, "notes": notes, "partial_reason": "; ".join(reasons)}


def requests_of(path: Path, result: dict[str, Any]) -> Path | None:
    """Return where the requests of a result are, or None where it has none (numbers that others published)."""
    name = result.get("requests_file")
    return path.with_name(name) if name else None


def _client(result: dict[str, Any], key: LevelKey) -> dict[str, Any]:
    """Return what is known of the client: its calibration."""
    for entry in result.get("calibration") or ():
        if (entry.get("concurrency") or 0, entry.get("rate") or 0.0) == (key.concurrency, key.rate):
            errors = {name: entry.get(name) for name in ("ttft_error_p50_s", "ttft_error_p99_s")}
            return _UNKNOWN_CLIENT | errors | {"calibrated": True, "limited": entry.get("reason") or ""}
    return dict(_UNKNOWN_CLIENT)
