"""One file that is followed: how far it was read, and whether what is there now was read before.

A file is known again by bytes: those at its beginning, and those before the place up to which it was read. What cannot
go on, since the file was rewritten, is read anew, and then some of its lines may have been read before. So the last
lines of each file are remembered, and what was read before, or may have been, says so (``Seen``).
"""

from __future__ import annotations

import os
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO

from obs_exporter.sources.splitting import Splitter
from obs_exporter.stacks.stamps import Stamp, stamp

HEAD = 1024 * 1024
"""Bytes read from the beginning of a file that is new to us: start-up lines stand there."""
WINDOW = 4 * 1024 * 1024
"""Bytes read from the end of a file that is new to us, or at most in one poll when it grows faster than we read."""
EDGE = 1024
"""Bytes remembered from the beginning of a file and from before the place where we stand, to know it again."""
REMEMBERED = 1024
"""The last lines of a file that are known again."""
_IN_A_ROW = 8
"""So many of a file's last lines in a row show the place where they stand in it."""

Memory = tuple[bytes, bytes, int]
"""A head, a tail, and the position behind the tail."""


class Seen(Enum):
    """Whether a line was read before: it is new, it was, or it stands before one that was and is too old to tell."""

    NEW = "new"
    BEFORE = "before"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Followed:
    """One open file, the name that its lines get, and how far it was read.

    ``head`` and ``tail`` are bytes at its beginning and before ``position``: they are compared before it is read on.
    ``before`` is what they and the position were before the file was last replaced. ``recent`` are the last lines.
    ``forgotten``: a file of this name was read once, and what was read of it is not known any more.
    """

    name: str
    handle: BinaryIO
    position: int = 0
    head: bytes = b""
    tail: bytes = b""
    splitter: Splitter = field(default_factory=Splitter)
    stamp: Stamp | None = None
    lines: list[tuple[str, Stamp | None, Seen]] = field(default_factory=list)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    before: Memory = (b"", b"", 0)
    forgotten: bool = False
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
        old, first = () if self.position else tuple(self.recent), len(self.lines)
        if not self.position and status.st_size > HEAD + WINDOW:
            self._take(HEAD)
        if status.st_size - self.position > WINDOW:
            self.position, self.tail = status.st_size - WINDOW, b""
            self.splitter, self.stamp = Splitter(inside=True), None
        self._take(status.st_size - self.position)
        if old:
            self._mark(first, old)
        elif self.forgotten:
            self.lines[first:] = [(text, found, Seen.UNKNOWN) for text, found, _ in self.lines[first:]]
        self.forgotten = False
        return whole

    def goes_on_in(self, handle: BinaryIO) -> bool:
        """Whether another file has all that we read: our head, and our tail right before our place."""
        return (
            bool(self.head) and _has(handle, self.head, 0) and _has(handle, self.tail, self.position - len(self.tail))
        )

    def is_told_by_content(self) -> bool:
        """Whether our head and tail are enough to know the file under any name: long, and with a time in them."""
        return len(self.head) == len(self.tail) == EDGE and self.stamp is not None

    def let_go(self) -> None:
        """Close the file, and remember how far it was read."""
        self.handle.close()
        self.state = None

    def _mark(self, first: int, old: tuple[int, ...]) -> None:
        """Say of the lines from ``first`` on which were read before, by what is remembered of the file's last lines.

        What stands before the last line that was read before and is not known was edited, or is forgotten by now.
        """
        now = [_digest(text, stamp(text) is not None) for text, _, _ in self.lines[first:]]
        known = frozenset(old)
        for at in range(_read_before(old, now)):
            text, found, _ = self.lines[first + at]
            self.lines[first + at] = (text, found, Seen.BEFORE if now[at] in known else Seen.UNKNOWN)

    def is_copied_in(self, name: str, handle: BinaryIO) -> Memory | None:
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
            self.lines.append((text, self.stamp, Seen.NEW))
            self.recent.append(_digest(text, found is not None))


def _digest(text: str, stamped: bool) -> int:
    """Return a number that stands for a line; odd where the line has a time of its own."""
    return hash(text) << 1 | stamped


def _read_before(old: tuple[int, ...], now: list[int]) -> int:
    """Return how many of the lines that a file has now end with the last one that was read before; 0 where none was.

    The last lines of before, in a row, show it. Where they are gone, the last line with a time of its own does that is
    known. Without times, lines that are there but once do, where at least half of what stands there is known: a new log
    has some lines of the old one, too.
    """
    part = old[-_IN_A_ROW:]
    if len(part) == _IN_A_ROW:
        for end in range(len(now), len(part) - 1, -1):
            if now[end - 1] == part[-1] and tuple(now[end - len(part) : end]) == part:
                return end
    before, here = Counter(old), Counter(now)
    count, stamped, alone = 0, 0, 0
    for at, one in enumerate(now, 1):
        if one not in before:
            continue
        count += 1
        if one & 1:
            stamped = at
        if before[one] == here[one] == 1 and 2 * count >= at:
            alone = at
    return len(now) if count == len(now) else max(stamped, alone)


def _has(handle: BinaryIO, data: bytes, offset: int) -> bool:
    return os.pread(handle.fileno(), len(data), offset) == data
