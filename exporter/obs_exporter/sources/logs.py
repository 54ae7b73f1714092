"""Follow log files: globs, rotation, truncation, partial lines, rubbish, and files too large to read whole.

Only bytes and times are handled here; what a line means is in ``stacks.log_lines``. A file that is seen for the first
time is read from its head (the engine's start-up lines) and from its end, never whole. A file is known by its inode, so
that it is read once under however many names; what rotation renames or copies goes on where it was. So does a file that
went away and came back: it is known again by its inode or its name, its beginning, and the bytes before our place.

What cannot go on, since the file was rewritten, is read anew, and what of it was read before says so (``following``).
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from obs_exporter.sources.following import Followed, Seen
from obs_exporter.stacks.stamps import Stamp, least_between, wall_stamp

MOST_FILES = 512
"""Files that are followed at once, and files that are gone and remembered."""

_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One whole line, its file, and when it was written on the caller's clock, in seconds.

    ``file`` is the name under which the file was first seen, also after a rotation.
    """

    file: str
    text: str
    time: float
    seen: Seen = Seen.NEW


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


class LogTail:
    """Follows all files that match some globs. Not for use by several threads at once."""

    def __init__(self, globs: Sequence[str]) -> None:
        """Prepare; nothing is opened yet."""
        self.globs = tuple(globs)
        self._followed: dict[_Identity, Followed] = {}
        self._gone: dict[_Identity, Followed] = {}
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

    def _opened(self, name: str, identity: _Identity) -> Followed:
        """Open a file; a copy of one that we follow, which rotation left, goes on where that one stood."""
        handle = open(name, "rb")  # noqa: SIM115 - kept open, so that a rotated file can be read to its end
        status = os.fstat(handle.fileno())
        if (status.st_dev, status.st_ino) != identity:
            handle.close()
            raise OSError("is being rotated: it is read at the next look")
        followed = self._followed[identity] = self._known_again(name, identity, handle) or self._new(name, handle)
        self._seen.add(followed.name)
        return followed

    def _known_again(self, name: str, identity: _Identity, handle: BinaryIO) -> Followed | None:
        """Return a file that was gone and is back, which goes on where it was; None where none does.

        The inode alone does not tell: file systems give it to another file. The name alone does not either.
        """
        for old in [identity, *reversed(self._gone)]:
            known = self._gone.get(old)
            if known is None or not known.goes_on_in(handle):
                continue
            if old == identity or known.name == name or known.is_told_by_content():
                del self._gone[old]
                known.handle = handle
                return known
        return None

    def _new(self, name: str, handle: BinaryIO) -> Followed:
        """Follow a file from its beginning; a copy of one that we follow, which rotation left, where that one stood.

        What stands under a name that we knew may be the old lines in a new file: those are remembered.
        """
        followed = Followed(name, handle)
        for other in list(self._followed.values()):
            memory = other.is_copied_in(name, handle)
            if memory is not None:
                followed.name = other.name
                followed.head, followed.tail, followed.position = memory
                followed.recent.extend(other.recent)
                return followed
        same = [other for other in (*self._gone.values(), *self._followed.values()) if other.name == name]
        for other in same:
            followed.recent.extend(other.recent)
        followed.forgotten = name in self._seen and not same
        return followed

    def _since_last(self, now: float) -> float:
        return float("inf") if self._polled is None else max(0.0, now - self._polled)

    def _dated(self, followed: Followed, now: float, wall: float | None, *, whole: bool, limit: float) -> list[LogLine]:
        """Give the collected lines their times: the file's own time is that of its last line.

        What was written since the last poll is no older than that poll, whatever the file system's clock says. What
        was in the file before is as old as its stamp says, if that is older: lines without a stamp may follow it, and
        a file that was copied is newer than its lines.
        """
        idle = max(0.0, wall - os.fstat(followed.handle.fileno()).st_mtime) if wall is not None else 0.0
        clock = wall_stamp(wall) if whole else None
        first = next((found for _, found, _ in followed.lines if found is not None), None)
        ages: dict[Stamp | None, float] = {}
        dated = []
        for text, found, seen in followed.lines:
            own = found or first
            if own not in ages:
                ages[own] = max(min(idle + behind(followed.stamp, own), limit), least_age(own, clock))
            dated.append(LogLine(followed.name, text, now - ages[own], seen))
        followed.lines.clear()
        return dated

    def _forget(self, identity: _Identity) -> None:
        """Close a file. It may come back, so how far it was read is kept, for as many files as are followed at most."""
        followed = self._followed.pop(identity, None)
        if followed is None:
            return
        followed.let_go()
        self._gone.pop(identity, None)
        self._gone[identity] = followed
        while len(self._gone) > MOST_FILES:
            del self._gone[next(iter(self._gone))]
