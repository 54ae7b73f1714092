"""Follow log files: globs, rotation, truncation, partial lines, rubbish, and files too large to read whole.

Only bytes and times are handled here; what a line means is in ``stacks.log_lines``. A file that is seen for the first
time is read from its head (the engine's start-up lines) and from its end, never whole.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from obs_exporter.stacks.log_lines import stamp

HEAD = 1024 * 1024
"""Bytes read from the beginning of a file that is new to us: start-up lines stand there."""
WINDOW = 4 * 1024 * 1024
"""Bytes read from the end of a file that is new to us, or at most in one poll when it grows faster than we read."""
LONGEST_LINE = 64 * 1024
"""A longer line is no log line of an engine: it is passed over."""
MOST_FILES = 512
_LEAP_YEAR = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """One whole line, its file, and when it was written on the caller's clock, in seconds."""

    file: str
    text: str
    time: float


@dataclass(frozen=True, slots=True)
class LogState:
    """What became of the files of one poll.

    ``files`` are those that match now and can be read; ``gone`` were followed before and match no more. ``problems``
    says of every glob or file why it cannot be read.
    """

    files: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def behind(newest: float | None, found: float | None) -> float:
    """Return how many seconds a line is older than the newest of its file; stamps are without a year.

    A line without a stamp counts as written with the newest.
    """
    seconds = newest - found if newest is not None and found is not None else 0.0
    return seconds if seconds >= 0 else seconds + _LEAP_YEAR


class Splitter:
    """Cuts a stream of bytes into lines, however it arrives in pieces. A line longer than the limit is passed over."""

    def __init__(self, *, inside: bool = False) -> None:
        """Begin; ``inside`` says that the stream starts in the middle of a line, which is passed over."""
        self._rest = b""
        self._skipping = inside

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that these bytes complete."""
        pieces = (self._rest + data).split(b"\n")
        self._rest = pieces.pop()
        for piece in pieces:
            if self._skipping:
                self._skipping = False
            elif len(piece) <= LONGEST_LINE:
                yield piece.rstrip(b"\r").decode("utf-8", "replace")
        if len(self._rest) > LONGEST_LINE:
            self._rest, self._skipping = b"", True


@dataclass(slots=True)
class _Followed:
    """One open file and how far it was read."""

    handle: BinaryIO
    identity: tuple[int, int]
    position: int
    splitter: Splitter
    stamp: float | None = None
    lines: list[tuple[str, float | None]] = field(default_factory=list)

    def take(self, count: int) -> None:
        """Read up to ``count`` bytes and keep the lines with their stamps; a line without one has that before it."""
        self.handle.seek(self.position)
        data = self.handle.read(max(0, count))
        self.position += len(data)
        for text in self.splitter.feed(data):
            found = stamp(text)
            self.stamp = found if found is not None else self.stamp
            self.lines.append((text, self.stamp))


class LogTail:
    """Follows all files that match some globs. Not for use by several threads at once."""

    def __init__(self, globs: Sequence[str]) -> None:
        """Prepare; nothing is opened yet."""
        self.globs = tuple(globs)
        self._followed: dict[str, _Followed] = {}
        self._seen: set[str] = set()
        self._polled: float | None = None

    def poll(self, now: float, wall: float | None) -> tuple[list[LogLine], LogState]:
        """Return the lines since the last poll, oldest first within each file, and the state of the files.

        ``now`` is the caller's clock, on which lines get their times; ``wall`` is the clock of the file system, by
        which the age of what is already there is reckoned. With ``wall`` None the newest line counts as written now:
        for logs that are judged later. Nothing is raised: what cannot be read is in the state.
        """
        lines: list[LogLine] = []
        problems: list[str] = []
        names = self._names(problems)
        readable = []
        for name in names:
            try:
                lines.extend(self._read(name, now, wall))
            except OSError as error:
                problems.append(f"{name}: {error.strerror or error}")
                self._forget(name)
            else:
                readable.append(name)
        for name in [name for name in self._followed if name not in names]:
            self._forget(name)
        self._seen.update(readable)
        self._polled = now
        return lines, LogState(tuple(readable), tuple(sorted(self._seen - set(readable))), tuple(problems))

    def close(self) -> None:
        """Close all files."""
        for name in list(self._followed):
            self._forget(name)

    def _names(self, problems: list[str]) -> list[str]:
        names: set[str] = set()
        for pattern in self.globs:
            found = glob.glob(pattern, recursive=True)
            if not found:
                problems.append(f"{pattern}: no such file")
            names.update(found)
        if len(names) > MOST_FILES:
            problems.append(f"{len(names)} files match; the last {MOST_FILES} by name are followed")
        return sorted(names)[-MOST_FILES:]

    def _read(self, name: str, now: float, wall: float | None) -> list[LogLine]:
        """Read what is new in one file: the rest of a rotated one first, then that which now bears the name."""
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("is no regular file")
        identity = (status.st_dev, status.st_ino)
        followed = self._followed.get(name)
        lines: list[LogLine] = []
        fresh = followed is None
        if followed is not None and (followed.identity != identity or status.st_size < followed.position):
            if followed.identity != identity:
                followed.take(WINDOW)
                lines = self._dated(name, followed, now, wall, fresh=False)
            self._forget(name)
            followed = None
        if followed is None:
            followed = self._followed[name] = _opened(name, status)
        if status.st_size - followed.position > WINDOW:
            followed.position = status.st_size - WINDOW
            followed.splitter = Splitter(inside=True)
        followed.take(status.st_size - followed.position)
        return lines + self._dated(name, followed, now, wall, fresh=fresh)

    def _dated(self, name: str, followed: _Followed, now: float, wall: float | None, *, fresh: bool) -> list[LogLine]:
        """Give the collected lines their times: the file's own time is that of its last line.

        What was written since the last poll is no older than that poll, whatever the file system's clock says.
        """
        idle = max(0.0, wall - os.fstat(followed.handle.fileno()).st_mtime) if wall is not None else 0.0
        limit = float("inf") if fresh or self._polled is None else max(0.0, now - self._polled)
        dated = []
        for text, found in followed.lines:
            dated.append(LogLine(name, text, now - min(idle + behind(followed.stamp, found), limit)))
        followed.lines.clear()
        return dated

    def _forget(self, name: str) -> None:
        followed = self._followed.pop(name, None)
        if followed is not None:
            followed.handle.close()


def _opened(name: str, status: os.stat_result) -> _Followed:
    """Open a file; of a large one read the head, then stand at the beginning of its last part."""
    handle = open(name, "rb")  # noqa: SIM115 - kept open, so that a rotated file can be read to its end
    followed = _Followed(handle, (status.st_dev, status.st_ino), 0, Splitter())
    if status.st_size > HEAD + WINDOW:
        followed.take(HEAD)
        followed.position = status.st_size - WINDOW
        followed.splitter = Splitter(inside=True)
    return followed
