"""Waivers: what they cover, that they end, and that a mistake in their file names its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
GOOD = """waivers:
  - signal: preemptions
    stack: triton
    reason: the side port comes with the next image
    expires: 2026-12-31
  - check: signal_hidden
    reason: nobody needs it
    expires: 2026-12-31
"""


def audited(run: Run, path: Path, today: str, *flags: str) -> tuple[int, list[dict[str, object]]]:
    result = run(
        "--stack", "triton", "--stack-version", "24.12", "--waivers", path, "--today", today, "--format", "json", *flags
    )
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)["findings"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "waivers.yaml"
    file.write_text(GOOD, encoding="utf-8")
    return file


def test_a_waiver_covers_its_signal_and_its_check_until_its_last_day(run: Run, path: Path) -> None:
    _, findings = audited(run, path, "2026-12-31")
    waived = {(f["check"], f["signal"]) for f in findings if f["waived"]}
    assert ("signal_lost", "preemptions") in waived
    assert ("signal_hidden", "ttft") in waived
    assert ("signal_lost", "kv_cache_usage") not in waived
    assert not [f for f in findings if f["check"] == "waiver_expired"]


def test_an_expired_waiver_waives_nothing_and_is_a_finding(run: Run, path: Path) -> None:
    code, findings = audited(run, path, "2027-01-01", "--fail-on", "lost")
    assert code == 1
    assert not [f for f in findings if f["waived"]]
    expired = [f for f in findings if f["check"] == "waiver_expired"]
    assert [f["severity"] for f in expired] == ["error", "error"]
    assert str(expired[0]["source"]).endswith("waivers.yaml:2")
    assert "the side port comes with the next image" in str(expired[0]["message"])


def test_waived_findings_open_the_gate_and_are_still_shown(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    flags = ("--stack", "triton", "--stack-version", "24.12", "--fail-on", "hidden")
    assert run(*flags).exit_code == 1
    rows = "".join(
        f"  - {{check: {check}, reason: known, expires: 2030-01-01}}\n" for check in ("signal_lost", "signal_hidden")
    )
    file.write_text("waivers:\n" + rows, encoding="utf-8")
    result = run(*flags, "--waivers", file, "--today", "2026-12-01")
    assert result.exit_code == 0
    assert "waived" in result.output
    assert "preemptions" in result.output


def test_a_waiver_that_covers_nothing_is_named(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("waivers: [{signal: layer_queue_wait, reason: x, expires: 2030-01-01}]\n", encoding="utf-8")
    _, findings = audited(run, file, "2026-12-01")
    assert [f["check"] for f in findings if str(f["check"]).startswith("waiver")] == ["waiver_unused"]


def test_one_of_another_stack_is_passed_over(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    row = "waivers: [{signal: preemptions, stack: ray-serve, reason: x, expires: 2020-01-01}]\n"
    file.write_text(row, encoding="utf-8")
    _, findings = audited(run, file, "2026-12-01")
    assert not [f for f in findings if f["waived"] or str(f["check"]).startswith("waiver")]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD.replace("reason: the", "raeson: the"), 4, "unknown key 'raeson'; did you mean 'reason'?"),
        (GOOD.replace("signal: preemptions", "signal: premptions"), 2, "did you mean 'preemptions'?"),
        (GOOD.replace("stack: triton", "stack: tritn"), 3, "no such stack"),
        (GOOD.replace("check: signal_hidden", "check: hidden_signal"), 6, "no such check"),
        (GOOD.replace("    expires: 2026-12-31\n", "", 1), 2, "expires: is missing"),
        (GOOD.replace("2026-12-31", "soon", 1), 2, "must be a day such as 2026-12-31"),
        (GOOD.replace("  - check: signal_hidden\n    reason", "  - reason"), 6, "needs signal: or check:"),
        (GOOD.replace("waivers:", "waiver:"), 1, "the one key waivers:"),
        (GOOD + "    reason: again\n", 9, "stands twice"),
        (GOOD.replace("reason: nobody needs it", "reason: [a]"), 7, "reason must be text"),
        ("waivers: {}\n", 1, "must be a list"),
        ("waivers: [x]\n", 1, "must be a mapping"),
        ("", 1, "must be a mapping"),
        ("waivers: [\n", 2, "this is no YAML"),
    ],
)
def test_a_mistake_names_its_line_and_what_was_expected(
    text: str, line: int, words: str, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(text, encoding="utf-8")
    result = run("--stack", "triton", "--waivers", file)
    assert result.exit_code == 2
    assert f"w.yaml:{line}: " in result.output
    assert words in result.output


def test_a_file_that_cannot_be_read_is_no_traceback(run: Run, tmp_path: Path) -> None:
    assert run("--stack", "triton", "--waivers", tmp_path / "none").exit_code == 2
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    result = run("--stack", "triton", "--waivers", tmp_path / "latin")
    assert result.exit_code == 2
    assert "no UTF-8" in result.output
