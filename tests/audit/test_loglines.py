"""The engine's log: where it is, what to expect there, what real logs hold, and the settings that took effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from obs_audit import loglines
from obs_audit.evidence import files

Run = Callable[..., Result]
PageOf = Callable[[str], bytes]
RAY_LOG = (
    "ray/2.60.0-llm-vllm0.29.0/logs/worker-0f3215b2503af2451fa19f8fdbc4248863e793c3b530eb737c5a9e09-01000000-521.out"
)


def found(body: bytes) -> loglines.Found:
    return loglines.read("log", loglines.excerpt(body.decode().splitlines()))


def kinds(stack: str, release: str, engine: str, generation: str) -> set[str]:
    return {line.id for line in loglines.expected(stack, release, engine, generation)}


@pytest.mark.parametrize(
    ("stack", "release", "words"),
    [
        ("ray-serve", "2.44.1", "_EngineBackgroundProcess"),
        ("ray-serve", "2.60.0", "the replica's worker-*.out"),
        ("triton", "24.12", "the periodic line of the V0 engine"),
        ("triton", "25.10", "no periodic line"),
        ("kserve", "0.20.0", "kserve-container"),
        ("vllm", "", "standard output"),
    ],
)
def test_each_stack_keeps_it_elsewhere(stack: str, release: str, words: str) -> None:
    assert words in loglines.place(stack, release)


def test_a_real_log_has_every_line_that_is_expected_of_it(page_of: PageOf) -> None:
    log = found(page_of("vllm/0.32.0-real-preempting/server.log"))
    assert kinds("vllm", "0.32.0", "0.32.0", "V1") <= set(log.lines)
    assert log.settings["max_num_seqs"] == "16"
    assert log.settings["max_model_len"] == "512"
    assert len(log.lines["periodic"]) == 2  # the first and the last of many


def test_rays_worker_log_has_the_start_up_lines_and_no_periodic_one(page_of: PageOf) -> None:
    log = found(page_of(RAY_LOG))
    assert kinds("ray-serve", "2.60.0", "0.29.0", "V1") <= set(log.lines)
    assert "periodic" not in log.lines
    assert "periodic" not in kinds("ray-serve", "2.60.0", "0.29.0", "V1")


@pytest.mark.parametrize(
    ("stack", "release", "engine", "generation", "periodic"),
    [
        ("triton", "24.12", "0.5.5", "V0", True),
        ("triton", "25.10", "0.10.2", "V1", False),
        ("ray-serve", "2.44.1", "0.7.2", "V0", True),
        ("vllm", "0.7.2", "0.7.2", "V0", True),
    ],
)
def test_the_periodic_line_is_expected_where_it_is_written(
    stack: str, release: str, engine: str, generation: str, periodic: bool
) -> None:
    assert ("periodic" in kinds(stack, release, engine, generation)) is periodic


def test_old_lines_are_known() -> None:
    log = found(
        b"INFO Initializing an LLM engine (v0.5.5) with config: model='m'\n"
        b"INFO # GPU blocks: 27897, # CPU blocks: 2048\n"
        b"WARNING Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache "
        b"space. total_num_cumulative_preemption=51\n"
        b"INFO Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, "
        b"Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 37.5%, CPU KV cache usage: 0.0%.\n"
    )
    assert {"engine_start", "kv_capacity", "preemption", "periodic"} <= set(log.lines)


def test_the_wrong_log_is_named_as_such(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "replica.log"
    log.write_text("INFO Replica started\n", encoding="utf-8")
    flags = ("--stack", "ray-serve", "--stack-version", "2.44.1", "--engine-log", log)
    document = json.loads(run(*flags, "--format", "json").stdout)
    (finding,) = [f for f in document["findings"] if f["check"] == "log_lines"]
    assert "_EngineBackgroundProcess" in finding["remedy"]
    assert document["engine_log"]["given"] == [str(log)]
    assert not any(line["found"] for line in document["engine_log"]["expected"])
    assert "not there: " in run(*flags).output


# -- --expect ---------------------------------------------------------------------------------------------------


def expected(run: Run, page: Path, log: Path, *pairs: str) -> list[tuple[str, str]]:
    flags = [word for pair in pairs for word in ("--expect", pair)]
    result = run("--stack", "vllm", "--file", page, "--engine-log", log, "--format", "json", *flags)
    findings = json.loads(result.stdout)["findings"]
    return [(f["severity"], f["message"]) for f in findings if f["check"] == "setting_differs"]


def test_settings_are_held_against_the_page_and_the_log(run: Run, tmp_path: Path, page_of: PageOf) -> None:
    page, log = tmp_path / "page.txt", tmp_path / "server.log"
    page.write_bytes(page_of("vllm/0.32.0-real-preempting/after.txt"))
    log.write_bytes(page_of("vllm/0.32.0-real-preempting/server.log"))
    right = (
        "max_model_len=512",
        "--max-num-seqs=16",
        "block_size=32",
        "num_gpu_blocks=24",
        "enable_prefix_caching=True",
    )
    assert expected(run, page, log, *right) == []
    ((severity, message),) = expected(run, page, log, "max_num_seqs=64")
    assert severity == "error"
    assert message == f"max_num_seqs was to be 64, and {log} says 16"
    blocks = expected(run, page, log, "block_size=16")
    assert len(blocks) == 2  # the page's label and the log's argument
    ((severity, message),) = expected(run, page, log, "swap_space=4")
    assert severity == "warning"
    assert "nothing here tells swap_space" in message


def test_a_huge_log_is_read_at_both_ends_and_says_so(tmp_path: Path) -> None:
    """10 GB, of which the middle is a hole without a line's end: read whole it would fill the memory."""
    log = tmp_path / "engine.log"
    log.write_bytes(b"INFO 11-29 10:00:00 x] GPU KV cache size: 247,024 tokens\n")
    with log.open("r+b") as handle:
        handle.truncate(10 * 1024**3)
        handle.seek(0, 2)
        handle.write(b"\nINFO 11-29 11:00:00 x] GPU KV cache size: 1,024 tokens\n")
    (piece,) = files.logs(str(log))
    found = loglines.read("log", piece.body.decode()).lines
    assert [row.partition(" ")[2] for row in found["kv_capacity"]] == [
        "11-29 10:00:00 GPU KV cache size: 247,024 tokens",
        "11-29 11:00:00 GPU KV cache size: 1,024 tokens",
    ]
    assert len(found["passed_over"]) == 1


def test_a_year_and_a_zone_stay_in_an_excerpt() -> None:
    (row, _) = loglines.excerpt(["2026-11-29T10:00:00.25+05:45 F INFO 11-29 10:00:00 # GPU blocks: 7"]).splitlines()
    assert row == "1: 2026-11-29 10:00:00+05:45 # GPU blocks: 7"


def test_what_a_user_asks_is_no_line_of_the_engine() -> None:
    """Prompts with the very texts of signal lines, of settings and of failures, as V0 logs them."""
    texts = (
        "GPU KV cache size: 5 tokens", "Initializing an LLM engine (v0.6.3) with config: max_seq_len=5",
        "non-default args: {'max_num_seqs': 999}", "[vllm] Metrics not supported",
        "AsyncLLM created with api_server_count more than 1; disabling stats logging",
    )  # fmt: skip
    for text in texts:
        line = f"INFO 11-29 10:00:00 engine.py:291] Received request c1: prompt: {text!r}, params: x"
        log = found(line.encode())
        assert not log.settings
        assert not log.lines
