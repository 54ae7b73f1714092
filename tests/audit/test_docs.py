"""Every command line of the audit's docs is understood, and every file they name exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from obs_audit.checks import CHECKS
from obs_audit.cli import main
from obs_audit.waivers import load

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "audit.md").read_text(encoding="utf-8")


def test_every_command_line_is_understood() -> None:
    commands = [line.split(" #")[0].strip() for line in TEXT.splitlines() if line.startswith("obs-audit ")]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command)[1:]
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0, command


def test_every_flag_that_is_named_exists() -> None:
    known = {flag for command in (main, *main.commands.values()) for p in command.params for flag in p.opts}
    named = set(re.findall(r"`(--[a-z-]+)", TEXT)) | set(re.findall(r"obs-audit .*?(--[a-z-]+)", TEXT))
    assert named
    assert named <= known


def test_files_that_are_named_exist() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert targets
    assert all((DOCS / target).exists() for target in targets)
    assert {path.stem for path in (DOCS / "checks").glob("*.md")} >= {check.id for check in CHECKS}


def test_the_example_of_waivers_is_a_file_of_waivers(tmp_path: Path) -> None:
    file = tmp_path / "waivers.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)[0], encoding="utf-8")
    (waiver,) = load(file, [check.id for check in CHECKS])
    assert waiver.signal == "preemptions"
