"""One load over several processes or machines: who does what, and how they start each level together."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obs_exporter.probe.load import Level, Stop

_LOOK_S = 0.02


class ShardError(Exception):
    """Shards that did not meet; the message says who is missing and what to check."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Number ``index`` of ``count``, counted from 0."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read "i/n". Raises ValueError saying what is wrong."""
        left, slash, right = text.partition("/")
        if not slash or not left.isdecimal() or not right.isdecimal() or int(left) >= int(right):
            raise ValueError(f"{text!r} is not a shard: give it as i/n with i from 0 to n-1, for example 0/4")
        return cls(int(left), int(right))

    def slots(self, level: Level) -> int:
        """Return this shard's slots of a closed loop; 0 when there are fewer slots than shards and none is left."""
        total = level.concurrency or 0
        return total // self.count + (self.index < total % self.count)

    def indexes(self, level: Level) -> Iterator[int]:
        """Yield the numbers of this shard's requests: together the shards send each number once.

        In a closed loop a number belongs to a slot, and the slots to the shards in turn: each shard gets requests in
        proportion to its slots, so that all end together.
        """
        slots = level.concurrency or self.count
        if self.index >= slots:
            return iter(())
        numbers = range(level.requests) if level.requests else itertools.count()
        return (number for number in numbers if number % slots % self.count == self.index)


class Rendezvous:
    """A meeting point in a directory that all shards see: each leaves a file, and goes on when all files are there."""

    def __init__(self, directory: Path, run_id: str, shard: Shard, timeout_s: float = 600.0) -> None:
        self._directory = directory / f"rendezvous-{run_id}"
        self._shard = shard
        self._timeout_s = timeout_s

    def meet(self, place: str, stop: Stop) -> None:
        """Wait for all shards at ``place``. Raises ShardError when they do not come or the directory fails."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / f"{place}.{self._shard.index}").touch()
            deadline = time.monotonic() + self._timeout_s
            while not stop.requested:
                there = sum((self._directory / f"{place}.{i}").exists() for i in range(self._shard.count))
                if there == self._shard.count:
                    return
                if time.monotonic() > deadline:
                    raise ShardError(
                        f"only {there} of {self._shard.count} shards came to {place} within {self._timeout_s:g} s:"
                        " check that all run with the same --run-id and see the same directory"
                    )
                time.sleep(_LOOK_S)
        except OSError as error:
            raise ShardError(f"{error.filename}: the shards cannot meet there: {error.strerror}") from None
