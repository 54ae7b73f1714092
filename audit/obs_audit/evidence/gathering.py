"""Gather the evidence, in one order: the only part of an audit that does I/O."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obs_audit.evidence import files
from obs_audit.evidence.pieces import Bundle, Given, Piece, Role

if TYPE_CHECKING:
    from obs_audit.evidence.fetching import Fetcher


@dataclass(frozen=True, slots=True)
class Where:
    """Where evidence is to be had, as asked for on the command line."""

    given: Given
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_url: str = ""
    bearer_token_file: str = ""
    watch: float = 0.0
    engine_logs: tuple[str, ...] = ()
    discovery: str = ""
    annotations: tuple[str, ...] = ()
    baseline: str = ""
    exercise_url: str = ""
    model: str = ""
    hard: bool = False

    @property
    def fetches(self) -> bool:
        """Whether anything is to be had over HTTP."""
        return bool(self.urls) or "://" in self.baseline or "://" in self.discovery


def gather(where: Where) -> Bundle:
    """Gather everything.

    Raises ``InputError`` for a file that cannot be read and a pattern that matches none, ``ValueError`` for a URL that
    is none; a page that cannot be fetched is a piece that says so.
    """
    if not where.fetches:
        return Bundle(where.given, tuple(_pieces(where, None)))
    from obs_audit.evidence.fetching import Fetcher

    fetcher = Fetcher(where)
    try:
        return Bundle(where.given, tuple(_pieces(where, fetcher)))
    finally:
        fetcher.close()


def _pieces(where: Where, fetcher: Fetcher | None) -> Iterator[Piece]:
    """Yield the pieces: what moves the counters first, then the pages, then what helps to understand them."""
    if fetcher is not None and where.exercise_url:
        yield from fetcher.exercised()
    for number, name in enumerate(where.files):
        yield files.read(Role.PAGE, name, number)
    if fetcher is not None and where.urls:
        pages = list(fetcher.pages())
        yield from pages
        if where.watch:
            time.sleep(where.watch)
            yield from fetcher.pages(Role.LATER)
        yield from fetcher.negotiated()
        yield from fetcher.api(pages[0])
    if fetcher is not None and "://" in where.baseline:
        yield from fetcher.baseline()
    elif where.baseline:
        yield files.read(Role.BASELINE, where.baseline)
    if fetcher is not None and "://" in where.discovery:
        yield fetcher.discovery()
    elif where.discovery:
        yield files.read(Role.DISCOVERY, where.discovery)
    for pattern in where.engine_logs:
        yield from files.logs(pattern)
    for name in where.annotations:
        yield files.read(Role.ANNOTATIONS, name)
