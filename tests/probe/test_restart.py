"""A restart between repeats: it is run, waited for, and told when it fails; what was measured before is kept."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from obs_exporter.probe.cli import main
from obs_exporter.probe.discover import Hop, answers
from obs_exporter.probe.load import Stop
from obs_exporter.probe.request import TRITON_GENERATE, parse_endpoint
from obs_exporter.probe.restart import Restart, RestartError, ready_path
from obs_exporter.probe.results import read_result
from obs_exporter.probe.truth.process import TruthProcess


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def run(server: TruthProcess, output: Path, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main,
        ["run", "--url", server.url, "--concurrency", "2", "--requests-per-level", "4", "--no-calibration", "--quiet",
         "--output", str(output), *more],
    )  # fmt: skip
    return done.exit_code, done.output


def test_it_waits_until_the_server_is_back() -> None:
    hop = Hop(parse_endpoint(f"http://127.0.0.1:{(port := free_port())}/v1"))
    server = f"{sys.executable} -m obs_exporter.probe.truth.server --port {port}"
    path = ready_path(hop, "chat", "truth")
    assert not answers(hop, path)
    Restart(f"(sleep 0.3; sleep 5 | {server}) > /dev/null 2>&1 &", hop, path, 30).run(Stop())
    assert answers(hop, path)


def test_a_server_that_does_not_come_back() -> None:
    hop = Hop(parse_endpoint(f"http://127.0.0.1:{free_port()}"))
    path = ready_path(hop, TRITON_GENERATE, "a b")
    assert path == "/v2/models/a%20b/ready"
    with pytest.raises(RestartError, match=r"GET /v2/models/a%20b/ready does not answer 200 within 0\.3 s"):
        Restart("true", hop, path, 0.3).run(Stop())


def test_a_command_that_hangs_is_ended_by_its_time_and_by_a_stop() -> None:
    hop = Hop(parse_endpoint("http://127.0.0.1:1/v1"))
    with pytest.raises(RestartError, match=r"did not end within 0\.3 s: so far"):
        Restart("echo so far; exec sleep 60", hop, "/v1/models", 0.3).run(Stop())
    stop = Stop()
    threading.Timer(0.3, lambda: setattr(stop, "requested", True)).start()
    began = time.monotonic()
    Restart("exec sleep 60", hop, "/v1/models", 60).run(stop)
    assert time.monotonic() - began < 30


def test_each_repeat_but_the_first_begins_with_a_restart(truth_server: TruthProcess, tmp_path: Path) -> None:
    log = tmp_path / "log"
    output = tmp_path / "x.json"
    code, said = run(truth_server, output, "--repeats", "3", "--restart-command", f"echo again >> {log}")
    assert code == 0, said
    assert log.read_text().splitlines() == ["again", "again"]
    assert read_result(output)["load"]["restarts"] is True
    compared = CliRunner().invoke(main, ["compare", str(output), str(output), "--format", "text"])
    assert "a repeat after a restart (a server life); 3 and 3 server lives" in " ".join(compared.output.split())


def test_only_one_of_several_processes_restarts(truth_server: TruthProcess, tmp_path: Path) -> None:
    log = tmp_path / "log"
    output = tmp_path / "x.json"
    command = [
        sys.executable, "-m", "obs_exporter.probe.cli", "run", "--url", truth_server.url, "--concurrency", "2",
        "--quiet", "--requests-per-level", "4", "--no-calibration", "--output", str(output), "--repeats", "2",
        "--processes", "2",
        "--restart-command", f"echo again >> {log}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == ["again"]
    result = read_result(output)
    assert [level["requests"] for level in result["levels"]] == [4, 4]
    assert result["load"]["restarts"] is True


def test_a_restart_that_fails_ends_the_run_and_loses_nothing(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    code, said = run(truth_server, output, "--repeats", "2", "--restart-command", "echo no such pod; exit 3")
    assert code == 2
    assert "--restart-command ended with status 3: no such pod" in said
    result = read_result(output)
    assert result["partial"]
    assert [level["requests"] for level in result["levels"]] == [4]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--repeats", "1", "--restart-command", "true"], "--repeats must be 2 or more"),
        (["--repeats", "2", "--restart-command", " "], "is empty"),
        (["--repeats", "2", "--restart-command", "true", "--shard", "0/2", "--run-id", "r"], "needs --rendezvous"),
    ],
)
def test_restarts_that_make_no_sense(
    truth_server: TruthProcess, tmp_path: Path, options: list[str], words: str
) -> None:
    code, said = run(truth_server, tmp_path / "x.json", *options)
    assert code == 2
    assert words in said
