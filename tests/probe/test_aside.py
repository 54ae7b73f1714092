"""Nothing measured is overwritten, and nothing that is not ours is moved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from obs_exporter.probe.aside import make_room, refuse_results
from obs_exporter.probe.cli import main
from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.recover import read_whole
from obs_exporter.probe.results import ResultError, ResultWriter, read_records, read_result, requests_path
from obs_exporter.probe.truth.process import TruthProcess

HEADER = {"run_id": "r", "target": {"name": "t"}, "load": {}, "slo": {"ttft_s": 0.5, "e2e_s": 10.0}, "shard": None}
CSV = "c,tokens\n8,100\n"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def write(path: Path, index: int) -> None:
    """Write a result with one request of this number."""
    writer = ResultWriter(path, HEADER)
    writer.record(Record("short", 4, None, 0, index, str(index), Outcome.OK, True, 1000.0, ttft_s=0.1, e2e_s=0.2))
    writer.finish("was killed")


def indexes(path: Path) -> list[int]:
    """Return the requests that a result finds by itself."""
    return [record.index for record in read_records(path.with_name(read_result(path)["requests_file"]))]


def test_a_result_moves_with_its_requests(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert make_room(path) == ""
    for index in range(3):
        if index:
            said = make_room(path)
            assert said == f"kept: {path} is now {tmp_path / f'x.{index}.json'}, {requests_path(path)} is now " + str(
                tmp_path / f"x.{index}.requests.jsonl"
            )
        write(path, index)
    assert [indexes(tmp_path / name) for name in ("x.1.json", "x.2.json", "x.json")] == [[0], [1], [2]]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "x.1.json", "x.1.requests.jsonl", "x.2.json", "x.2.requests.jsonl", "x.json", "x.requests.jsonl",
    ]  # fmt: skip
    assert read_whole(tmp_path / "x.1.json")["levels"][0]["requests"] == 1


def test_the_next_number_is_free_for_both_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write(path, 0)
    (tmp_path / "x.1.requests.jsonl").write_text("mine")
    make_room(path)
    assert indexes(tmp_path / "x.2.json") == [0]
    assert (tmp_path / "x.1.requests.jsonl").read_text() == "mine"


def test_a_result_with_requests_of_another_name_still_finds_them(tmp_path: Path) -> None:
    write(tmp_path / "old.json", 5)
    (tmp_path / "old.json").rename(tmp_path / "x.json")
    make_room(tmp_path / "x.json")
    assert indexes(tmp_path / "x.1.json") == [5]


def test_a_damaged_result_is_moved_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write(path, 0)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"levels": [1], "schema_version": 9}))
    make_room(path)
    moved = json.loads((tmp_path / "x.1.json").read_text())
    assert (moved["levels"], moved["requests_file"]) == ([1], "x.1.requests.jsonl")


def test_requests_without_their_result_are_moved(tmp_path: Path) -> None:
    write(tmp_path / "x.json", 3)
    (tmp_path / "x.json").unlink()
    make_room(tmp_path / "x.json")
    assert [record.index for record in read_records(tmp_path / "x.1.requests.jsonl")] == [3]


def test_requests_of_another_result_stay(tmp_path: Path) -> None:
    write(tmp_path / "x.out.json", 3)
    with pytest.raises(ResultError, match=r"holds the requests of .*x\.out\.json"):
        make_room(tmp_path / "x.out")
    assert indexes(tmp_path / "x.out.json") == [3]


def test_a_result_that_another_run_writes_stays(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path / "x.json", HEADER)
    with pytest.raises(ResultError, match="another run writes it now"):
        make_room(tmp_path / "x.json")
    writer.finish()
    assert make_room(tmp_path / "x.json").startswith("kept: ")


def test_the_writer_itself_overwrites_nothing(tmp_path: Path) -> None:
    write(tmp_path / "x.json", 1)
    with pytest.raises(ResultError, match="exists already"):
        write(tmp_path / "x.json", 2)
    assert indexes(tmp_path / "x.json") == [1]


@pytest.mark.parametrize("content", ["hello", "{}", '{"levels": []}', "", "[]"])
def test_what_is_no_result_is_refused_before_a_request_is_sent(
    truth_server: TruthProcess, tmp_path: Path, content: str
) -> None:
    (tmp_path / "c.csv").write_text(CSV)
    write(tmp_path / "good.json", 1)
    path = tmp_path / "x.json"
    path.write_text(content)
    truth_server.truth()
    for arguments in (
        ("run", "--url", truth_server.url, "--output", str(path)),
        ("run", "--url", truth_server.url, "--output", str(path), "--processes", "2"),
        ("merge", str(tmp_path / "good.json"), "--output", str(path)),
        ("import", str(tmp_path / "c.csv"), "--map", "concurrency=c", "--output", str(path)),
    ):
        done = invoke(*arguments)
        assert done.exit_code == 2, done.output
        assert "left as it is: give another --output" in done.output
    assert path.read_text() == content
    assert truth_server.truth() == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.csv", "good.json", "good.requests.jsonl", "x.json"]


def test_a_device_is_no_place_for_a_result(truth_server: TruthProcess) -> None:
    done = invoke("run", "--url", truth_server.url, "--output", "/dev/null")
    assert (done.exit_code, "/dev/null: not a file" in done.output) == (2, True)
    assert Path("/dev/null").is_char_device()


def test_a_run_a_merge_and_an_import_keep_what_was_there(truth_server: TruthProcess, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(CSV)
    run, merged, taken = (tmp_path / f"{name}.json" for name in ("run", "merged", "taken"))
    load = ("--concurrency", "1", "--requests-per-level", "3", "--no-calibration", "--repeats", "1", "--quiet")
    for processes in ("1", "2"):
        for arguments in (
            ("run", "--url", truth_server.url, *load, "--processes", processes, "--output", str(run)),
            ("merge", str(run), "--output", str(merged)),
            ("import", str(tmp_path / "c.csv"), "--map", "concurrency=c", "--output", str(taken)),
        ):
            done = invoke(*arguments)
            assert done.exit_code == 0, done.output
            assert ("kept: " in done.stderr) == (processes == "2")
    for path in (run, merged):
        assert indexes(path.with_suffix(".1.json")) == indexes(path) == [0, 1, 2]
    assert read_result(tmp_path / "taken.1.json")["levels"]


@pytest.mark.parametrize("name", ["x.json", "x.requests.jsonl"])
def test_a_report_replaces_a_report_and_no_measurement(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.json"
    write(path, 1)
    before = (tmp_path / name).read_text()
    for arguments in (("report", str(path)), ("compare", str(path), str(path)),
                      ("diagnose", "--bare", str(path), str(path), "--stack", str(path), str(path))):  # fmt: skip
        done = invoke(*arguments, "--output", str(tmp_path / name))
        assert done.exit_code == 2
        assert "holds measurements" in done.output or "no level in common" in done.output
    assert (tmp_path / name).read_text() == before
    for _ in range(2):
        assert invoke("report", str(path), "--output", str(tmp_path / "r.txt")).exit_code == 0


def test_a_textfile_replaces_no_measurement(truth_server: TruthProcess, tmp_path: Path) -> None:
    write(tmp_path / "x.json", 1)
    done = invoke(
        "run", "--url", truth_server.url, "--output", str(tmp_path / "y.json"), "--textfile", str(tmp_path / "x.json")
    )
    assert (done.exit_code, "holds measurements" in done.output) == (2, True)
    refuse_results(tmp_path / "none")


def test_results_whose_names_differ_after_a_dot_have_requests_of_their_own(tmp_path: Path) -> None:
    assert requests_path(tmp_path / "r-0.5") != requests_path(tmp_path / "r-0.7")
    assert requests_path(tmp_path / "x.json") == tmp_path / "x.requests.jsonl"
