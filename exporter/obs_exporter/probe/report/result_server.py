"""The server's own side in one result's report, with the reason for what is not there. Pure."""

from __future__ import annotations

from typing import Any

from obs_exporter.probe.report.document import Table
from obs_exporter.probe.report.levels import Load, load_name, median_of


def server_table(loads: dict[Load, list[dict[str, Any]]]) -> Table:
    """Return the table; without rows where no level has a server side."""
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

        mean = median_of(levels, "ttft_s", "mean")
        rows.append((
            load_name(load), "-" if mean is None else f"{mean:.4f}",
            cell(".4f", "signals", "ttft", "value"),
            cell(".4f", "lost_s", "value"), cell(".4f", "signals", "queue_wait", "value"),
            cell(".1%", "signals", "kv_cache_usage", "value"), cell("g", "signals", "preemptions", "value"),
        ))  # fmt: skip
    return Table("The server's own side (seconds; medians over runs)", columns, tuple(rows))


def server_remarks(loads: dict[Load, list[dict[str, Any]]]) -> list[str]:
    """Say why something is not seen, and what spoils what is; a reason that several loads share is told once."""
    found: dict[str, list[str]] = {}
    for load, levels in loads.items():
        sides = [level["server"] for level in levels if level.get("server")]
        for text in dict.fromkeys(text for side in sides for text in _reasons(side)):
            found.setdefault(text, []).append(load_name(load))
    return [f"the server's side, {', '.join(names)}: {text}" for text, names in found.items()]


_SHOWN = (
    ("ttft", "engine TTFT"), ("queue_wait", "engine queue wait"), ("kv_cache_usage", "KV cache usage"),
    ("preemptions", "preemptions"),
)  # fmt: skip


def _reasons(side: dict[str, Any]) -> list[str]:
    found = []
    failed, read = side.get("failed_samples") or 0, side.get("samples") or 0
    if failed:
        found.append(f"{failed} of {failed + read} looks at the page failed: {side.get('error') or 'no reason known'}")
    signals, lost = side.get("signals") or {}, side.get("lost_s") or {}
    for name, words in _SHOWN:
        signal = signals.get(name) or {}
        if signal.get("value") is None and signal.get("reason"):
            found.append(f"{words} not seen: {signal['reason']}")
    if lost.get("value") is None and lost.get("reason"):
        found.append(f"time lost between not told: {lost['reason']}")
    if lost.get("warning"):
        found.append(str(lost["warning"]))
    return found
