"""An exercise: requests through a real server whose counters move right, not at all, or by the wrong amount."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from obs_audit import exercise
from obs_exporter.simulator import Config, Engine
from obs_exporter.simulator.live import LiveOptions, LiveThread

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "DEFAULT_SETTLE", 0.0)


def exercised(run: Run, engine: Any, *flags: object) -> tuple[int, dict[str, Any]]:
    result = run(
        "--stack", "vllm", "--url", engine.url, "--exercise", engine.url, "--model", "tiny", "--format", "json", *flags
    )
    return result.exit_code, json.loads(result.stdout)


def about(report: dict[str, Any], *checks: str) -> list[tuple[str, str, str]]:
    return [(f["check"], f["signal"], f["message"]) for f in report["findings"] if f["check"] in checks]


EXERCISE = ("signal_stale", "moved_wrong", "exercise_failed")


def test_an_honest_server_has_nothing_to_answer_for(run: Run, engine: Any) -> None:
    engine.requests = engine.prompt_tokens = engine.generation_tokens = 1000
    _, report = exercised(run, engine)
    assert about(report, *EXERCISE) == []
    assert report["exercise"]["requests"] == exercise.REQUESTS
    assert report["exercise"]["completion_tokens"] == exercise.REQUESTS * exercise.TOKENS
    assert engine.requests == 1000 + exercise.REQUESTS


def test_a_dead_counter_is_stale(run: Run, engine: Any) -> None:
    engine.lie, engine.prompt_tokens = "dead", 77
    code, report = exercised(run, engine, "--fail-on", "lost")
    assert code == 1
    assert [(check, signal) for check, signal, _ in about(report, *EXERCISE)] == [("signal_stale", "prompt_tokens")]
    (row,) = [row for row in report["signals"] if row["id"] == "prompt_tokens"]
    assert row["state"] == "stale"
    assert f"{exercise.REQUESTS} requests" in row["reason"]


@pytest.mark.parametrize(("lie", "words"), [("half", "(-50%)"), ("twice", "twice the")])
def test_a_wrong_amount_is_said_in_numbers(lie: str, words: str, run: Run, engine: Any) -> None:
    engine.lie = lie
    code, report = exercised(run, engine, "--fail-on", "lost")
    assert code == 1
    ((check, signal, message),) = about(report, *EXERCISE)
    assert (check, signal) == ("moved_wrong", "prompt_tokens")
    assert words in message
    assert str(report["exercise"]["prompt_tokens"]) in message


def test_without_usage_only_requests_are_compared(run: Run, engine: Any) -> None:
    engine.lie = "no usage"
    _, report = exercised(run, engine)
    assert about(report, *EXERCISE) == []
    assert report["exercise"]["untold"] == exercise.REQUESTS


def test_an_unknown_model_is_said(run: Run, engine: Any) -> None:
    result = run(
        "--stack", "vllm", "--url", engine.url, "--exercise", engine.url, "--model", "huge", "--format", "json",
        "--fail-on", "lost",
    )  # fmt: skip
    assert result.exit_code == 1
    ((_, _, message),) = about(json.loads(result.stdout), *EXERCISE)
    assert message == f"{exercise.REQUESTS} of {exercise.REQUESTS} requests failed: answered HTTP 404"


def test_a_hard_exercise_has_many_clients(run: Run, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise, "HARD_CLIENTS", 8)
    monkeypatch.setattr(exercise, "HARD_REQUESTS", 16)
    _, report = exercised(run, engine, "--exercise-hard")
    assert report["exercise"]["hard"]
    assert engine.requests == 16
    assert about(report, *EXERCISE) == []


@pytest.mark.parametrize(("strict", "longest"), [(False, 512), (True, 512), (False, 200), (True, 200)])
def test_a_hard_exercise_knows_the_lengths_where_the_server_lets_it(
    strict: bool, longest: int, run: Run, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "HARD_CLIENTS", 4)
    monkeypatch.setattr(exercise, "HARD_REQUESTS", 8)
    engine.strict, engine.longest = strict, longest
    _, report = exercised(run, engine, "--exercise-hard")
    assert about(report, *EXERCISE) == []
    tokens = 512 if longest >= 512 else 128
    assert len(engine.bodies) == 8
    assert {body["max_tokens"] for body in engine.bodies} == {tokens}
    fields = {(body.get("ignore_eos"), body.get("min_tokens")) for body in engine.bodies}
    assert fields == {(None, None) if strict else (True, tokens)}
    assert all(len(body["messages"][0]["content"].split()) > tokens / 2 for body in engine.bodies)


def test_a_simulated_engine_with_room_for_short_answers_only_is_made_to_preempt(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "HARD_CLIENTS", 16)
    monkeypatch.setattr(exercise, "HARD_REQUESTS", 16)
    engine = Engine(max_num_seqs=8, num_blocks=300, step_s=0.0005, prefill_token_s=0.0, decode_seq_s=0.0)
    with LiveThread(Config(engine=engine), LiveOptions()) as live:
        flags = ("--stack", "vllm", "--url", live.url, "--exercise", live.url, "--model", "tiny", "--exercise-hard")
        said = run(*flags).output
    assert "16 requests answered, 0 failed" in said
    assert "preemptions: moved by " in said
    assert "moved_wrong" not in said


def test_on_an_engine_with_a_small_cache_the_counters_agree_and_a_hard_exercise_preempts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exercise, "HARD_REQUESTS", 48)
    engine = Engine(
        max_num_seqs=8, num_blocks=17, max_model_len=256, step_s=0.002, prefill_token_s=0.0, decode_seq_s=0.0
    )
    with LiveThread(Config(engine=engine), LiveOptions()) as live:
        flags = ("--stack", "vllm", "--url", live.url, "--exercise", live.url, "--model", "tiny")
        small = json.loads(run(*flags, "--format", "json").stdout)
        assert about(small, *EXERCISE) == []
        assert small["exercise"]["requests"] == exercise.REQUESTS
        said = run(*flags, "--exercise-hard").output
    assert "48 requests answered, 0 failed" in said
    assert "preemptions: moved by " in said
    assert "moved_wrong" not in said


def test_stored_with_the_evidence_it_is_judged_alike(run: Run, engine: Any, tmp_path: Path) -> None:
    engine.lie = "half"
    flags = ("--stack", "vllm", "--url", engine.url, "--exercise", engine.url, "--model", "tiny")
    assert run("gather", tmp_path / "e", *flags).exit_code == 0
    report = json.loads(run("--from", tmp_path / "e", "--format", "json").stdout)
    assert [check for check, _, _ in about(report, *EXERCISE)] == ["moved_wrong"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--exercise", "http://h"), "needs --model"),
        (("--exercise", "http://h", "--model", "m"), "needs --url"),
        (("--exercise-hard",), "needs --exercise"),
        (("--exercise", "ftp://h", "--model", "m", "--url", "http://h"), "no http or https URL"),
    ],
)
def test_half_an_exercise_is_refused_before_anything_is_sent(flags: tuple[str, ...], words: str, run: Run) -> None:
    result = run("--stack", "vllm", *flags)
    assert result.exit_code == 2
    assert words in result.output
