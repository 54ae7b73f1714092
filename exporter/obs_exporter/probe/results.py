"""Result files: written while a run goes on, so that a stop or a crash loses no finished request; and read again."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from obs_exporter._version import __version__
from obs_exporter.probe.outcome import Record

SCHEMA_VERSION = 1
_NEEDED = ("schema_version", "target", "slo", "levels")


class ResultError(ValueError):
    """A result file that cannot be written or read; the message names the file and what to do."""


def requests_path(result: Path) -> Path:
    """Return where the raw requests of a result are kept: x.requests.jsonl beside x.json."""
    return result.with_name(f"{result.stem}.requests.jsonl")


class ResultWriter:
    """Writes one run's two files.

    Every record goes to the requests file at once; the result file is replaced as a whole after each level, marked
    ``partial`` until the run has ended. Raises ResultError when a file cannot be written.
    """

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self._path = path
        self._requests = requests_path(path)
        self.result: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "obs-probe", "version": __version__},
            "partial": True,
            "partial_reason": "the run has not ended yet, or was killed",
            **header,
            "started_at": round(time.time(), 3),
            "finished_at": None,
            "calibration": [],
            "levels": [],
            "notes": [],
            "requests_file": self._requests.name,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = self._requests.open("w", encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{error.filename or path}: cannot be written: {error.strerror}") from None
        self.write()

    def record(self, record: Record) -> None:
        """Write one request's line and hand it to the kernel."""
        self._file.write(json.dumps(record.to_json(), separators=(",", ":")) + "\n")
        self._file.flush()

    def note(self, text: str) -> None:
        """Add a remark, once."""
        if text not in self.result["notes"]:
            self.result["notes"].append(text)

    def level(self, summary: dict[str, Any]) -> None:
        """Add a level that has ended and write the result."""
        self.result["levels"].append(summary)
        self.write()

    def finish(self, partial_reason: str = "") -> None:
        """End both files; with a reason the result stays marked partial."""
        self.result["partial"] = bool(partial_reason)
        self.result["partial_reason"] = partial_reason
        self.result["finished_at"] = round(time.time(), 3)
        self.write()
        self._file.close()

    def write(self) -> None:
        """Replace the result file."""
        write_json(self._path, self.result)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace a file by ``data`` in one step, so that a reader sees the old or the new one. Raises ResultError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise ResultError(f"{path}: cannot be written: {error.strerror}") from None


def read_result(path: Path) -> dict[str, Any]:
    """Return a result file's content. Raises ResultError saying what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ResultError(f"{path}: not a result of obs-probe: {error}") from None
    missing = [key for key in _NEEDED if not isinstance(data, dict) or key not in data]
    if missing:
        raise ResultError(f"{path}: not a result of obs-probe: {', '.join(missing)} missing")
    if data["schema_version"] != SCHEMA_VERSION:
        raise ResultError(f"{path}: result version {data['schema_version']!r}; this obs-probe reads {SCHEMA_VERSION}")
    _check_levels(path, data)
    return dict(data)


def _check_levels(path: Path, data: dict[str, Any]) -> None:
    levels = data["levels"]
    if not isinstance(levels, list) or not isinstance(data["target"], dict) or not isinstance(data["slo"], dict):
        raise ResultError(f"{path}: not a result of obs-probe: target, slo or levels has the wrong type")
    for number, level in enumerate(levels):
        if (
            not isinstance(level, dict)
            or "scenario" not in level
            or not any(_positive(level.get(name)) for name in ("concurrency", "rate"))
        ):
            raise ResultError(f"{path}: level {number} has no scenario, or neither concurrency nor rate above 0")


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a requests file; a last line cut by a crash is passed over. Raises ResultError."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return  # the process died inside this line
                try:
                    yield Record.from_json(json.loads(line))
                except (ValueError, TypeError) as error:
                    raise ResultError(f"{path}:{number}: not a request: {error}") from None
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
