"""What the exporter would derive for a page: the same arithmetic, over the page, the later look at it, and the logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from obs_audit.evidence.pieces import Bundle, Piece, Role
from obs_audit.loglines import kept
from obs_exporter.derive import Context, Evidence, Memory, Settings, apply
from obs_exporter.derive.from_logs import LogView, fold
from obs_exporter.exposition import Page
from obs_exporter.sources.logs import behind, least_age
from obs_exporter.stacks import Reading, Stack
from obs_exporter.stacks.log_lines import parse_message
from obs_exporter.stacks.stamps import stamp, wall_stamp

LOOKS = 15.0
"""Seconds between a page and the later look at it, where their times were not kept."""


def log_view(pieces: Iterable[Piece], now: float) -> LogView | None:
    """Return what the logs say, each line with its own time on the clock of ``now``; None where no log was given.

    Ages are reckoned as the exporter does: a file's time is that of its last line, and the stamps say how much earlier
    the others were written; where a line's own stamp proves it older than that, by the page's time, it is. Where either
    time is not known (0), the last line counts as written now.
    """
    view: LogView | None = None
    for piece in pieces:
        view = view or LogView()
        lines = piece.body.decode("utf-8", "replace").splitlines()
        stamps = [stamp(line) for line in lines]
        newest = next((one for one in reversed(stamps) if one is not None), None)
        written, clock = (min(now, piece.taken), wall_stamp(now)) if now and piece.taken else (now, None)
        for line, stamped in zip(lines, stamps, strict=True):
            time = min(written - behind(newest, stamped), now - least_age(stamped, clock))
            for fact in parse_message(kept(line)):
                view = fold(view, piece.source, fact, time)
    return view


def derived(
    stack: Stack, looks: Iterable[tuple[Page, Reading, float]], view: LogView | None, now: float = 0.0
) -> Reading:
    """Return the reading of the first look with what can be derived from all of them and from the logs.

    A look is a page, its reading, and the seconds after the first (which was at ``now``, on the clock of the logs).
    """
    memory = Memory()
    outcomes = [
        apply(
            reading,
            Context(stack, page, memory, Evidence(view), Settings(), now if index == 0 else now + after),
        ).reading
        for index, (page, reading, after) in enumerate(looks)
    ]
    first, last = outcomes[0], outcomes[-1]
    answers = tuple(
        later if later.signal.id == "queue_wait" and later.state.publishes and not one.state.publishes else one
        for one, later in zip(first.answers, last.answers, strict=True)
    )
    return replace(first, answers=answers)


def seconds_between(bundle: Bundle, number: int) -> float:
    """Return the time between a page and its later look."""
    page, later = bundle.one(Role.PAGE, number), bundle.one(Role.LATER, number)
    if page is None or later is None or later.taken <= page.taken:
        return LOOKS
    return later.taken - page.taken
