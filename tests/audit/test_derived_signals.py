"""An audit says what the exporter would derive: from the page, from the later look at it, and from the engine's log."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from obs_audit.cli import main
from obs_audit.evidence.deriving import derived
from obs_exporter.exposition import parse
from obs_exporter.stacks import STACKS, Claims, Known, read_page

DATA = Path(__file__).parents[1] / "data"
V0_LOG = (
    "INFO 11-29 10:00:00 executor_base.py:110] # CUDA blocks: 1000, # CPU blocks: 0\n"
    "INFO 11-29 10:00:00 executor_base.py:115] Maximum concurrency for 4096 tokens per request: 3.91x\n"
    "WARNING 11-29 10:00:09 scheduler.py:1559] Sequence group 1 is preempted by PreemptionMode.RECOMPUTE mode because "
    "there is not enough KV cache space. total_num_cumulative_preemption=51\n"
    "INFO 11-29 10:00:10 metrics.py:455] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
    "Running: 4 reqs, Swapped: 0 reqs, Pending: 12 reqs, GPU KV cache usage: 87.5%, CPU KV cache usage: 0.0%.\n"
)


TEN = datetime(2026, 11, 29, 10, 0, tzinfo=UTC).timestamp()
"""The time at which the log says 10:00:00."""


@pytest.fixture
def ray_page(tmp_path: Path) -> Path:
    path = tmp_path / "page.txt"
    path.write_bytes(gzip.decompress((DATA / "ray/2.44.1-llm-standin-engine/after.txt.gz").read_bytes()))
    return path


def signals(*arguments: object) -> dict[str, dict[str, Any]]:
    result = CliRunner().invoke(main, [*map(str, arguments), "--format", "json"])
    assert result.exit_code == 0, result.output
    return {signal["id"]: signal for signal in json.loads(result.output)["signals"]}


def test_a_log_turns_lost_into_log(ray_page: Path, tmp_path: Path) -> None:
    log = tmp_path / "worker-1.out"
    log.write_text(V0_LOG)
    for path in (ray_page, log):
        os.utime(path, (TEN + 12, TEN + 12))
    without = signals("--stack", "ray-serve", "--file", ray_page)
    with_log = signals("--stack", "ray-serve", "--file", ray_page, "--engine-log", log)
    for signal in ("kv_cache_usage", "kv_cache_capacity", "kv_cache_max_concurrency", "preemptions"):
        assert without[signal]["state"] == "lost" or "--engine-log" in without[signal]["remedy"]
        assert with_log[signal]["state"] == "log"
    assert with_log["preemptions"]["precision"] == "lower_bound"


def test_a_v1_log_leaves_preemptions_lost(tmp_path: Path) -> None:
    page, log = tmp_path / "page.txt", tmp_path / "server.log"
    log.write_bytes((DATA / "vllm/0.32.0-real-preempting/server.log").read_bytes())
    page.write_bytes((DATA / "triton/24.10-python-model/during.txt").read_bytes())
    end = datetime(2026, 11, 29, 17, 27, 5, tzinfo=UTC).timestamp()  # five seconds after the log's last stamp
    for path in (page, log):
        os.utime(path, (end, end))
    found = signals("--stack", "triton", "--stack-version", "26.01", "--file", page, "--engine-log", log)
    assert found["kv_cache_usage"]["state"] == "log"
    assert found["preemptions"]["state"] == "lost"


@pytest.mark.parametrize(
    ("page_at", "log_at", "more", "state"),
    [
        (20, 10, "", "log"),
        (50, 10, "", "stale"),
        (15, 60, "", "log"),  # a log that was written on after the page was taken
        (35, 35, "INFO 11-29 10:00:35 launcher.py:40] Route: /health\n", "log"),
        (45, 45, "INFO 11-29 10:00:45 launcher.py:40] Route: /health\n", "stale"),
        (45, 30, "INFO 11-29 10:00:30 launcher.py:40] Route: /health\n", "stale"),
        (60, 60, 'INFO:     127.0.0.1:50000 - "GET /health HTTP/1.1" 200 OK\n' * 3, "stale"),
        (5 * 3600 + 20, 5 * 3600 + 20, "", "log"),  # a container of another zone
        (86400 * 3, 86400 * 3, "", "stale"),  # a log that was copied
    ],
)
def test_a_line_older_than_the_exporters_bound_is_stale(
    page_at: int, log_at: int, more: str, state: str, ray_page: Path, tmp_path: Path
) -> None:
    log = tmp_path / "worker-1.out"
    log.write_text(V0_LOG + more)
    os.utime(ray_page, (TEN + page_at, TEN + page_at))
    os.utime(log, (TEN + log_at, TEN + log_at))
    flags = ("--stack", "ray-serve", "--file", str(ray_page), "--engine-log", str(log))
    found = signals(*flags)
    assert found["kv_cache_usage"]["state"] == state
    assert found["kv_cache_capacity"]["state"] == "log"  # a start-up line holds as long as the engine runs
    required = CliRunner().invoke(main, [*flags, "--require", "kv_cache_usage"])
    assert required.exit_code == (1 if state == "stale" else 0)
    assert CliRunner().invoke(main, ["gather", str(tmp_path / "e"), *flags]).exit_code == 0
    assert signals("--from", tmp_path / "e")["kv_cache_usage"]["state"] == state


def test_the_layers_queue_is_derived_from_one_page(ray_page: Path) -> None:
    found = signals("--stack", "ray-serve", "--file", ray_page)["layer_queue_wait"]
    assert (found["state"], found["precision"]) == ("derived", "exact")


def test_two_looks_make_an_integral() -> None:
    body = (DATA / "vllm/0.7.2-rendered/v1-load.txt").read_bytes()
    stack, claims = STACKS["vllm"], Claims(engine_version=Known(("0.7.2",), "given"))
    page = parse(body, stack.wanted())
    reading = read_page(stack, page, claims)
    one = derived(stack, [(page, reading, 2.0)], None)
    two = derived(stack, [(page, reading, 2.0), (page, reading, 2.0)], None)
    assert not one.answer("queue_wait").state.publishes
    assert two.answer("queue_wait").state.publishes
