"""A run in several processes: none of them outlives the one that started them, and what they measured is never lost."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from obs_exporter.probe.lifeline import Lifeline
from obs_exporter.probe.load import Stop, arrivals
from obs_exporter.probe.processes import ProcessesError, run_processes
from obs_exporter.probe.results import read_records, read_result, requests_path
from obs_exporter.probe.truth.process import TruthProcess

PROBE = [sys.executable, "-m", "obs_exporter.probe.cli"]
QUICK = ["--warmup", "0", "--repeats", "1", "--no-calibration", "--timeout", "5"]


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def shards_of(folder: Path) -> list[int]:
    """Return the processes whose command line names this folder's shards."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_bytes().decode(errors="replace") if place.name.isdecimal() else ""
        except OSError:
            continue
        if "--shard" in command and str(folder) in command:
            found.append(int(place.name))
    return found


def test_shards_end_when_their_parent_is_killed_and_can_be_merged(truth_server: TruthProcess, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PROBE, "run", "--url", truth_server.url, "--concurrency", "4", "--duration", "60", "--processes", "2",
         "--output", str(tmp_path / "x.json"), *QUICK],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        grown = [0, 0]

        def measured() -> bool:
            grown[:] = [file.stat().st_size for file in tmp_path.rglob("*.jsonl")]
            return sum(size > 2000 for size in grown) == 2

        assert wait_for(measured)
        assert len(shards_of(tmp_path)) == 2
    finally:
        process.kill()
        process.wait()
    ended = wait_for(lambda: not shards_of(tmp_path), 10)
    for shard in shards_of(tmp_path):
        os.kill(shard, signal.SIGKILL)
    assert ended
    (left,) = tmp_path.glob(".obs-probe-*")
    parts = [read_result(file) for file in sorted(left.glob("*.json"))]
    assert [part["shard"] for part in parts] == ["0/2", "1/2"]
    for part in parts:
        assert part["partial"] is True
        assert "program that started this run is gone" in part["partial_reason"]
        assert part["finished_at"] is not None
    merged = subprocess.run(
        [*PROBE, "merge", str(left), "--output", str(tmp_path / "x.json")], capture_output=True, text=True, timeout=30
    )
    assert merged.returncode == 1, merged.stderr
    (level,) = read_result(tmp_path / "x.json")["levels"]
    records = [record for file in left.glob("*.jsonl") for record in read_records(file)]
    assert level["requests"] + level["cancelled"] == len(records)
    assert level["requests"] >= 8
    assert level["goodput"] == 1.0


def test_a_run_ends_with_its_standard_input_when_asked(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    process = subprocess.Popen(
        [*PROBE, "run", "--url", truth_server.url, "--concurrency", "2", "--duration", "60", "--stop-at-eof",
         "--output", str(output), *QUICK],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert wait_for(lambda: requests_path(output).exists() and requests_path(output).stat().st_size > 1000)
    out, err = process.communicate(timeout=10)  # closes standard input
    assert process.returncode == 1, err
    assert "PARTIAL RESULT: standard input ended" in out
    assert read_result(output)["levels"][0]["requests"] > 0


def test_a_stop_that_was_asked_for_before_keeps_its_reason() -> None:
    read, write = os.pipe()
    stop = Stop()
    lifeline = Lifeline(stop, read)
    lifeline.watch()
    os.write(write, b"what is written is not looked at")
    time.sleep(0.05)
    assert not stop.requested
    stop.requested = True
    os.close(write)
    time.sleep(0.05)
    os.close(read)
    assert lifeline.reason == ""


def test_what_cannot_be_merged_stays(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    arguments = ["--url", truth_server.url, "--concurrency", "2", "--requests-per-level", "4", *QUICK]

    def heard(_: object) -> None:
        output.write_text("somebody else's")  # while the load runs

    with pytest.raises(ProcessesError, match=r"left as it is.*what was measured is in .*obs-probe merge"):
        run_processes(arguments, 2, "r", output, Stop(), heard, lambda _: None)
    assert output.read_text() == "somebody else's"
    (left,) = tmp_path.glob(".obs-probe-*")
    assert sum(1 for file in left.glob("*.jsonl") for _ in read_records(file)) == 4


def test_when_this_process_fails_no_shard_runs_on(truth_server: TruthProcess, tmp_path: Path) -> None:
    arguments = ["--url", truth_server.url, "--concurrency", "2", "--duration", "60", *QUICK]

    def heard(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(ProcessesError, match="the disk is full"):
        run_processes(arguments, 2, "r", tmp_path / "x.json", Stop(), heard, lambda _: None)
    assert shards_of(tmp_path) == []
    assert list(tmp_path.glob(".obs-probe-*/*.json"))


def test_a_stopped_parent_leaves_nothing_behind(truth_server: TruthProcess, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PROBE, "run", "--url", truth_server.url, "--concurrency", "2", "--duration", "60", "--processes", "2",
         "--output", str(tmp_path / "x.json"), *QUICK],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert wait_for(lambda: sum(file.stat().st_size > 500 for file in tmp_path.rglob("*.jsonl")) == 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1, err
    assert read_result(tmp_path / "x.json")["partial_reason"].count("stopped by a signal") == 2
    assert not list(tmp_path.glob(".obs-probe-*"))


def test_an_open_loop_is_the_same_load_from_several_processes(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    command = [
        sys.executable, "-m", "obs_exporter.probe.cli", "run", "--url", truth_server.url, "--model", "truth", "--rate",
        "60", "--requests-per-level", "90", "--repeats", "1", "--warmup", "0", "--no-calibration", "--quiet", "--seed",
        "5", "--max-client-error", "0.5", "--processes", "3", "--output", str(output),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (level,) = read_result(output)["levels"]
    assert level["client"]["limited"] == ""
    records = sorted(read_records(requests_path(output)), key=lambda record: record.index)
    assert [record.index for record in records] == list(range(90))
    times = list(itertools.islice(arrivals(60, "5/0/60"), 90))
    begun = [record.started_at - (record.late_s or 0.0) for record in records]
    # The shards begin together to within their meeting's patience; every gap is that of the one process that was drawn.
    offsets = [seen - at for seen, at in zip(begun, times, strict=True)]
    for shard in range(3):
        own = offsets[shard::3]
        assert max(own) - min(own) < 0.001
    assert max(offsets) - min(offsets) < 0.3
