"""The command line: help, wrong usage, files, and what goes to which stream."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from obs_audit.cli import main

Run = Callable[..., Result]
BIN = Path(sys.executable).parent


def test_every_flag_of_every_command_shows_an_example(run: Run) -> None:
    for command in (main, *main.commands.values()):
        for parameter in command.params:
            text = getattr(parameter, "help", None)
            if text and not getattr(parameter, "is_flag", False):
                assert "e.g." in text, (command.name, parameter.name)
    assert run("--help").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give --stack"),
        (("gather", "x"), "give --stack"),
        (("--stack", "vlm"), "vllm"),
        (("--stack", "vllm", "signals"), "do not go before 'signals'"),
        (("--stack", "vllm", "--file", "/no/such"), "No such file"),
        (("--stack", "vllm", "--url", "ftp://h"), "no http or https URL"),
        (("--stack", "vllm", "--engine-version", "new"), "'new' is not a version"),
        (("--stack", "vllm", "--expect", "max_model_len"), "no key=value"),
        (("--stack", "vllm", "--watch", "5"), "needs --url"),
        (("--stack", "vllm", "--engine-log", "/no/such*"), "no file matches"),
        (("--stack", "vllm", "--baseline", "/no/such"), "No such file"),
        (("--stack", "vllm", "--ray-sd", "gopher://h"), "no http or https URL"),
        (("--stack", "vllm", "--waivers", "/no/such"), "No such file"),
        (("--stack", "vllm", "--output", "/no/such/x"), "No such file"),
        (("explain", "premptions"), "did you mean 'preemptions'?"),
        (("matrix", "--format", "pdf"), "pdf"),
    ],
)
def test_wrong_usage_says_what_to_do_and_ends_with_2(words: tuple[str, ...], said: str, run: Run) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_from_takes_no_pages(run: Run, tmp_path: Path) -> None:
    result = run("--from", tmp_path, "--url", "http://h")
    assert result.exit_code == 2
    assert "leave --url out" in result.output


def test_a_page_from_standard_input(run: Run, page_of: Callable[[str], bytes]) -> None:
    result = run("--stack", "vllm", "--file", "-", "--format", "json", stdin=page_of("vllm/0.32.0-real/after.txt"))
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert {row["evidence"] for row in document["signals"]} == {"standard input"}


def test_the_report_goes_to_a_file_and_nothing_to_the_screen(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    result = run("--stack", "triton", "--format", "html", "--output", target)
    assert (result.exit_code, result.output) == (0, "")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_unreadable_page_is_2_with_the_report_on_stdout_and_the_reason_on_stderr(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html>login</html>", encoding="utf-8")
    result = run("--stack", "kserve", "--file", page, "--format", "json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["exit_code"] == 2
    assert "the page is HTML" in result.stderr


def test_bytes_of_any_kind_are_no_traceback(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.bin"
    page.write_bytes(bytes(range(256)) * 20 + b"\n# TYPE vllm:num_requests_running gauge\n\xff{\n")
    for form in ("text", "json", "markdown", "html", "junit", "sarif"):
        result = run("--stack", "vllm", "--file", page, "--format", form)
        assert result.exit_code in (0, 2), form
        assert result.exception is None or isinstance(result.exception, SystemExit)


def test_colours_stay_out_of_a_pipe() -> None:
    done = subprocess.run(
        [BIN / "obs-audit", "--stack", "ray-serve"], capture_output=True, check=True, env={"FORCE_COLOR": "1"}
    )
    assert b"\x1b[" not in done.stdout
