"""Cut bytes into lines, however they arrive, and take no more of a file than its two ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

LONGEST_LINE = 64 * 1024
"""A longer line is no log line of an engine: it is passed over."""
_PIECE = 1024 * 1024


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


def lines_at_both_ends(handle: BinaryIO, head: int, tail: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a file, of a larger one than both together those of its first and last bytes.

    With each line comes whether bytes were passed over before it. A last line without an end is a line, too.
    """
    size = os.fstat(handle.fileno()).st_size
    cut = size > head + tail
    yield from _lines(handle, 0, head if cut else size, passed_over=False)
    if cut:
        yield from _lines(handle, size - tail, size, passed_over=True)


def _lines(handle: BinaryIO, begin: int, end: int, *, passed_over: bool) -> Iterator[tuple[str, bool]]:
    splitter = Splitter(inside=passed_over)
    handle.seek(begin)
    left = end - begin
    while left > 0 and (data := handle.read(min(left, _PIECE))):
        left -= len(data)
        for line in splitter.feed(data if left or data.endswith(b"\n") else data + b"\n"):
            yield line, passed_over
            passed_over = False
