"""A disk, a file or a pipe that takes no more: one line, exit status 2, and what was measured is kept."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.results import ResultError, ResultWriter, read_records, read_result, requests_path, write_json
from obs_exporter.probe.truth.process import TruthProcess

PROBE = [sys.executable, "-m", "obs_exporter.probe.cli"]
QUICK = ["--no-calibration", "--repeats", "1"]
HEADER = {"run_id": "r", "target": {"name": "t"}, "slo": {"ttft_s": 1.0, "e2e_s": 2.0, "tpot_s": None}}


def limited(size: int) -> Callable[[], None]:
    """Return what keeps a new process from files larger than so many bytes; Python ignores SIGXFSZ, as it should."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def run(server: TruthProcess, output: Path, *arguments: str, size: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*PROBE, "run", "--url", server.url, "--output", str(output), *QUICK, *arguments]
    limit = limited(size) if size else None
    return subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit)


def test_a_requests_file_at_its_limit_keeps_what_it_has(truth_server: TruthProcess, tmp_path: Path) -> None:
    output, prom = tmp_path / "x.json", tmp_path / "x.prom"
    load = ("--concurrency", "4", "--requests-per-level", "400", "--textfile", str(prom))
    done = run(truth_server, output, *load, size=40 * 1024)
    assert done.returncode == 2
    assert f"{requests_path(output)}: cannot be written: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    result = read_result(output)
    assert result["partial"] is True
    assert "the run ended early" in result["partial_reason"]
    assert "File too large" in result["partial_reason"]
    text = requests_path(output).read_text()
    assert text.endswith("}\n")
    records = list(read_records(requests_path(output)))
    assert 40 < len(records) == text.count("\n") < 400
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.prom", "x.requests.jsonl"]
    # The metrics carry what was measured, and say that the level runs no more.
    labels = 'concurrency="4",rate="",scenario="short"'
    assert f"llm_probe_good_requests_total{{{labels}" in prom.read_text()
    level = next(line for line in prom.read_text().splitlines() if line.startswith("llm_probe_level_running{"))
    assert level.endswith(" 0.0")


def test_several_processes_at_the_limit(truth_server: TruthProcess, tmp_path: Path) -> None:
    load = ("--concurrency", "4", "--requests-per-level", "600", "--processes", "2")
    done = run(truth_server, tmp_path / "x.json", *load, size=40 * 1024)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert sum(len(list(read_records(file))) for file in tmp_path.rglob("*.jsonl")) > 80


def filled(path: Path) -> None:
    """Write a result until nothing more fits; runs in a process of its own."""
    writer = ResultWriter(path, HEADER)
    writer.record(Record("short", 2, None, 0, 0, "a", Outcome.OK, True, 0.0, ttft_s=0.1, e2e_s=0.2, tokens=3))
    limited(path.stat().st_size + 100)()
    writer.note("x" * 10_000)
    with pytest.raises(ResultError, match="File too large"):
        writer.finish('the run ended early: "\x1f' + "\U0001f600" * 2000)


def test_a_result_that_does_not_fit_says_why(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    if (child := os.fork()) == 0:
        try:
            filled(path)
        except BaseException:  # noqa: BLE001 - the parent tells by the status
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    result = read_result(path)
    assert result["partial"] is True
    assert result["partial_reason"].startswith('the run ended early: "\x1f\U0001f600')
    assert result["finished_at"] >= result["started_at"]
    assert result["notes"] == []
    assert len(list(read_records(requests_path(path)))) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.json", "x.requests.jsonl"]


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(ResultError, match="cannot be written"):
        write_json(tmp_path / "x.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_whole_result_has_no_room_at_its_end(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path / "x.json", HEADER)
    assert (tmp_path / "x.json").read_text().endswith(" \n")
    writer.finish()
    assert (tmp_path / "x.json").read_text().endswith("}\n")


@pytest.mark.parametrize("options", [[], ["--format", "html"]])
def test_a_report_to_a_full_device_is_one_line(tmp_path: Path, options: list[str]) -> None:
    writer = ResultWriter(tmp_path / "x.json", HEADER | {"load": {"levels": []}})
    writer.finish()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROBE, "report", str(tmp_path / "x.json"), *options], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "Error: standard output: cannot be written: No space left on device\n")


def test_a_run_whose_report_finds_no_room_keeps_its_result(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    command = [*PROBE, "run", "--url", truth_server.url, "--output", str(output), *QUICK]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "--concurrency", "1", "--requests-per-level", "2"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [
        f"result: {output}",
        "Error: standard output: cannot be written: No space left on device",
    ]
    assert read_result(output)["partial"] is False


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    ResultWriter(tmp_path / "x.json", HEADER | {"load": {"levels": []}}).finish()
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROBE, "report", str(tmp_path / "x.json")], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.stderr == ""


def test_the_folder_of_a_textfile_is_looked_at_before_the_run(truth_server: TruthProcess, tmp_path: Path) -> None:
    load = ("--concurrency", "1", "--requests-per-level", "2")
    done = run(truth_server, tmp_path / "x.json", *load, "--textfile", str(tmp_path / "nope" / "x.prom"))
    assert done.returncode == 2
    assert "--textfile" in done.stderr
    assert not (tmp_path / "x.json").exists()


def test_a_textfile_that_fails_later_does_not_hide_the_report(truth_server: TruthProcess, tmp_path: Path) -> None:
    folder = tmp_path / "prom"
    folder.mkdir()
    command = [*PROBE, "run", "--url", truth_server.url, "--output", str(tmp_path / "x.json"), *QUICK]
    process = subprocess.Popen(
        [*command, "--concurrency", "1", "--duration", "1", "--listen", "127.0.0.1:0", "--textfile",
         str(folder / "x.prom")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("metrics: ")  # the checks are behind it
    folder.rmdir()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "short c=1" in out
    assert f"{folder / 'x.prom'}: cannot be written" in err
    assert json.loads((tmp_path / "x.json").read_text())["partial"] is False
