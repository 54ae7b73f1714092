"""Gather the evidence, in one order: the only part of an audit that does I/O."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from obs_audit.evidence import files
from obs_audit.evidence.pieces import Bundle, Piece, Role
from obs_audit.evidence.sources import Sources

if TYPE_CHECKING:
    from obs_audit.evidence.fetching import Fetcher


def gather(sources: Sources) -> Bundle:
    """Gather everything.

    Raises ``InputError`` for a file that cannot be read and a pattern that matches none, ``ValueError`` for a URL that
    is none; a page that cannot be fetched is a piece that says so.
    """
    if not sources.fetches:
        return Bundle(sources.given, tuple(_pieces(sources, None)))
    from obs_audit.evidence.fetching import Fetcher

    fetcher = Fetcher(sources)
    try:
        return Bundle(sources.given, tuple(_pieces(sources, fetcher)))
    finally:
        fetcher.close()


def _pieces(sources: Sources, fetcher: Fetcher | None) -> Iterator[Piece]:
    """Yield the pieces: what moves the counters first, then the pages, then what helps to understand them."""
    if fetcher is not None and sources.exercise:
        yield from fetcher.exercised()
    for number, name in enumerate(sources.files):
        yield files.read(Role.PAGE, name, number)
    if fetcher is not None and sources.urls:
        pages = list(fetcher.pages())
        yield from pages
        if sources.watch:
            time.sleep(sources.watch)
            yield from fetcher.pages(Role.LATER)
        yield from fetcher.negotiated()
        yield from fetcher.api(pages[0])
    if fetcher is not None and "://" in sources.baseline:
        yield from fetcher.baseline()
    elif sources.baseline:
        yield files.read(Role.BASELINE, sources.baseline)
    if fetcher is not None and "://" in sources.ray_sd:
        yield fetcher.discovery()
    elif sources.ray_sd:
        yield files.read(Role.DISCOVERY, sources.ray_sd)
    for pattern in sources.engine_logs:
        yield from files.logs(pattern)
    for name in sources.annotations:
        yield files.read(Role.ANNOTATIONS, name)
