"""How old a line is by its own stamp: never more than it is, never an age that comes of a zone alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.stacks.stamps import AHEAD, QUARTER, Stamp, least_between, stamp, wall_stamp

_ZONES = st.integers(-48, 56).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))
_WALLS = st.integers(1, 4_000_000_000)
_FORMS = st.sampled_from(["%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S,123", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S %z"])


def read(text: str) -> Stamp:
    found = stamp(text)
    assert found is not None
    return found


def printed(seconds: float, zone: timezone = UTC, form: str = "%m-%d %H:%M:%S") -> Stamp:
    """The stamp of a line written at ``seconds`` in a zone."""
    return read(datetime.fromtimestamp(seconds, zone).strftime(f"INFO {form} x.py:1] line"))


def age(earlier: Stamp, wall: float) -> float:
    now = wall_stamp(wall)
    assert now is not None
    return least_between(earlier, now)


@given(_WALLS, st.integers(0, 400 * 86400), _ZONES, _FORMS)
def test_it_is_never_more_than_the_true_age(wall: int, true: int, zone: timezone, form: str) -> None:
    assert age(printed(wall - true, zone, form), wall) <= true


@given(_WALLS, st.floats(-AHEAD + 1, 12), _ZONES, _FORMS)
def test_a_live_line_is_young_in_every_zone_and_from_a_clock_a_little_ahead(
    wall: int, true: float, zone: timezone, form: str
) -> None:
    """Up to a second is lost because stamps are without fractions."""
    assert age(printed(wall - true, zone, form), wall) <= max(0.0, true) + 1


@given(_WALLS.filter(lambda wall: wall > 86400), st.integers(0, 10 * 3600), st.sampled_from([0, 8, -8]))
def test_without_a_zone_the_minutes_within_a_quarter_of_an_hour_are_proof(wall: int, true: int, hours: int) -> None:
    found = age(printed(wall - true, timezone(timedelta(hours=hours))), wall)
    rest = true % QUARTER
    assert (0.0 if rest > QUARTER - AHEAD else rest) <= found <= true


@given(_WALLS, st.integers(2 * 86400, 300 * 86400), _ZONES)
def test_other_days_are_proof_whatever_the_zone(wall: int, true: int, zone: timezone) -> None:
    assert age(printed(wall - true, zone), wall) >= true - 26 * 3600


@pytest.mark.parametrize("wall", ["2027-01-10", "2027-03-02", "2028-02-28"])
def test_the_29th_of_february_was_in_a_leap_year(wall: str) -> None:
    now = datetime.fromisoformat(f"{wall}T10:00:00+00:00").timestamp()
    assert age(read("INFO 02-29 10:00:00 x"), now) > 2 * 365 * 86400


@given(_WALLS, st.integers(0, 4000 * 86400), _ZONES)
def test_a_stamp_with_year_and_zone_is_exact(wall: int, true: int, zone: timezone) -> None:
    assert age(printed(wall - true, zone, "%Y-%m-%dT%H:%M:%S%z"), wall) == true


@given(_WALLS, st.integers(400 * 86400, 4000 * 86400), _ZONES)
def test_a_stamp_with_a_year_is_exact_but_for_the_zone(wall: int, true: int, zone: timezone) -> None:
    found = age(printed(wall - true, zone, "%Y-%m-%d %H:%M:%S"), wall)
    assert true - 26 * 3600 <= found <= true


@pytest.mark.parametrize(
    ("early", "late", "seconds"),
    [
        ("INFO 11-29 17:26:42 x", "INFO 11-29 17:26:52 x", 10.0),
        ("INFO 2026-11-29 17:14:38,287 x", "INFO 2026-11-29 17:14:39,037 x", 0.75),
        ("2026-11-29T23:59:59.500000001Z stdout F x", "2026-11-30T00:00:00.5Z stdout F x", 1.0),
        ("2026-11-29T23:59:59Z stdout F x", "2026-11-30T01:00:00+01:00 stdout F x", 1.0),
        ("INFO 12-31 23:59:50 x", "INFO 01-01 00:00:00 x", 10.0),
        ("INFO 02-28 23:59:50 x", "INFO 03-01 00:00:00 x", 10.0),
        ("INFO 02-29 23:59:50 x", "INFO 03-01 00:00:00 x", 10.0),
        ("INFO 11-29 17:26:42 x", "2026-11-29 17:26:52,000\tINFO worker.py:1 -- x", 10.0),  # Ray's own in one file
        ("INFO 11-29 17:26:42 x", "2026-11-29T09:26:52Z INFO vllm_rs x", 10.0),  # the Rust frontend's, in UTC
        ("INFO 11-29 17:26:43 x", "INFO 11-29 17:26:42 x", 0.0),  # two processes write into one file
        ("INFO 10-25 02:59:55 x", "INFO 10-25 02:00:05 x", 0.0),  # the clock was set back in autumn
    ],
)
def test_lines_of_one_file_differ_by_what_passed(early: str, late: str, seconds: float) -> None:
    assert least_between(read(early), read(late), one_clock=True) == pytest.approx(seconds)


def test_lines_of_one_file_from_before_noon_and_after_are_hours_apart() -> None:
    """In one file the zone is one, so that hours are proof there."""
    assert least_between(read("INFO 11-29 09:00:00 x"), read("INFO 11-29 17:00:00 x"), one_clock=True) == 8 * 3600


@pytest.mark.parametrize("text", ["INFO 13-40 99:26:42 x", "INFO 02-30 10:00:00 x", "INFO:     127.0.0.1:1 - OK", ""])
def test_what_is_no_time_is_no_stamp(text: str) -> None:
    assert stamp(text) is None


@pytest.mark.parametrize(
    "text", ["11-29 10:00:00", "2026-11-29 10:00:00", "2026-11-29 10:00:00-03:30", "2026-11-29 10:00:00+00:00"]
)
def test_a_stamp_is_written_as_it_is_read(text: str) -> None:
    assert str(read(text)) == text


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    stamp(text)


@pytest.mark.parametrize("seconds", [None, 0.0, float("nan"), float("inf"), 1e300, -1e300])
def test_a_wall_clock_that_is_none_judges_nothing(seconds: float | None) -> None:
    assert wall_stamp(seconds) is None


def test_a_wall_clock_is_in_utc() -> None:
    assert wall_stamp(1_800_000_000.0) == Stamp(
        datetime.fromtimestamp(1_800_000_000, UTC).replace(tzinfo=None), True, 0.0
    )
