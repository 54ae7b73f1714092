"""The times that log lines print, and how long before another moment one was written at least. Pure.

vLLM prints neither year nor zone (``INFO 09-12 14:03:11 [..]``), Ray prints the year (``2026-11-29 17:14:34,588``), and
container runtimes print both (``2026-11-29T17:14:34.588Z``). So an age is a lower bound: what a stamp leaves open is
taken as the reading that makes the line youngest. Every zone is a multiple of 15 minutes away from UTC; so a stamp
without a zone proves an age up to 15 minutes only, and an old line whose minute happens to match looks young.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

QUARTER = 900.0
"""Seconds that all zones are whole multiples of away from UTC."""
WEST, EAST = -12 * 3600.0, 14 * 3600.0
"""The zones farthest from UTC, in seconds."""
AHEAD = 10.0
"""Seconds that another machine's clock may be ahead of ours: such a line is young, not a quarter of an hour old."""
SET_BACK = 3600.0 + AHEAD
"""Seconds by which a line may seem to be later than one that stands below it: clocks are set back, an hour in autumn,
and several processes write into one file."""

_STAMP = re.compile(
    r"(?:(\d{4})-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6})\d*)?(?:(Z)| ?([+-])(\d\d):?(\d\d)(?!\d))?"
)
_YEARLESS = 2024
"""Stands for a year that is not printed: a leap year, so that every day exists."""
_LOOKED_AT = 200
"""Characters at the beginning of a line in which its stamp stands."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a line prints of its time.

    ``clock`` is what the writer's clock showed; its year means something only if ``dated``. ``zone`` is in seconds east
    of UTC, None where it is not printed.
    """

    clock: datetime
    dated: bool = False
    zone: float | None = None

    def __str__(self) -> str:
        """Write it as it can be read again, to the second."""
        zone = ""
        if self.zone is not None:
            minutes = round(abs(self.zone) / 60)
            zone = f"{'-' if self.zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
        return f"{self.clock:{'%Y-' if self.dated else ''}%m-%d %H:%M:%S}{zone}"


def stamp(text: str) -> Stamp | None:
    """Return a line's own time, or None where it has none."""
    match = _STAMP.search(text[:_LOOKED_AT])
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, utc, sign, east_hours, east_minutes = match.groups()
    try:
        clock = datetime(
            int(year or _YEARLESS), int(month), int(day), int(hour), int(minute), int(second),
            int((fraction or "0").ljust(6, "0")),
        )  # fmt: skip
    except ValueError:
        return None
    zone = 0.0 if utc else None
    if sign:
        zone = float(f"{sign}1") * (int(east_hours) * 3600 + int(east_minutes) * 60)
    known = year is not None and zone is not None and WEST <= zone <= EAST
    return Stamp(clock, year is not None, zone if known else None)


def wall_stamp(seconds: float | None) -> Stamp | None:
    """Return the stamp of a wall clock, in seconds since 1970; None for none, and for one that no calendar holds."""
    try:
        return Stamp(datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None), True, 0.0) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def least_between(earlier: Stamp, later: Stamp, *, one_clock: bool = False) -> float:
    """Return how many seconds at least lie between two stamps; 0 where they may be of one moment.

    ``one_clock`` says that both are of one file: where both print no zone, it is the same. An ``earlier`` that is later
    for certain tells nothing, since one of the clocks is wrong: 0.
    """
    found = (
        _of_one_clock(apart) if one_clock and earlier.zone is None and later.zone is None
        else _over_zones(apart, earlier, later)
        for apart in _apart(earlier, later)
    )  # fmt: skip
    return min((seconds for seconds in found if seconds is not None), default=0.0)


def _apart(earlier: Stamp, later: Stamp) -> Iterator[float]:
    """Yield the seconds between two clocks' faces, for each pair of years that the stamps leave open."""
    if earlier.dated and later.dated:
        pairs = [(earlier.clock.year, later.clock.year)]
    elif later.dated:
        pairs = [(later.clock.year + more, later.clock.year) for more in _years(earlier)]
    elif earlier.dated:
        pairs = [(earlier.clock.year, earlier.clock.year - more) for more in _years(later)]
    else:  # in a leap year, before one and after one: the 29th of February lies between, or does not
        pairs = [(year + less, year) for year in (_YEARLESS - 1, _YEARLESS, _YEARLESS + 1) for less in (-1, 0)]
    for one, other in pairs:
        try:
            passed = later.clock.replace(year=other) - earlier.clock.replace(year=one)
        except ValueError:  # the 29th of February of another year
            continue
        yield passed / timedelta(seconds=1)


def _years(found: Stamp) -> range:
    """Return by how many years a stamp without one may differ from the other: the last leap year may be long ago."""
    return range(-8 if (found.clock.month, found.clock.day) == (2, 29) else -1, 2)


def _of_one_clock(apart: float) -> float | None:
    return max(apart, 0.0) if apart > -SET_BACK else None


def _over_zones(apart: float, earlier: Stamp, later: Stamp) -> float | None:
    """Return the least that clocks' faces mean over all zones that are not printed; None where all are impossible."""
    apart += (earlier.zone or 0.0) - (later.zone or 0.0)
    least = apart + (WEST if earlier.zone is None else 0.0) - (EAST if later.zone is None else 0.0)
    most = apart + (EAST if earlier.zone is None else 0.0) - (WEST if later.zone is None else 0.0)
    if most < -AHEAD:
        return None
    if least >= 0 or least == most:
        return max(least, 0.0)
    rest = apart % QUARTER
    return 0.0 if rest > QUARTER - AHEAD else rest
