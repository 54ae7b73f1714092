"""The command line as people use it: real processes, exit codes, and no traceback whatever is given."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent


def _run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([BIN / "obs-exporter", *arguments], input=stdin, capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in done.stderr
    return done


@pytest.fixture
def preempting(page: Callable[[str], bytes], tmp_path: Path) -> str:
    path = tmp_path / "page.txt"
    path.write_bytes(page("vllm/0.32.0-real-preempting/after"))
    return str(path)


def test_map_prints_the_schema(preempting: str) -> None:
    done = _run("map", "--stack", "vllm", "--file", preempting)
    assert done.returncode == 0
    assert b'llm_preemptions_total{engine="0",model="tiny",stack="vllm",target="file"} 19.0\n' in done.stdout
    assert done.stderr == b""
    assert _run("map", "--stack", "vllm", "--file", preempting).stdout == done.stdout


def test_map_takes_the_newest_of_successive_pages_and_standard_input(
    page: Callable[[str], bytes], preempting: str
) -> None:
    idle = page("vllm/0.32.0-real-preempting/idle")
    done = _run("map", "--stack", "vllm", "--file", preempting, "--file", "-", stdin=idle)
    assert b'llm_preemptions_total{engine="0",model="tiny",stack="vllm",target="file"} 0.0\n' in done.stdout


def test_map_from_a_url(serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes]) -> None:
    server = serve(fixed(page("ray/2.60.0-llm-vllm0.29.0/after")))
    done = _run("map", "--stack", "ray-serve", "--url", server.url)
    assert done.returncode == 0
    assert b"llm_request_queue_seconds_count" in done.stdout


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a":1}', b"\x00\xff" * 500, b"# TYPE nv_x counter\nnv_x 1\n"])
def test_map_of_rubbish_ends_with_2_and_a_reason(body: bytes) -> None:
    done = _run("map", "--stack", "vllm", "--file", "-", stdin=body)
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: ")
    assert b'state="unreachable"' in done.stdout
    assert b"obs_exporter_target_up{" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("map", "--stack", "vllm"), b"--file or with --url"),
        (("map", "--stack", "sglang", "--file", "-"), b"'ray-serve'"),
        (("map", "--stack", "vllm", "--file", "/none"), b"/none: No such file"),
        (("map", "--stack", "vllm", "--file", "/"), b"Is a directory"),
        (
            ("map", "--stack", "vllm", "--file", "-", "--stack-version", "new"),
            b"'new' is not a version",
        ),
        (("map", "--stack", "vllm", "--url", "ftp://x"), b"--url"),
        (("map", "--stack", "vllm", "--url", "http://127.0.0.1:9"), b"refused"),
        (("serve",), b"--stack and --url"),
        (("serve", "--stack", "vllm", "--url", "h", "--listen", "nowhere"), b"HOST:PORT"),
        (("serve", "--config", "x.yml", "--stack", "vllm"), b"leave --stack out"),
        (("serve", "--config", "/none.yml"), b"/none.yml: No such file"),
        (("check-config", "/none.yml"), b"/none.yml: No such file"),
        (("nothing",), b"No such command"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_to_do(arguments: tuple[str, ...], word: bytes) -> None:
    done = _run(*arguments)
    assert done.returncode == 2
    assert word in done.stderr


def test_signals_in_three_forms() -> None:
    rows = json.loads(_run("signals", "--format", "json").stdout)
    assert rows[0]["signal"] == "requests_running"
    assert all(row["metric"].startswith("llm_") for row in rows)
    assert b"| `llm_preemptions_total` |" in _run("signals", "--format", "markdown").stdout
    assert b"llm_preemptions_total" in _run("signals").stdout


def test_check_config_hides_secrets(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("targets:\n  - {stack: vllm, url: 'http://user:pw@h:1/m?token=x', name: a}\n")
    done = _run("check-config", str(path))
    assert done.returncode == 0
    assert b"vllm at http://h:1/m" in done.stdout
    assert b"pw" not in done.stdout
    assert b"token" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_runs_until_it_is_told_to_stop(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], number: signal.Signals
) -> None:
    server = serve(fixed(page("vllm/0.32.0-real-preempting/after")))
    arguments = [BIN / "obs-exporter", "serve", "--stack", "vllm", "--url", server.url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        url = line.split("serving ")[1].strip()
        with urllib.request.urlopen(url, timeout=20) as response:  # noqa: S310
            assert b"llm_preemptions_total" in response.read()
        process.send_signal(number)
        assert process.wait(20) == 0
        assert b"Traceback" not in process.stderr.read()


def test_a_taken_port_is_said(serve: Callable[..., Any], fixed: Callable[..., Any]) -> None:
    taken = serve(fixed(b"")).url.removeprefix("http://")
    done = _run("serve", "--stack", "vllm", "--url", "h", "--listen", taken)
    assert done.returncode == 2
    assert b"cannot listen on" in done.stderr
