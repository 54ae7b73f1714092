"""Evidence from files. Loads nothing that fetches: an audit of a stored page starts as fast as one on paper."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from obs_audit import loglines
from obs_audit.evidence.pieces import Piece, Role
from obs_exporter.errors import InputError
from obs_exporter.sources.splitting import lines_at_both_ends

MAX_BYTES = 32 * 1024 * 1024
"""More than any page of a sane server, as for pages that are fetched."""
LOG_HEAD, LOG_TAIL = 64 * 1024 * 1024, 192 * 1024 * 1024
"""Bytes of a log that are read from its beginning and its end: more than the largest seen, and seconds to search."""


def read(role: Role, name: str, number: int = 0) -> Piece:
    """Read a file, or standard input for ``-``; it was taken when it was last written, standard input now.

    Raises ``InputError`` where it cannot be read or is too large.
    """
    try:
        if name == "-":
            body, taken = sys.stdin.buffer.read(MAX_BYTES + 1), time.time()
        else:
            with Path(name).open("rb") as handle:
                body, taken = handle.read(MAX_BYTES + 1), os.fstat(handle.fileno()).st_mtime
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    if len(body) > MAX_BYTES:
        raise InputError(f"{name}: more than {MAX_BYTES} bytes: this is no metrics page")
    return Piece(role, "standard input" if name == "-" else name, body, number, taken=taken)


def logs(pattern: str) -> Iterator[Piece]:
    """Keep what is known of the lines of each log that matches; of a very large one, of its beginning and its end.

    Raises ``InputError`` where none can be read.
    """
    files = [name for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]
    if not files:
        raise InputError(f"--engine-log {pattern}: no file matches")
    for name in files:
        try:
            with Path(name).open("rb") as handle:
                body, written = loglines.excerpt(lines(handle)), os.fstat(handle.fileno()).st_mtime
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
        yield Piece(Role.ENGINE_LOG, name, body.encode(), taken=written)


def lines(handle: BinaryIO) -> Iterator[str]:
    """Yield the lines, and where the middle of a large file is passed over a line that says so."""
    for line, passed_over in lines_at_both_ends(handle, LOG_HEAD, LOG_TAIL):
        if passed_over:
            yield loglines.PASSED_OVER
        yield line
