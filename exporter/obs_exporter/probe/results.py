"""Result files: written while a run goes on, so that a stop or a crash loses no finished request; and read again."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obs_exporter._version import __version__
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.shape import RECORD, RESULT, problems, tree

SCHEMA_VERSION = 1
_NEEDED = ("schema_version", "target", "slo", "levels")
_RESULT = tree(RESULT)
_RECORD = tree(RECORD)
_REASON = 300
"""The longest reason, in characters, that is put into a result when nothing else can be written any more."""
_ROOM = 12 * _REASON + 100
"""Blanks in a partial result, enough for any such reason: JSON writes up to 12 characters for one."""
_NAMED = 5
"""So many damaged lines are named; the others are only counted."""


class ResultError(ValueError):
    """A result file that cannot be written or read; the message names the file and what to do."""


def requests_path(result: Path) -> Path:
    """Return where the raw requests of a result are kept: x.requests.jsonl beside x.json."""
    return result.with_name(f"{result.name.removesuffix('.json')}.requests.jsonl")


class ResultWriter:
    """Writes one run's two files.

    Every record goes to the requests file at once; the result file is replaced as a whole after each level, marked
    ``partial`` until the run has ended. Nothing is overwritten: what is there already has to be moved first
    (``aside.make_room``). Raises ResultError when a file is there or cannot be written.
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
            if path.exists():
                raise FileExistsError(0, "it exists already", str(path))
            self._file = self._requests.open("xb", buffering=0)
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another run then leaves these files alone
        except OSError as error:
            raise ResultError(f"{error.filename or path}: cannot be written: {error.strerror}") from None
        self._size = 0
        try:
            self.write()
        except ResultError:
            self._file.close()
            self._requests.unlink(missing_ok=True)
            raise

    def record(self, record: Record) -> None:
        """Write one request's line and hand it to the kernel. Raises ResultError; the lines before it stay whole."""
        line = json.dumps(record.to_json(), separators=(",", ":")).encode() + b"\n"
        try:
            written = self._file.write(line)
            while written < len(line):  # a file that grows into its limit takes a part, and fails the next time
                written += self._file.write(line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.seek(self._file.truncate(self._size))
            raise ResultError(f"{self._requests}: cannot be written: {error.strerror}") from None
        self._size += len(line)

    def note(self, text: str) -> None:
        """Add a remark, once."""
        if text not in self.result["notes"]:
            self.result["notes"].append(text)

    def level(self, summary: dict[str, Any]) -> None:
        """Add a level that has ended and write the result."""
        self.result["levels"].append(summary)
        self.write()

    def finish(self, partial_reason: str = "") -> None:
        """End both files; with a reason the result stays marked partial.

        Raises ResultError where the result cannot be written: the one written before then stays, with the reason.
        """
        ending = {"partial": bool(partial_reason), "partial_reason": partial_reason}
        self.result |= ending | {"finished_at": round(time.time(), 3)}
        try:
            self.write()
        except ResultError as error:
            self._mark(partial_reason or f"it could not be written: {error}")
            raise
        finally:
            self._file.close()

    def write(self) -> None:
        """Replace the result file; while it is partial with room for a reason at its end."""
        write_json(self._path, self.result, _ROOM if self.result["partial"] else 0)

    def _mark(self, reason: str) -> None:
        """Put the reason into the result that was written before, in its place: on a full disk no other file fits."""
        with contextlib.suppress(OSError, ValueError), self._path.open("r+b") as file:
            old = file.read()
            ending = {
                "partial": True,
                "partial_reason": reason[:_REASON],
                "finished_at": self.result["finished_at"],
            }
            new = json.dumps(json.loads(old) | ending, indent=1).encode() + b"\n"
            if len(new) <= len(old):
                file.seek(0)
                file.write(new.ljust(len(old) - 1) + b"\n" if len(new) < len(old) else new)


def write_json(path: Path, data: dict[str, Any], room: int = 0) -> None:
    """Replace a file by ``data`` in one step, so that a reader sees the old or the new one. Raises ResultError.

    JSON has no infinity: where a number is none, null is written. ``room`` is a number of blanks to put at the end.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        text = json.dumps(_strict(data), indent=1, allow_nan=False)
        new.write_text(f"{text}{' ' * room}\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise ResultError(f"{path}: cannot be written: {error.strerror}") from None


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_result(path: Path) -> dict[str, Any]:
    """Return what a result file holds, whatever its values are. Raises ResultError where it is no result at all."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{path}: not a result of obs-probe: {error}") from None
    missing = [key for key in _NEEDED if not isinstance(data, dict) or key not in data]
    if missing:
        raise ResultError(f"{path}: not a result of obs-probe: {', '.join(missing)} missing")
    return dict(data)


def read_result(path: Path) -> dict[str, Any]:
    """Return a result file's content, every field as ``shape.RESULT`` wants it.

    Raises ResultError saying what is wrong with it: the file, the path in it, and what was expected there.
    """
    data = load_result(path)
    if data["schema_version"] != SCHEMA_VERSION:
        raise ResultError(f"{path}: result version {data['schema_version']!r}; this obs-probe reads {SCHEMA_VERSION}")
    problem = next(itertools.chain(problems(data, _RESULT), _loads_missing(data)), None)
    if problem is not None:
        raise ResultError(f"{path}: {problem}")
    return data


def _loads_missing(data: dict[str, Any]) -> Iterator[str]:
    """Yield the levels that are neither a closed nor an open loop, or both."""
    for number, level in enumerate(data["levels"]):
        if (level.get("concurrency") is None) == (level.get("rate") is None):
            yield f"levels[{number}]: expected either a concurrency or a rate"


@dataclass(slots=True)
class Damage:
    """The lines of a requests file that could not be read: how many, and the numbers of the first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """Count a damaged line."""
        self.count += 1
        if len(self.lines) < _NAMED:
            self.lines.append(number)

    def words(self, path: Path) -> str:
        """Return what is lost, in words; "" when nothing is."""
        if not self.count:
            return ""
        named = ", ".join(map(str, self.lines)) + (", ..." if self.count > len(self.lines) else "")
        return f"{path.name}: {self.count} damaged line{'s' * (self.count > 1)} left out (line {named})"


def read_records(path: Path, damage: Damage | None = None) -> Iterator[Record]:
    """Yield the records of a requests file.

    A last line that a crash has cut is passed over; other lines that are no record are passed over too and counted in
    ``damage``. Raises ResultError for a file that cannot be read, or that has damaged lines and no other.
    """
    seen = damage if damage is not None else Damage()
    readable = False
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record = _record(line)
                if record is not None:
                    readable = True
                    yield record
                elif line.endswith(b"\n"):  # else the process died inside this line
                    seen.add(number)
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from None
    if seen.count and not readable:
        raise ResultError(f"{path}: none of its {seen.count} lines is a request")


def _record(line: bytes) -> Record | None:
    """Return a line's record; None when it is none, or cut."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or any(problems(data, _RECORD)):
        return None
    if (data.get("concurrency") is None) == (data.get("rate") is None):
        return None
    return Record.from_json(data)
