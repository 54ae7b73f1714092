"""Follow log files: globs, rotation, truncation, partial lines, rubbish, and files too large to read whole.

Only bytes and times are handled here; what a line means is in ``stacks.log_lines``. A file that is seen for the first
time is read from its head (the engine's start-up lines) and from its end, never whole. A file is known by its inode, so
that it is read once under however many names; what rotation renames or copies goes on where it was.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from obs_exporter.sources.splitting import Splitter
from obs_exporter.stacks.stamps import Stamp, least_between, stamp, wall_stamp

HEAD = 1024 * 1024
"""Bytes read from the beginning of a file that is new to us: start-up lines stand there."""
WINDOW = 4 * 1024 * 1024
"""Bytes read from the end of a file that is new to us, or at most in one poll when it grows faster than we read."""
EDGE = 1024
"""Bytes remembered from the beginning of a file and from before the place where we stand, to know it again."""
MOST_FILES = 512

_Identity = tuple[int, int]
_Memory = tuple[bytes, bytes, int]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One whole line, its file, and when it was written on the caller's clock, in seconds.

    ``file`` is the name under which the file was first seen, also after a rotation.
    """

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


def behind(newest: Stamp | None, found: Stamp | None) -> float:
    """Return how many seconds a line is older than the newest of its file, at least.

    A line without any stamp counts as written with the newest.
    """
    return least_between(found, newest, one_clock=True) if newest is not None and found is not None else 0.0


def least_age(found: Stamp | None, wall: Stamp | None) -> float:
    """Return how old a line is at least by its own stamp; 0 where it has none, or no wall clock is given.

    What this cannot tell: a log without zones that was copied looks young in the seconds in which the minutes of its
    stamps match those of the wall clock, in each quarter of an hour.
    """
    return least_between(found, wall) if found is not None and wall is not None else 0.0


@dataclass(slots=True)
class _Followed:
    """One open file, the name that its lines get, and how far it was read.

    ``head`` and ``tail`` are bytes at its beginning and before ``position``: they are compared before it is read on.
    ``before`` is what they and the position were before the file was last replaced.
    """

    name: str
    handle: BinaryIO
    position: int = 0
    head: bytes = b""
    tail: bytes = b""
    splitter: Splitter = field(default_factory=Splitter)
    stamp: Stamp | None = None
    lines: list[tuple[str, Stamp | None]] = field(default_factory=list)
    before: _Memory = (b"", b"", 0)
    state: tuple[int, int, int] | None = None

    def read(self) -> bool:
        """Read what is new, and return whether that was in the file already when it was opened, or replaced."""
        status = os.fstat(self.handle.fileno())
        before, self.state = self.state, (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self.state == before:
            return False
        whole = before is None
        if self.position and not self._goes_on(status.st_size):
            whole = True
            self.before = (self.head, self.tail, self.position)
            self.position, self.head, self.tail, self.splitter, self.stamp = 0, b"", b"", Splitter(), None
        if not self.position and status.st_size > HEAD + WINDOW:
            self._take(HEAD)
        if status.st_size - self.position > WINDOW:
            self.position, self.tail = status.st_size - WINDOW, b""
            self.splitter, self.stamp = Splitter(inside=True), None
        self._take(status.st_size - self.position)
        return whole

    def is_copied_in(self, name: str, handle: BinaryIO) -> _Memory | None:
        """Return what to go on with in a rotation's copy: its name begins like ours, and it with all we read; or None.

        The names matter, since two workers may begin with the same lines.
        """
        if not name.startswith((self.name, os.path.splitext(self.name)[0] + ".")):
            return None
        for head, tail, position in ((self.head, self.tail, self.position), self.before):
            if head and _has(handle, head, 0) and _has(handle, tail, position - len(tail)):
                return head, tail, position
        return None

    def _goes_on(self, size: int) -> bool:
        """Whether the file still has what we read, right before the place where we stand and at its beginning."""
        tail = _has(self.handle, self.tail, self.position - len(self.tail))
        return size >= self.position and tail and _has(self.handle, self.head, 0)

    def _take(self, count: int) -> None:
        """Read up to ``count`` bytes and keep the lines with their stamps; a line without one has that before it."""
        self.handle.seek(self.position)
        data = self.handle.read(max(0, count))
        self.head = self.head if self.position else data[:EDGE]
        self.tail = (self.tail + data[-EDGE:])[-EDGE:]
        self.position += len(data)
        for text in self.splitter.feed(data):
            found = stamp(text)
            self.stamp = found if found is not None else self.stamp
            self.lines.append((text, self.stamp))


def _has(handle: BinaryIO, data: bytes, offset: int) -> bool:
    return os.pread(handle.fileno(), len(data), offset) == data


class LogTail:
    """Follows all files that match some globs. Not for use by several threads at once."""

    def __init__(self, globs: Sequence[str]) -> None:
        """Prepare; nothing is opened yet."""
        self.globs = tuple(globs)
        self._followed: dict[_Identity, _Followed] = {}
        self._names: dict[str, _Identity] = {}
        self._seen: set[str] = set()
        self._polled: float | None = None

    def poll(self, now: float, wall: float | None) -> tuple[list[LogLine], LogState]:
        """Return the lines since the last poll, oldest first within each file, and the state of the files.

        ``now`` is the caller's clock, on which lines get their times; ``wall`` is the clock of the file system, by
        which the age of what is already there is reckoned. With ``wall`` None the newest line counts as written now:
        for logs that are judged later. Nothing is raised: what cannot be read is in the state.
        """
        problems: list[str] = []
        names = self._matching(problems)
        lines = self._rest_of_vanished(frozenset(names.values()), now, wall)
        order = sorted(names, key=lambda name: (names[name] not in self._followed, name))
        readable: dict[str, _Identity] = {}
        for name in order:
            try:
                lines.extend(self._read(name, names[name], now, wall))
            except OSError as error:
                problems.append(f"{name}: {error.strerror or error}")
                self._forget(names[name])
            else:
                readable[name] = names[name]
        self._names, self._polled = readable, now
        alive = {followed.name for followed in self._followed.values()}
        gone = sorted(self._seen - alive - readable.keys())
        return lines, LogState(tuple(sorted(readable)), tuple(gone), tuple(problems))

    def close(self) -> None:
        """Close all files."""
        for identity in list(self._followed):
            self._forget(identity)

    def _matching(self, problems: list[str]) -> dict[str, _Identity]:
        """Return the files that match, by name."""
        names: set[str] = set()
        for pattern in self.globs:
            found = glob.glob(pattern, recursive=True)
            if not found:
                problems.append(f"{pattern}: no such file")
            names.update(found)
        if len(names) > MOST_FILES:
            problems.append(f"{len(names)} files match; the last {MOST_FILES} by name are followed")
        identities: dict[str, _Identity] = {}
        for name in sorted(names)[-MOST_FILES:]:
            try:
                status = os.stat(name)
            except OSError as error:
                problems.append(f"{name}: {error.strerror or error}")
                continue
            if stat.S_ISREG(status.st_mode):
                identities[name] = (status.st_dev, status.st_ino)
            else:
                problems.append(f"{name}: is no regular file")
        return identities

    def _rest_of_vanished(self, there: frozenset[_Identity], now: float, wall: float | None) -> list[LogLine]:
        """Read to their ends the files that have no name any more that matches, and close them."""
        lines: list[LogLine] = []
        for identity in [identity for identity in self._followed if identity not in there]:
            followed = self._followed[identity]
            try:
                lines.extend(self._dated(followed, now, wall, whole=followed.read(), limit=self._since_last(now)))
            except OSError:  # its file system is gone as well: there is no more to read
                lines.extend(self._dated(followed, now, None, whole=False, limit=self._since_last(now)))
            self._forget(identity)
        return lines

    def _read(self, name: str, identity: _Identity, now: float, wall: float | None) -> list[LogLine]:
        """Read what is new in one file. What stands under a name that we followed is no older than the last poll, as
        far as its stamps do not tell otherwise."""
        known = self._followed.get(identity)
        limit = self._since_last(now) if known is not None or name in self._names else float("inf")
        followed = known or self._opened(name, identity)
        return self._dated(followed, now, wall, whole=followed.read(), limit=limit)

    def _opened(self, name: str, identity: _Identity) -> _Followed:
        """Open a file; a copy of one that we follow, which rotation left, goes on where that one stood."""
        handle = open(name, "rb")  # noqa: SIM115 - kept open, so that a rotated file can be read to its end
        status = os.fstat(handle.fileno())
        if (status.st_dev, status.st_ino) != identity:
            handle.close()
            raise OSError("is being rotated: it is read at the next look")
        followed = self._followed[identity] = _Followed(name, handle)
        for other in list(self._followed.values()):
            memory = other.is_copied_in(name, handle) if other is not followed else None
            if memory is not None:
                followed.name = other.name
                followed.head, followed.tail, followed.position = memory
                break
        self._seen.add(followed.name)
        return followed

    def _since_last(self, now: float) -> float:
        return float("inf") if self._polled is None else max(0.0, now - self._polled)

    def _dated(
        self, followed: _Followed, now: float, wall: float | None, *, whole: bool, limit: float
    ) -> list[LogLine]:
        """Give the collected lines their times: the file's own time is that of its last line.

        What was written since the last poll is no older than that poll, whatever the file system's clock says. What
        was in the file before is as old as its stamp says, if that is older: lines without a stamp may follow it, and
        a file that was copied is newer than its lines.
        """
        idle = max(0.0, wall - os.fstat(followed.handle.fileno()).st_mtime) if wall is not None else 0.0
        clock = wall_stamp(wall) if whole else None
        first = next((found for _, found in followed.lines if found is not None), None)
        ages: dict[Stamp | None, float] = {}
        dated = []
        for text, found in followed.lines:
            own = found or first
            if own not in ages:
                ages[own] = max(min(idle + behind(followed.stamp, own), limit), least_age(own, clock))
            dated.append(LogLine(followed.name, text, now - ages[own]))
        followed.lines.clear()
        return dated

    def _forget(self, identity: _Identity) -> None:
        followed = self._followed.pop(identity, None)
        if followed is not None:
            followed.handle.close()
