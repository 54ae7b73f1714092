"""What the README shows is what the commands print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from obs_audit.cli import main as audit
from obs_exporter.cli import main as exporter
from obs_exporter.probe.cli import main as probe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = {"obs-exporter": exporter, "obs-audit": audit, "obs-probe": probe}
BIN = Path(sys.executable).parent


def _shown(command: str) -> list[str]:
    """The lines of the block that follows a command in the README."""
    return README.split(f"(`{command}`")[1].split("```")[1].strip().splitlines()


def _printed(command: str) -> list[str]:
    words = shlex.split(command)
    done = subprocess.run([BIN / words[0], *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_page_and_the_report_are_as_they_look() -> None:
    for command in (
        "obs-exporter map --stack vllm --file tests/data/vllm/0.32.0-real-preempting/during-3.txt",
        "obs-audit --stack triton --stack-version 25.10",
    ):
        printed = [_sorted_labels(line) for line in _printed(command)]
        for line in _shown(command):
            if line.strip() not in ("", "..."):
                assert _sorted_labels(line.rstrip()) in printed


def _sorted_labels(line: str) -> str:
    name, brace, rest = line.partition("{")
    labels, closing, value = rest.rpartition("} ")
    if not (brace and closing and name.startswith("llm_")):
        return line
    pairs = sorted(re.findall(r'\w+="[^"]*"', labels))
    return f"{name}{{{','.join(pairs)}}} {value}"


def test_every_command_line_in_the_docs_is_understood() -> None:
    runner = CliRunner()
    lines = [line.split("#")[0].strip() for line in README.splitlines()]
    commands = {line for line in lines if line.startswith(tuple(f"{name} " for name in PROGRAMS))}
    assert commands
    for command in commands:
        words = shlex.split(command)
        result = runner.invoke(PROGRAMS[words[0]], [*words[1:], "--help"])
        assert result.exit_code == 0, command


def test_files_named_in_the_docs_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
