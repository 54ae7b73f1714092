"""Following files: however bytes arrive and whatever happens to a file, the same lines come out, and no error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.sources import following, logs
from obs_exporter.sources.beside import Beside
from obs_exporter.sources.following import Seen
from obs_exporter.sources.logs import LogState, LogTail
from obs_exporter.sources.splitting import LONGEST_LINE, Splitter


def texts(tail: LogTail, now: float = 0.0, wall: float | None = None) -> list[str]:
    return [line.text for line in tail.poll(now, wall)[0]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def tail(path: Path) -> Iterator[LogTail]:
    with closing(LogTail([str(path)])) as made:
        yield made


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as handle:
        handle.write(data)


_LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(_LINE), st.lists(st.integers(0, 400)), st.booleans())
def test_splits_of_the_bytes_do_not_matter(lines: list[str], cuts: list[int], crlf: bool) -> None:
    data = "".join(line + ("\r\n" if crlf else "\n") for line in lines).encode()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = Splitter()
    found = [line for a, b in pairwise(edges) for line in splitter.feed(data[a:b])]
    assert found == lines


@given(st.lists(st.binary(max_size=200)))
def test_rubbish_is_no_error(pieces: list[bytes]) -> None:
    splitter = Splitter()
    for piece in pieces:
        assert all(isinstance(line, str) for line in splitter.feed(piece))


def test_a_line_without_end_is_passed_over_and_the_next_one_read() -> None:
    splitter = Splitter()
    assert not list(splitter.feed(b"\x00" * (LONGEST_LINE + 1)))
    assert not list(splitter.feed(b"\x00" * 10))
    assert list(splitter.feed(b"end\nnext\n")) == ["next"]


def test_lines_come_once_and_only_whole(path: Path, tail: LogTail) -> None:
    append(path, b"one\ntw")
    assert texts(tail) == ["one"]
    append(path, b"o\n")
    assert texts(tail) == ["two"]
    assert texts(tail) == []


def test_rotation_reads_the_rest_of_the_old_file_and_all_of_the_new(path: Path, tail: LogTail) -> None:
    append(path, b"one\n")
    assert texts(tail) == ["one"]
    append(path, b"last\n")
    path.rename(path.with_suffix(".1"))
    append(path, b"first\n")
    assert texts(tail) == ["last", "first"]


def test_truncation_reads_from_the_start(path: Path, tail: LogTail) -> None:
    append(path, b"a longer first line\n")
    texts(tail)
    path.write_bytes(b"new\n")
    assert texts(tail) == ["new"]


def test_a_file_that_disappears_is_gone_and_comes_back(path: Path, tail: LogTail) -> None:
    append(path, b"one\n")
    texts(tail)
    path.unlink()
    lines, state = tail.poll(1.0, None)
    assert (lines, state.gone) == ([], (str(path),))
    assert "no such file" in state.problems[0]
    append(path, b"two\n")
    lines, state = tail.poll(2.0, None)
    assert ([line.text for line in lines], state.gone) == (["two"], ())


def test_files_that_appear_later_are_followed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    tail = LogTail([str(tmp_path / "worker-*.out")])
    request.addfinalizer(tail.close)
    append(tmp_path / "worker-1.out", b"a\n")
    assert texts(tail) == ["a"]
    append(tmp_path / "worker-2.out", b"b\n")
    append(tmp_path / "worker-1.out", b"c\n")
    lines, _ = tail.poll(0.0, None)
    assert {(Path(line.file).name, line.text) for line in lines} == {("worker-1.out", "c"), ("worker-2.out", "b")}


def test_a_huge_file_is_read_from_both_ends_only(path: Path, tail: LogTail) -> None:
    """10 GB, of which the middle is a hole: reading it all would take minutes."""
    append(path, b"start-up line\n" * 100)
    with path.open("r+b") as handle:
        handle.truncate(10 * 1024**3)
    append(path, b"\nlast line\n")
    lines = texts(tail)
    assert lines[0] == "start-up line"
    assert lines[-1] == "last line"
    append(path, b"new line\n")
    assert texts(tail) == ["new line"]


def test_a_flood_between_two_polls_is_read_at_its_end(
    path: Path, tail: LogTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WINDOW", 1000)
    append(path, b"one\n")
    texts(tail)
    append(path, b"".join(b"%05d\n" % number for number in range(5000)))
    lines = texts(tail)
    assert lines[-1] == "04999"
    assert len(lines) < 200
    assert all(len(line) == 5 for line in lines), "the cut line is passed over"


def test_what_is_no_file_is_a_problem_and_does_not_hang(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "folder.log").mkdir()
    append(tmp_path / "good.log", b"one\n")
    tail = LogTail([str(tmp_path / "*.log"), str(tmp_path / "nothing-*")])
    request.addfinalizer(tail.close)
    lines, state = tail.poll(0.0, None)
    assert [line.text for line in lines] == ["one"]
    assert len(state.problems) == 3


def test_a_file_that_may_not_be_read_is_a_problem(path: Path, tail: LogTail, monkeypatch: pytest.MonkeyPatch) -> None:
    append(path, b"one\n")

    def refuse(name: str, mode: str) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(logs, "open", refuse, raising=False)
    lines, state = tail.poll(0.0, None)
    assert (lines, state.files) == ([], ())
    assert "Permission denied" in state.problems[0]


_STAMPED = b"INFO 11-29 10:00:%02d x.py:1] line\n"
_ACCESS = b'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK\n'
TEN = datetime(2026, 11, 29, 10, 0, tzinfo=UTC).timestamp()
"""The wall clock at 10:00:00 on the day of the stamps, in UTC."""


def ages(path: Path, wall: float | None, written: float | None = None) -> list[float]:
    """The ages of the lines of a file that is opened at ``wall`` and was last written at ``written``."""
    if written is not None:
        os.utime(path, (written, written))
    with closing(LogTail([str(path)])) as tail:
        return [100.0 - line.time for line in tail.poll(100.0, wall)[0]]


@pytest.mark.parametrize("hours", [0.0, 8.0, -3.5, 5.75])
def test_lines_are_as_old_as_their_stamps_behind_the_files_time(path: Path, hours: float) -> None:
    """The last line is as old as the file; the one before it 30 s older, whatever zone the stamps are in."""
    append(path, _STAMPED % 0 + _STAMPED % 30)
    assert ages(path, TEN + hours * 3600 + 37, TEN + hours * 3600 + 30) == [37.0, 7.0]


@pytest.mark.parametrize("hours", [0.0, 8.0, -3.5, 5.75])
def test_an_old_line_stays_old_under_fresh_lines_without_a_stamp(path: Path, hours: float) -> None:
    """The engine wrote its last periodic line four minutes ago; access lines keep the file's time fresh."""
    append(path, _STAMPED % 0 + _ACCESS * 20)
    wall = TEN + hours * 3600 + 240
    assert min(ages(path, wall, wall)) == 240.0


def test_an_old_log_that_was_just_copied_is_old(path: Path) -> None:
    append(path, _STAMPED % 0 + _STAMPED % 30)
    days = TEN + 3 * 86400
    assert min(ages(path, days, days)) >= 2 * 86400


def test_a_stamp_with_year_and_zone_tells_a_copys_age_to_the_second(path: Path) -> None:
    append(path, b"2026-11-29T10:00:00.5Z stdout F INFO 11-29 18:00:00 x.py:1] line\n" + _ACCESS)
    assert ages(path, TEN + 3600 * 3, TEN + 3600 * 3) == [10799.5, 10799.5]


@pytest.mark.parametrize("ahead", [0, 1, 9])
def test_a_clock_a_little_ahead_does_not_age_a_live_line(path: Path, ahead: int) -> None:
    append(path, _STAMPED % (20 + ahead))
    assert ages(path, TEN + 20, TEN + 20) == [0.0]


def test_lines_before_the_first_stamp_are_no_younger_than_it(path: Path) -> None:
    append(path, b"no stamp\n" + _STAMPED % 0)
    assert ages(path, TEN + 240, TEN + 240) == [240.0, 240.0]


def test_a_line_of_another_process_that_came_a_second_late_ages_nothing(path: Path) -> None:
    append(path, _STAMPED % 31 + _STAMPED % 30)
    assert ages(path, TEN + 31, TEN + 31) == [0.0, 1.0]


def test_rays_full_dates_beside_vllms_short_ones_age_nothing(path: Path) -> None:
    append(path, _STAMPED % 30 + b"2026-11-29 10:00:31,250\tINFO worker.py:1 -- x\n")
    assert ages(path, TEN + 33, TEN + 32) == [pytest.approx(3.0), pytest.approx(1.75)]


def test_offline_the_last_line_is_now(path: Path) -> None:
    append(path, _STAMPED % 0 + _STAMPED % 30)
    assert ages(path, None) == [30.0, 0.0]


def test_new_years_eve_does_not_make_a_line_young(path: Path) -> None:
    append(path, b"INFO 12-31 23:59:50 x\nINFO 01-01 00:00:00 x\n")
    assert ages(path, None) == [10.0, 0.0]


@pytest.mark.parametrize("wall", [1.0, TEN - 3600, TEN + 3600, 1e10])
def test_a_wall_clock_that_jumps_does_not_age_new_lines(path: Path, tail: LogTail, wall: float) -> None:
    append(path, _STAMPED % 0)
    tail.poll(100.0, path.stat().st_mtime)
    append(path, _STAMPED % 10)
    (line,), _ = tail.poll(110.0, wall)
    assert 100.0 <= line.time <= 110.0


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_rotation_under_a_wall_clock_that_jumps_ages_nothing(path: Path, tail: LogTail, jump: float) -> None:
    append(path, _STAMPED % 0)
    tail.poll(100.0, TEN)
    path.rename(path.with_suffix(".1"))
    append(path, _STAMPED % 10)
    os.utime(path, (TEN + 10, TEN + 10))
    (line,), _ = tail.poll(110.0, TEN + 10 + jump)
    assert 100.0 <= line.time <= 110.0


def test_an_old_log_that_takes_the_place_of_a_live_one_is_old(path: Path, tail: LogTail) -> None:
    """Ray's session_latest points to another session, or somebody copies an old log over the live one."""
    append(path, _STAMPED % 30)
    tail.poll(100.0, TEN + 30)
    path.write_bytes(_STAMPED % 0 + _ACCESS * 3)
    (line, *_), _ = tail.poll(101.0, TEN + 300)
    assert line.time <= 101.0 - 300


def test_a_file_that_was_empty_when_it_was_opened_is_live(path: Path, tail: LogTail) -> None:
    append(path, b"")
    tail.poll(100.0, TEN)
    append(path, _STAMPED % 0)
    (line,), _ = tail.poll(110.0, TEN + 450)
    assert line.time >= 100.0


# What rotation does to files.


def long_log(begin: int, count: int) -> bytes:
    """Lines that are all different, about 50 bytes each."""
    return b"".join(b"INFO 11-29 10:00:00 x.py:%d] line number %06d\n" % (n, n) for n in range(begin, begin + count))


@pytest.mark.parametrize("count", [1, 100, 5000])
def test_a_file_rewritten_to_its_old_length_is_read_anew(path: Path, tail: LogTail, count: int) -> None:
    append(path, long_log(0, count))
    texts(tail)
    with path.open("r+b") as handle:
        handle.write(long_log(500_000, count))
    assert texts(tail) == long_log(500_000, count).decode().splitlines()
    assert texts(tail) == []


def test_a_file_rewritten_with_the_same_bytes_is_not_read_twice(path: Path, tail: LogTail) -> None:
    append(path, long_log(0, 100))
    texts(tail)
    path.write_bytes(long_log(0, 100))
    os.utime(path, (1.0, 1.0))
    assert texts(tail) == []
    append(path, b"next\n")
    assert texts(tail) == ["next"]


def test_a_truncated_file_that_grew_beyond_the_old_place_is_read_from_the_start(path: Path, tail: LogTail) -> None:
    append(path, long_log(0, 10))
    texts(tail)
    path.write_bytes(long_log(500_000, 300))
    assert texts(tail) == long_log(500_000, 300).decode().splitlines()


def test_a_rewritten_head_is_noticed_too(path: Path, tail: LogTail) -> None:
    """All lines at the old place are alike: what tells is the beginning."""
    append(path, long_log(0, 1) + b"same\n" * 1000)
    texts(tail)
    path.write_bytes(long_log(7, 1) + b"same\n" * 1001)
    assert len(texts(tail)) == 1002


def test_a_partial_line_is_not_glued_to_what_replaced_it(path: Path, tail: LogTail) -> None:
    append(path, b"half of a")
    texts(tail)
    path.write_bytes(b"whole new line\n")
    assert texts(tail) == ["whole new line"]


def test_a_rotated_file_that_the_glob_matches_is_not_read_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Ray and logrotate rename worker.out to worker.out.1: the same file under another name."""
    tail = LogTail([str(tmp_path / "worker*")])
    request.addfinalizer(tail.close)
    old, new = tmp_path / "worker.out.1", tmp_path / "worker.out"
    append(new, b"one\n")
    assert texts(tail) == ["one"]
    append(new, b"rest\n")
    new.rename(old)
    append(new, b"first\n")
    lines, state = tail.poll(1.0, None)
    assert [(line.text, Path(line.file).name) for line in lines] == [("rest", "worker.out"), ("first", "worker.out")]
    assert state.gone == ()
    append(old, b"late\n")
    assert texts(tail) == ["late"]
    old.rename(tmp_path / "worker.out.2")
    assert tail.poll(2.0, None) == ([], LogState((str(new), str(tmp_path / "worker.out.2"))))


@pytest.mark.parametrize("name", ["worker.out.1", "worker.out-20261129", "worker.1.out"])
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("seen_before", [True, False])
def test_a_copy_that_rotation_makes_is_read_from_where_we_stood(
    tmp_path: Path, request: pytest.FixtureRequest, seen_before: bool, count: int, name: str
) -> None:
    """Logrotate's copytruncate: what was written between the last look and the copy stands in the copy alone."""
    tail = LogTail([str(tmp_path / "worker*")])
    request.addfinalizer(tail.close)
    log, copy = tmp_path / "worker.out", tmp_path / name
    append(log, long_log(0, count))
    assert len(texts(tail)) == count
    append(log, b"rest\n")
    copy.write_bytes(log.read_bytes())
    found = texts(tail) if seen_before else []
    log.write_bytes(b"first\n")
    found += texts(tail)
    assert sorted(found) == ["first", "rest"]


def test_two_workers_that_begin_alike_are_two(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    tail = LogTail([str(tmp_path / "worker*")])
    request.addfinalizer(tail.close)
    append(tmp_path / "worker-1.out", long_log(0, 100))
    texts(tail)
    append(tmp_path / "worker-10.out", long_log(0, 100))
    lines, _ = tail.poll(1.0, None)
    assert {Path(line.file).name for line in lines} == {"worker-10.out"}
    assert len(lines) == 100


def test_a_rotated_log_without_a_successor_is_not_gone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Between the renaming and the writer's first line the name is missing, and the file is still followed."""
    tail = LogTail([str(tmp_path / "worker*")])
    request.addfinalizer(tail.close)
    append(tmp_path / "worker.out", b"one\n")
    texts(tail)
    (tmp_path / "worker.out").rename(tmp_path / "worker.out.1")
    assert tail.poll(1.0, None)[1].gone == ()
    (tmp_path / "worker.out.1").unlink()
    assert tail.poll(2.0, None)[1].gone == (str(tmp_path / "worker.out"),)


def test_a_file_that_did_not_change_is_not_touched(path: Path, tail: LogTail, monkeypatch: pytest.MonkeyPatch) -> None:
    append(path, b"one\n")
    texts(tail)

    def refuse(*arguments: object) -> bytes:
        raise OSError("this file need not be read")

    monkeypatch.setattr(os, "pread", refuse)
    assert tail.poll(1.0, None)[1].problems == ()


def test_two_names_of_one_file_are_read_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    append(tmp_path / "engine-1.log", b"one\n")
    (tmp_path / "latest.log").symlink_to(tmp_path / "engine-1.log")
    tail = LogTail([str(tmp_path / "*.log"), str(tmp_path / "engine*")])
    request.addfinalizer(tail.close)
    assert texts(tail) == ["one"]
    append(tmp_path / "engine-1.log", b"two\n")
    assert texts(tail) == ["two"]


def test_the_rest_of_a_file_that_was_deleted_is_read(path: Path, tail: LogTail) -> None:
    append(path, b"one\n")
    texts(tail)
    append(path, b"rest\n")
    path.unlink()
    assert texts(tail) == ["rest"]


# Files that go away and come back, or are rewritten: no line is counted twice.


def new(tail: LogTail) -> list[str]:
    return [line.text for line in tail.poll(0.0, None)[0] if line.seen is Seen.NEW]


LINES = [f"Request {n} finished (length). Queue time: {n}.5s".encode() + b"\n" for n in range(3000)]
STAMPED = [b"INFO 11-29 10:%02d:%02d x.py:1] " % (n // 60 % 60, n % 60) + LINES[n] for n in range(3000)]


@pytest.mark.parametrize("away", [1, 3])
@pytest.mark.parametrize("grows", [False, True])
def test_a_log_that_comes_back_goes_on(path: Path, tail: LogTail, away: int, grows: bool) -> None:
    append(path, b"".join(LINES[:50]) + b"half")
    assert len(new(tail)) == 50
    hidden = path.with_name("elsewhere")
    path.rename(hidden)
    for _ in range(away):
        lines, state = tail.poll(1.0, None)
        assert (lines, state.gone) == ([], (str(path),))
    append(hidden, b"of it\n" if grows else b"")
    hidden.rename(path)
    assert new(tail) == (["halfof it"] if grows else [])
    append(path, b"last\n")
    assert new(tail)[-1].endswith("last")


def test_a_copy_that_takes_a_logs_place_goes_on(path: Path, tail: LogTail) -> None:
    """Editors and rsync write another file and rename it; also where the log was away in between."""
    append(path, b"".join(LINES[:50]))
    new(tail)
    for round_ in range(2):
        other = path.with_name("other")
        other.write_bytes(path.read_bytes() + b"more %d\n" % round_)
        if round_:
            path.unlink()
            new(tail)
        other.rename(path)
        assert new(tail) == [f"more {round_}"]


def test_a_new_log_under_the_old_name_is_new_whatever_its_inode(path: Path, tail: LogTail) -> None:
    append(path, b"".join(STAMPED[:50]))
    new(tail)
    path.unlink()
    new(tail)
    append(path, b"".join(STAMPED[50:60]))
    assert len(new(tail)) == 10


@pytest.mark.parametrize("lines", [LINES, STAMPED], ids=["bare", "stamped"])
@pytest.mark.parametrize("count", [3, 50, 3000])
@pytest.mark.parametrize("inode", ["same", "other"])
@pytest.mark.parametrize("edit", ["head", "first line gone", "middle"])
def test_of_an_edited_log_only_new_lines_are_new(
    path: Path, tail: LogTail, lines: list[bytes], count: int, inode: str, edit: str
) -> None:
    append(path, b"".join(lines[:count]))
    assert len(new(tail)) == count
    changed = list(lines[:count])
    at = count // 2 if edit == "middle" else 0
    changed[at : at + 1] = [] if edit == "first line gone" else [b"another text\n"]
    target = path if inode == "same" else path.with_name("other")
    target.write_bytes(b"".join(changed) + b"Request x finished\n")
    target.rename(path)
    assert new(tail) == ["Request x finished"]
    append(path, b"next\n")
    assert new(tail) == ["next"]


def test_a_log_that_was_empty_when_it_went_away_is_new_when_it_comes(path: Path, tail: LogTail) -> None:
    append(path, b"")
    new(tail)
    path.rename(path.with_name("elsewhere"))
    new(tail)
    append(path, LINES[0])
    assert len(new(tail)) == 1


def test_lines_cut_off_the_end_are_not_read_again(path: Path, tail: LogTail) -> None:
    append(path, b"".join(LINES[:50]))
    new(tail)
    path.write_bytes(b"".join(LINES[:30]))
    assert new(tail) == []


def test_lines_too_old_to_be_known_are_unknown(path: Path, tail: LogTail) -> None:
    append(path, b"".join(STAMPED))
    new(tail)
    path.write_bytes(b"x\n" + b"".join(STAMPED))
    lines, _ = tail.poll(0.0, None)
    found = [line.seen for line in lines]
    assert len(found) == 3001
    assert found.count(Seen.BEFORE) == following.REMEMBERED
    assert Seen.NEW not in found


def test_a_log_truncated_by_rotation_is_new_though_access_lines_repeat(path: Path, tail: LogTail) -> None:
    """The writer goes on after copytruncate: lines without a time of their own are the same as before."""
    append(path, b"banner\n" + _ACCESS * 30 + b"".join(LINES[:5]) + _ACCESS * 30)
    new(tail)
    path.write_bytes(b"banner\n" + b"".join(LINES[5:15]) + _ACCESS)
    assert [line for line in new(tail) if line.startswith("Request")] == [one.decode().strip() for one in LINES[5:15]]


def test_what_is_remembered_of_files_that_are_gone_is_bounded(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_FILES", 5)
    tail = LogTail([str(tmp_path / "*.log")])
    request.addfinalizer(tail.close)
    for number in range(30):
        path = tmp_path / f"{number}.log"
        append(path, b"one\n")
        new(tail)
        path.rename(path.with_suffix(".away"))
    new(tail)
    assert len(tail._gone) == 5
    (tmp_path / "29.away").rename(tmp_path / "29.log")
    (tmp_path / "0.away").rename(tmp_path / "0.log")
    lines, _ = tail.poll(0.0, None)
    assert [line.seen for line in lines] == [Seen.UNKNOWN], "the last one goes on, and the first one is forgotten"
    append(tmp_path / "0.log", b"two\n")
    assert new(tail) == ["two"]


def test_a_request_is_counted_once_whatever_happens_to_its_log(path: Path) -> None:
    """Ray's lines of finished requests add up to an exact wait: through a rewrite, an edit, an absence."""
    line = "INFO 2026-11-29 17:14:0{0},000 app_LLM x {0} -- Request {0} finished (stop). Total time: 9s, Queue time: 2s"
    texts_ = [line.format(n).encode() + b"\n" for n in range(10)]
    beside = Beside([str(path)])

    def waits(now: float) -> tuple[float, float]:
        view = beside.read(now, None).logs
        assert view is not None
        return view.waits

    append(path, b"".join(texts_[:5]))
    assert waits(0) == (10.0, 5)
    other = path.with_name("other")
    other.write_bytes(b"".join(texts_[:6]))
    other.rename(path)
    assert waits(1) == (12.0, 6)
    path.write_bytes(b"# edited\n" + b"".join(texts_[1:7]))
    assert waits(2) == (14.0, 7)
    path.rename(other)
    assert waits(3) == (14.0, 7)
    other.rename(path)
    assert waits(4) == (14.0, 7)
    append(path, texts_[7])
    assert waits(5) == (16.0, 8)
    view = beside.read(6, None).logs
    assert view is not None
    assert not view.short
    path.write_bytes(texts_[8] + b"".join(texts_[:8]))
    view = beside.read(7, None).logs
    assert view is not None
    assert view.short, "whether the first line was counted cannot be known"
    beside.close()


def test_what_start_up_lines_told_comes_back_with_the_log(path: Path) -> None:
    append(path, b"INFO 11-29 10:00:00 x.py:1] GPU KV cache size: 247,024 tokens\n" + b"".join(STAMPED[:5]))
    beside = Beside([str(path)])
    away = path.with_name("elsewhere")
    found = []
    for step in range(3):
        view = beside.read(float(step), None).logs
        assert view is not None
        found.append([engine.start for engine in view.engines.values()])
        if step < 2:
            (path, away)[step].rename((away, path)[step])
    assert found == [[{"kv_cache_capacity": 247_024.0}], [], [{"kv_cache_capacity": 247_024.0}]]
    beside.close()
