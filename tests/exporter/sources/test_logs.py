"""Following files: however bytes arrive and whatever happens to a file, the same lines come out, and no error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.sources import logs
from obs_exporter.sources.logs import LogTail, Splitter


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
    assert not list(splitter.feed(b"\x00" * (logs.LONGEST_LINE + 1)))
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
    monkeypatch.setattr(logs, "WINDOW", 1000)
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

    def refuse(name: str, status: os.stat_result) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(logs, "_opened", refuse)
    lines, state = tail.poll(0.0, None)
    assert (lines, state.files) == ([], ())
    assert "Permission denied" in state.problems[0]


_STAMPED = b"INFO 11-29 10:00:%02d x.py:1] line\n"


def test_lines_are_as_old_as_their_stamps_behind_the_files_time(path: Path, tail: LogTail) -> None:
    """The last line is as old as the file; the one before it 30 s older, whatever zone the stamps are in."""
    append(path, _STAMPED % 0 + _STAMPED % 30)
    os.utime(path, (5000.0, 5000.0))
    lines, _ = tail.poll(100.0, 5007.0)
    assert [line.time for line in lines] == [63.0, 93.0]


def test_offline_the_last_line_is_now(path: Path, tail: LogTail) -> None:
    append(path, _STAMPED % 0 + _STAMPED % 30)
    assert [line.time for line in tail.poll(100.0, None)[0]] == [70.0, 100.0]


def test_new_years_eve_does_not_make_a_line_young(path: Path, tail: LogTail) -> None:
    append(path, b"INFO 12-31 23:59:50 x\nINFO 01-01 00:00:00 x\n")
    times = [line.time for line in tail.poll(0.0, None)[0]]
    assert times[1] == 0.0
    assert times[0] <= -10.0


@pytest.mark.parametrize("wall", [0.0, 1e10])
def test_a_wall_clock_that_jumps_does_not_age_new_lines(path: Path, tail: LogTail, wall: float) -> None:
    append(path, _STAMPED % 0)
    tail.poll(100.0, path.stat().st_mtime)
    append(path, _STAMPED % 10)
    (line,), _ = tail.poll(110.0, wall)
    assert 100.0 <= line.time <= 110.0
