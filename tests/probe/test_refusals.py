"""A target that refuses every request for good is told at once, not hammered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from obs_exporter.probe.cli import main
from obs_exporter.probe.guard import FIRST, Guard, TargetRefusesError
from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.request import parse_endpoint
from obs_exporter.probe.results import read_records, read_result, requests_path

from .conftest import QuietHandler, serving

Answer = Callable[[Any, int], tuple[int, bytes]]


@contextmanager
def answering(answer: Answer, models: object = None) -> Iterator[tuple[str, list[str]]]:
    """Serve (status, JSON body) for each POST and ``models`` for a GET; yield the address and the paths asked for."""
    asked: list[str] = []

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802 - the name is inherited
            self.asked_body = json.loads(self.body())
            asked.append(self.path)
            status, body = answer(self, len(asked))
            self.reply(body, status, "application/json")

        def do_GET(self) -> None:  # noqa: N802 - the name is inherited
            if models is None:
                self.send_error(404)
                return
            self.reply(json.dumps(models).encode(), kind="application/json")

    with serving(Handler) as url:
        yield url, asked


GOOD = json.dumps({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}).encode()


def refuse(status: int, said: str = "no") -> Answer:
    return lambda _handler, _number: (status, json.dumps({"error": {"message": said}}).encode())


def run(url: str, output: Path, *arguments: str, model: str | None = "m", **environment: str) -> Any:
    named = ["--model", model] if model else []
    fixed = ["run", "--url", url, *named, "--output", str(output), "--no-calibration", "--repeats", "1"]
    return CliRunner(env=environment).invoke(main, [*fixed, *arguments])


@pytest.mark.parametrize(
    ("status", "path", "words"),
    [
        (404, "", "/v1"),
        (405, "/openai", "/openai/v1"),
        (404, "/v1", "--model"),
        (401, "/v1", "OBS_PROBE_API_KEY"),
        (403, "/v1", "OBS_PROBE_API_KEY"),
        (400, "/v1", "the request options"),
    ],
)
@pytest.mark.parametrize("warmup", ["0", "1", "8"])
def test_a_refusal_ends_the_run_with_a_hint(tmp_path: Path, status: int, path: str, words: str, warmup: str) -> None:
    with answering(refuse(status, "wrong thing")) as (url, asked):
        done = run(url + path, tmp_path / "x.json", "--concurrency", "4", "--warmup", warmup)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert f"HTTP {status}: wrong thing" in done.output
    assert len(asked) <= max(int(warmup), FIRST + 4)  # those that count, and what was on its way in the four slots
    result = read_result(tmp_path / "x.json")
    assert result["partial"] is True
    assert str(status) in result["partial_reason"]


def test_what_was_refused_under_load_is_kept(tmp_path: Path) -> None:
    with answering(refuse(404)) as (url, asked):
        run(url, tmp_path / "x.json", "--concurrency", "2", "--warmup", "0")
    records = list(read_records(requests_path(tmp_path / "x.json")))
    assert FIRST <= len(records) <= len(asked)


def test_a_wrong_url_is_told_before_the_first_request_too(tmp_path: Path) -> None:
    with answering(refuse(404)) as (url, asked):
        done = CliRunner().invoke(main, ["run", "--url", url, "--output", str(tmp_path / "x.json")])
    assert (done.exit_code, asked) == (2, [])
    assert f"{url}/v1" in done.output


@pytest.mark.parametrize("status", [429, 408, 500, 503])
def test_what_may_pass_is_measured(tmp_path: Path, status: int) -> None:
    with answering(refuse(status)) as (url, asked):
        done = run(url, tmp_path / "x.json", "--concurrency", "2", "--requests-per-level", "6")
    assert done.exit_code == 1, "measured to its end, and no request succeeded"
    assert len(asked) == 7


def test_one_good_answer_among_the_first_is_enough(tmp_path: Path) -> None:
    with answering(lambda _, number: (200, GOOD) if number == 2 else (404, b"{}")) as (url, _):
        done = run(url, tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "6", "--warmup", "1")
    assert done.exit_code == 1, done.output
    assert read_result(tmp_path / "x.json")["levels"][0]["errors"] == {"http_error": 6}


def test_fewer_requests_than_that_are_enough_when_all_are_refused(tmp_path: Path) -> None:
    with answering(refuse(404)) as (url, asked):
        done = run(url, tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "1", "--warmup", "0")
    assert (done.exit_code, len(asked)) == (2, 1)


def test_different_refusals_are_no_reason_to_stop() -> None:
    guard = Guard(parse_endpoint("http://h:1"), has_key=False)
    for index, status in enumerate((404, 400, 404, 404, 404)):
        guard.add(Record("short", 1, None, 0, index, "x", Outcome.HTTP_ERROR, False, 0.0, "HTTP", status))
        guard.check()
    assert guard.refused == 0


def test_a_key_that_is_not_accepted_is_called_so() -> None:
    guard = Guard(parse_endpoint("http://h:1/v1"), has_key=True)
    for index in range(FIRST):
        guard.add(Record("short", 1, None, 0, index, "x", Outcome.HTTP_ERROR, False, 0.0, "HTTP 401", 401))
    with pytest.raises(TargetRefusesError, match="is not accepted"):
        guard.check()
