"""Result files from numbers that others published: a CSV row a level. Pure but for reading the file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obs_exporter._version import __version__
from obs_exporter.probe.results import SCHEMA_VERSION, ResultError
from obs_exporter.probe.shape import LEVEL, problems, tree

_STATS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
_TARGET_FIELDS = (
    "name", "model", "weights", "stack", "stack_version", "engine_version", "engine_generation", "gpu",
)  # fmt: skip
_LEVEL = tree(LEVEL)
_LEVEL_NUMBERS = ("concurrency", "rate", "repeat", "requests", "output_tokens_per_s", "goodput", "goodput_percent")

FIELDS: dict[str, str] = {
    **dict.fromkeys(_TARGET_FIELDS, "the target"),
    "scenario": "the level",
    **dict.fromkeys(_LEVEL_NUMBERS, "the level"),
    **{f"{stat}_{part}": "the level" for stat in _STATS for part in ("p50", "p90", "p95", "p99", "mean")},
}
"""What a column may be mapped to: ttft_s_p95 is the level's TTFT p95 in seconds, goodput_percent is 0 to 100."""


def import_csv(
    path: Path,
    columns: Mapping[str, str],
    where: Mapping[str, str],
    fixed: Mapping[str, str],
    settings: Mapping[str, str],
) -> dict[str, Any]:
    """Return a result made of a CSV's rows.

    ``columns`` maps a field of FIELDS to a column, ``where`` keeps the rows whose columns have these values, ``fixed``
    gives fields a value for all rows. Raises ResultError naming the file, row and column.
    """
    for field in (*columns, *fixed):
        if field not in FIELDS:
            raise ResultError(f"unknown field {field!r}: use one of {', '.join(sorted(FIELDS))}")
    rows = _rows(path, {*columns.values(), *where})
    kept = [(number, row) for number, row in rows if all(row[name] == value for name, value in where.items())]
    if not kept:
        raise ResultError(f"{path}: no row has {', '.join(f'{k}={v}' for k, v in where.items())}")
    target: dict[str, Any] = dict.fromkeys(_TARGET_FIELDS) | {"settings": dict(sorted(settings.items()))}
    levels = []
    for number, row in kept:
        values = dict(fixed) | {field: row[name] for field, name in columns.items()}
        for field in _TARGET_FIELDS:
            value = values.pop(field, None) or None
            if value is not None and target[field] not in (None, value):
                raise ResultError(
                    f"{path}:{number}: {field} is {value!r} here and {target[field]!r} above: narrow the rows"
                )
            target[field] = value or target[field]
        levels.append(_level(path, number, values))
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "obs-probe import", "version": __version__},
        "partial": False,
        "partial_reason": "",
        "target": target,
        "slo": {"ttft_s": 0.5, "e2e_s": 10.0, "tpot_s": None},
        "levels": levels,
        "notes": [f"imported from {path.name}: measured by others, not by this probe"],
        "requests_file": None,
        "started_at": None,
    }


def _rows(path: Path, needed: set[str]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = sorted(needed - set(reader.fieldnames or ()))
            if missing:
                raise ResultError(
                    f"{path}: no column {', '.join(missing)}: it has {', '.join(reader.fieldnames or ())}"
                )
            return [
                (reader.line_num, {k: (v or "").strip() for k, v in row.items() if isinstance(k, str)})
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultError(f"{path}: cannot be read as CSV: {error}") from None


def _level(path: Path, number: int, values: dict[str, str]) -> dict[str, Any]:
    level: dict[str, Any] = {
        "scenario": values.pop("scenario", "") or "short",
        "concurrency": None, "rate": None, "repeat": 0, "requests": None, "errors": {}, "duration_s": None,
        "output_tokens": None, "output_tokens_per_s": None, "goodput": None, **{stat: {} for stat in _STATS},
    }  # fmt: skip
    for field, text in values.items():
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            raise ResultError(f"{path}:{number}: {field} is not a number: {text!r}") from None
        if field == "goodput_percent":
            level["goodput"] = value / 100
        elif field in ("concurrency", "requests", "repeat") and value.is_integer():
            level[field] = int(value)
        elif field in level:
            level[field] = value
        else:
            stat, _, part = field.rpartition("_")
            level[stat][part] = value
    problem = next(problems(level, _LEVEL), None)
    if problem is not None:
        raise ResultError(f"{path}:{number}: {problem}")
    if (level["concurrency"] is None) == (level["rate"] is None):
        what = "both" if level["rate"] else "neither"
        raise ResultError(
            f"{path}:{number}: {what} concurrency {'and' if level['rate'] else 'nor'} rate: map one of them"
        )
    return level
