"""Every log format of every release that carries a signal, and lines that must not be taken for one."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.stacks.log_lines import ENGINE_START, parse_line

CATALOGUE = Path(__file__).parents[2] / "data/vllm/log_formats.csv"
ROWS = list(csv.DictReader(CATALOGUE.read_text(encoding="utf-8").splitlines()))
PREFIXES = {
    "bare": "",
    "vllm": "INFO 11-29 17:26:42 [loggers.py:335] ",
    "process": "(EngineCore_DP0 pid=1) INFO 11-29 17:26:42 [x.py:1] ",
    "cri": "2026-11-29T17:26:42.123456789Z stdout F INFO 11-29 17:26:42 x.py:1] ",
    "ray": "\x1b[36m(ServeReplica:app:LLM pid=7)\x1b[0m INFO 11-29 17:26:42 [x.py:1] ",
}


def filled(form: str) -> str:
    """A line that this format would print: the numbers that the catalogue's column ``carries`` is about."""
    special = [
        (r"Running: (%d|\{.*?\}) reqs", "Running: 3 reqs"), (r"(Waiting|Pending): (%d|\{.*?\}) reqs", r"\1: 4 reqs"),
        (r"KV cache usage: (%\.1f|\{.*?\})%%?", "KV cache usage: 12.5%"),
        (r"cache size: %s tokens", "cache size: 247,024 tokens"), (r"for %s tokens", "for 4,096 tokens"),
        (r"request: %\.2fx", "request: 60.31x"), (r"preemption=%d", "preemption=51"), (r"(%\.2f|%s) GiB", "6.60 GiB"),
        (r"(?<=# )%s (?=blocks)", "CUDA "), (r"^%s KV", "CPU KV"), (r", %s KV", ", XPU KV"), (r"^%s", ""),
        (r"(blocks|is): (%d|\{.*?\})", r"\1: 15326"), (r"%03d", "000"), (r"%\.\d+f|%d|\{.*?\}", "9"), (r"%s", "x"),
    ]  # fmt: skip
    for pattern, text in special:
        form = re.sub(pattern, text, form)
    return form.replace("%%", "%")


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row['first']}-{row['format'][:24]}" for row in ROWS])
def test_every_format_is_read(row: dict[str, str], prefix: str) -> None:
    wanted = {name: float(value) for name, value in (pair.split("=") for pair in row["carries"].split())}
    found: dict[str, float] = {}
    for fact in parse_line(prefix + filled(row["format"])):
        found.update(fact.values)
    assert found == pytest.approx(wanted)


def test_the_catalogue_has_both_generations_and_every_kind() -> None:
    carried = " ".join(row["carries"] for row in ROWS)
    for name in ("requests_running", "kv_cache_usage", "kv_cache_capacity", "blocks", "preemptions", "memory_bytes"):
        assert name in carried
    assert len(ROWS) > 25


def test_deferred_requests_wait_too() -> None:
    line = "Running: 3 reqs, Waiting: 4 reqs, Deferred: 2 reqs, GPU KV cache usage: 12.5%, MM cache hit rate: 1.0%"
    (fact,) = parse_line(f"Engine 011: Avg prompt throughput: 1.0 tokens/s, {line}")
    assert (fact.engine, fact.value("requests_waiting")) == ("11", 6)


def test_a_periodic_line_without_usage_still_counts_requests() -> None:
    (fact,) = parse_line("Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs")
    assert dict(fact.values) == {"requests_running": 3, "requests_waiting": 4}


@pytest.mark.parametrize("kind", ["a V1", "an", "a V0"])
def test_an_engines_start_is_seen(kind: str) -> None:
    (fact,) = parse_line(f"INFO 11-29 16:56:49 [core.py:123] Initializing {kind} LLM engine (v0.29.0) with config: x")
    assert fact.value(ENGINE_START) == 1


@pytest.mark.parametrize(
    "line",
    [
        "Running: 3 reqs", "GPU KV cache usage: high", "KV cache size: many tokens", "",
        "Engine 000: Avg prompt throughput: 1 tokens/s, Running: 3 reqs, Waiting: 4 reqs, GPU KV cache usage: 512.5%",
        "Available KV cache memory: 1.2.3 GiB",
    ],
)  # fmt: skip
def test_what_is_no_signal_is_none(line: str) -> None:
    assert not list(parse_line(line))


@given(st.text() | st.sampled_from(ROWS).map(lambda row: filled(row["format"])[::-1]))
def test_no_line_is_an_error(line: str) -> None:
    list(parse_line(line))
