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
from obs_exporter.probe.load import Stop
from obs_exporter.probe.restart import Restart, RestartError
from obs_exporter.probe.results import read_result
from obs_exporter.probe.truth.process import TruthProcess


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def gone(pid: int) -> bool:
    """Whether a process ends within moments; whoever adopted it may not have noticed yet (Z)."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z"):
                return True
        except OSError:  # no such process, or it ended as it was read
            return True
        time.sleep(0.02)
    return False


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def run(server: TruthProcess, output: Path, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(
        main,
        ["run", "--url", server.url, "--concurrency", "2", "--requests-per-level", "4", "--no-calibration", "--quiet",
         "--output", str(output), *more],
    )  # fmt: skip
    return done.exit_code, done.output


def test_it_waits_until_the_server_answers_a_request(tmp_path: Path) -> None:
    """One without /models, which is not there for a while after the command."""
    port = free_port()
    server = f"{sys.executable} -m obs_exporter.probe.truth.server --port {port}"
    background = f"(sleep 0.4; sleep 8 | {server}) > /dev/null 2>&1 &"
    first = subprocess.Popen(server.split(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not listens(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        done = CliRunner().invoke(
            main, ["run", "--url", f"http://127.0.0.1:{port}/nowhere", "--model", "truth", "--concurrency", "1",
                   "--requests-per-level", "2", "--repeats", "2", "--no-calibration", "--min-tokens", "5",
                   "--output", str(tmp_path / "x.json"), "--restart-timeout", "20",
                   "--restart-command", f"kill {first.pid}; {background}"],
        )  # fmt: skip
    finally:
        first.kill()
        first.communicate()
    assert done.exit_code == 0, done.output
    assert [level["good"] for level in read_result(tmp_path / "x.json")["levels"]] == [2, 2]


def test_a_server_that_does_not_come_back() -> None:
    with pytest.raises(RestartError, match=r"answers no request within 0\.3 s of --restart-command: no one there"):
        Restart("true", 0.3).run(Stop(), lambda: "no one there")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    command = f"echo so far; sh -c 'echo $$ > {inner}; exec sleep 60'; true"
    with pytest.raises(RestartError, match=r"did not end within 1 s: so far"):
        Restart(command, 1).run(Stop(), lambda: "")
    assert gone(int(inner.read_text()))
    stop = Stop()
    threading.Timer(1, lambda: setattr(stop, "requested", True)).start()
    began = time.monotonic()
    Restart(command, 60).run(stop, lambda: "never asked")
    assert time.monotonic() - began < 30
    assert gone(int(inner.read_text()))


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
