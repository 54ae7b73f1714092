"""What the exporter would derive for a page: the same arithmetic, over the page, the later look at it, and the logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from obs_audit.evidence.pieces import Bundle, Piece, Role
from obs_exporter.derive import Context, Evidence, Memory, Settings, apply
from obs_exporter.derive.from_logs import LogView, read
from obs_exporter.exposition import Page
from obs_exporter.stacks import Reading, Stack

LOOKS = 15.0
"""Seconds between a page and the later look at it, where their times were not kept."""


def log_view(pieces: Iterable[Piece]) -> LogView | None:
    """Return what the logs say, as of their last lines; None where no log was given."""
    view: LogView | None = None
    for piece in pieces:
        view = view or LogView()
        for line in piece.body.decode("utf-8", "replace").splitlines():
            view = read(view, piece.source, line, 0.0)
    return view


def derived(stack: Stack, looks: Iterable[tuple[Page, Reading, float]], view: LogView | None) -> Reading:
    """Return the reading of the first look with what can be derived from all of them and from the logs."""
    memory = Memory()
    outcomes = [
        apply(reading, Context(stack, page, memory, Evidence(view), Settings(), 0.0 if index == 0 else after)).reading
        for index, (page, reading, after) in enumerate(looks)
    ]
    first, last = outcomes[0], outcomes[-1]
    answers = tuple(
        later if later.signal.id == "queue_wait" and later.state.publishes and not now.state.publishes else now
        for now, later in zip(first.answers, last.answers, strict=True)
    )
    return replace(first, answers=answers)


def seconds_between(bundle: Bundle, number: int) -> float:
    """Return the time between a page and its later look."""
    page, later = bundle.one(Role.PAGE, number), bundle.one(Role.LATER, number)
    if page is None or later is None or later.taken <= page.taken:
        return LOOKS
    return later.taken - page.taken
