"""The command: its errors are for people, and it says where it serves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from obs_exporter.simulator import FACES
from obs_exporter.simulator.cli import FACE_NAMES, simulate


def test_the_command_knows_all_faces() -> None:
    assert sorted(FACES) == list(FACE_NAMES)


def test_help_needs_no_heavy_module() -> None:
    code = (
        "import sys\n"
        "from obs_exporter.simulator.cli import simulate\n"
        "simulate(['--help'], standalone_mode=False)\n"
        "print(sorted(set(sys.modules) & {'prometheus_client', 'yaml', 'asyncio', 'requests'}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "--face" in done.stdout


def test_it_prints_the_page_of_a_moment(tmp_path: Path) -> None:
    workload = tmp_path / "load.yaml"
    workload.write_text("phases:\n  - {kind: bursts, seconds: 1, size: 7, every_s: 5}\n")
    arguments = ["--face", "triton", "--config", str(workload), "--page-at", "60"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0
    assert 'nv_inference_request_success{model="tiny",version="1"} 7\n' in result.output


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["--listen", "8000"], "", "is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "", "is not HOST:PORT"),
        (["--max-num-seqs", "0"], "", "engine.max_num_seqs is 0"),
        (["--config", "FILE"], "layer: nginx", "layer is 'nginx'"),
        (["--config", "FILE"], "- a", "must be a mapping, not list"),
        (["--config", "FILE"], "a: [", "cannot be read as YAML"),
        (["--config", "FILE"], "outages: [{start: 0, end: 9}]", "there is no page at 5.0 s"),
        (["--face", "tgi"], "", "'tgi' is not one of"),
    ],
)
def test_wrong_usage_is_told_and_exits_with_2(tmp_path: Path, arguments: list[str], text: str, message: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    given = [str(file) if one == "FILE" else one for one in arguments]
    result = CliRunner().invoke(simulate, [*given, "--page-at", "5"])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_it_serves_until_it_is_interrupted() -> None:
    command = [sys.executable, "-c", "from obs_exporter.simulator.cli import simulate; simulate()"]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--face", "ray-serve"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("ray-serve: http://127.0.0.1:")
        url = line.split()[1].rstrip(",")
        assert b"target_info" in requests.get(url, timeout=10).content
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == "stopped\n"
