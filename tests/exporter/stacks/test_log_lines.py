"""Every log format of every release that carries a signal, and lines that must not be taken for one."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.stacks.log_lines import ENGINE_START, parse_line

CATALOGUE = Path(__file__).parents[2] / "data/vllm/log_formats.csv"
ROWS = list(csv.DictReader(CATALOGUE.read_text(encoding="utf-8").splitlines()))
PREFIXES = {
    "vllm": "INFO 11-29 17:26:42 [loggers.py:335] ",
    "process": "(EngineCore_DP0 pid=1) INFO 11-29 17:26:42 [x.py:1] ",
    "cri": "2026-11-29T17:26:42.123456789Z stdout F INFO 11-29 17:26:42 x.py:1] ",
    "0.32": "(EngineCore pid=1) INFO 11-29 17:26:42 [kv_cache_utils.py:2327] ",
    "triton": "I1129 17:26:42.123456 1 pb_stub.cc:402] INFO 11-29 17:26:42 x.py:1] ",
    "triton iso": "2026-11-29T17:26:42Z I 1 pb_stub.cc:402] INFO 11-29 17:26:42 [x.py:1] ",
    "inside": "INFO 11-29 17:26:42 [x.py:1] (EngineCore) ",
    "worker": "(VllmWorkerProcess pid=1) INFO 11-29 17:26:42 x.py:1] ",
    "docker": "2026-11-29T17:26:42.123Z INFO 11-29 17:26:42 [x.py:1] ",
    "kubectl": "[pod/llm-7d9-x/vllm] INFO 11-29 17:26:42 [x.py:1] ",
    "compose": "vllm-1  | (APIServer pid=1) INFO 11-29 17:26:42 [x.py:1] ",
    "syslog": "Nov 29 17:26:42 host vllm[77]: INFO 11-29 17:26:42 [x.py:1] ",
    "progress": "Loading: 100% 1/1\rINFO 11-29 17:26:42 [x.py:1] ",
    "coloured level": "\x1b[32mINFO\x1b[0m 11-29 17:26:42 \x1b[90m[x.py:1]\x1b[0m ",
    "ray's actor": "(_EngineBackgroundProcess pid=7, ip=10.0.0.1) INFO 11-29 17:26:42 x.py:1] ",
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
    if "preemptions" in row["carries"]:
        prefix = prefix.replace("INFO", "WARNING")
    line = prefix + filled(row["format"])
    for fact in parse_line(line):
        found.update(fact.values)
    assert found == pytest.approx(wanted)


def test_the_catalogue_has_both_generations_and_every_kind() -> None:
    carried = " ".join(row["carries"] for row in ROWS)
    for name in ("requests_running", "kv_cache_usage", "kv_cache_capacity", "blocks", "preemptions", "memory_bytes"):
        assert name in carried
    assert len(ROWS) > 25


def test_deferred_requests_wait_too() -> None:
    line = "Running: 3 reqs, Waiting: 4 reqs, Deferred: 2 reqs, GPU KV cache usage: 12.5%, MM cache hit rate: 1.0%"
    (fact,) = parse_line(f"INFO x] Engine 011: Avg prompt throughput: 1.0 tokens/s, {line}")
    assert (fact.engine, fact.value("requests_waiting")) == ("11", 6)


def test_a_periodic_line_without_usage_still_counts_requests() -> None:
    (fact,) = parse_line("INFO x] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs")
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
    assert not list(parse_line(f"INFO 11-29 17:26:42 [x.py:1] {line}"))


# -- what users write -------------------------------------------------------------------------------------------

SIGNALS = [filled(row["format"]) for row in ROWS if row["carries"]]
LEVEL = {line: "WARNING" if "preemption=" in line else "INFO" for line in SIGNALS}
QUOTING = (
    "INFO 09-12 14:03:11 engine.py:291] Received request c1: prompt: {!r}, params: SamplingParams(n=1)",
    "INFO 09-12 14:03:11 async_llm_engine.py:524] Received request c1: prompt: '{}', sampling_params: x",
    "(APIServer pid=1) INFO 09-12 14:03:11 [logger.py:36] Received request {}: prompt: 'hi', params: x",
    "(APIServer pid=1) INFO 09-12 14:03:11 [request_logger.py:66] {}",
    "INFO 09-12 14:03:11 async_llm.py:5] Added request {}.",
    'INFO:     127.0.0.1:4 - "GET /v1/models?x={} HTTP/1.1" 200 OK',
    "ERROR 09-12 14:03:11 [serving_chat.py:1] {}",
    "ERROR 09-12 14:03:11 [x.py:1] {}",
    "ValueError: {}",
    "{}",
    "  {}",
    "'{}',",
    "2026-11-29T17:26:42.123456789Z stdout F {}",
    "(EngineCore pid=7) {}",
    'I1129 17:26:42.123456 1 model.py:94] "{}"',
    "I1129 17:26:42.123456 1 model.py:94] {}",
    "vllm-1  | {}",
    "INFO 2026-11-29 17:14:38,287 default_LLM:tiny nh89 4485 -- Request 4485 started. Prompt: {}",
    "INFO 2026-11-29 17:14:38,287 default_LLM:tiny nh89 a b c -- {}",
)


@pytest.mark.parametrize("form", QUOTING)
def test_a_users_text_writes_no_metric(form: str) -> None:
    assert len(SIGNALS) > 20
    ray = "Request 1 finished (length). Total time: 0.9s, Queue time: 500.0s, Generation+async time: 0.4s"
    start = "Initializing an LLM engine (v0.6.3) with config: model='m'"
    for text in (*SIGNALS, ray, start):
        assert not list(parse_line(form.format(text))), text


@given(st.sampled_from(SIGNALS), st.text(max_size=40), st.text(max_size=40))
def test_a_prompt_as_v0_logs_it_writes_no_metric_whatever_stands_around(line: str, before: str, after: str) -> None:
    """Line breaks are escaped there, so that also a whole faked line with its head stays inside."""
    prompt = f"{before}\nWARNING 09-12 14:03:11 x.py:1] {line}{after}"
    assert not list(
        parse_line(f"INFO 09-12 14:03:11 engine.py:291] Received request c1: prompt: {prompt!r}, params: x")
    )


def test_a_request_id_that_looks_like_a_warning_is_passed_over() -> None:
    """Clients choose their request's id (X-Request-Id); the number that counts is the last."""
    fake = "chatcmpl-x is preempted by RECOMPUTE mode. total_num_cumulative_preemption=100001"
    line = f"Sequence group {fake} is preempted by PreemptionMode.SWAP mode because. total_num_cumulative_preemption=51"
    (fact,) = parse_line(f"WARNING 09-12 14:03:11 scheduler.py:1] {line}")
    assert fact.value("preemptions") == 51
    line = (
        f"Request x finished (a). Total time: 1s, Queue time: 9e9s, Request {'y'} finished (stop). Total time: 1.0s, "
    )
    assert not list(parse_line(f"INFO 2026-11-29 17:14:38,287 app_LLM nh89 4485 -- {line}Queue time: 0.5s, x"))


@pytest.mark.parametrize("line", SIGNALS)
def test_lines_that_are_wrapped_in_json_are_read(line: str) -> None:
    """Docker's files have the whole line, loggers that write JSON the message and its level."""
    level = LEVEL[line]
    bare = [fact.values for fact in parse_line(f"{level} 11-29 17:26:42 [x.py:1] {line}")]
    assert bare
    docker = {"log": f"{level} 11-29 17:26:42 [x.py:1] {line}\n", "stream": "stderr", "time": "2026-11-29T10:00:00Z"}
    logger = {"levelname": level, "message": line}
    for document in (docker, logger, {"level": level.lower(), "msg": line}):
        assert [fact.values for fact in parse_line(json.dumps(document))] == bare
    for document in ({"log": line}, {"levelname": "ERROR", "message": line}, {"message": f"prompt: {line}"}):
        assert not list(parse_line(json.dumps(document)))


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_numbers_of_absurd_length_are_none(digits: int) -> None:
    for line in SIGNALS:
        for number in re.findall(r"\d+", line):
            changed = line.replace(number, "9" * digits)
            for fact in parse_line(f"{LEVEL[line]} 11-29 17:26:42 [x.py:1] {changed}"):
                assert all(value <= 2**53 * 1024**3 for _, value in fact.values)
    pending = "Running: 1 reqs, Swapped: 0 reqs, Pending: {} reqs, GPU KV cache usage: 1.0%, CPU KV cache usage: 0.0%."
    assert not list(parse_line("INFO x] Avg prompt throughput: 1.0 tokens/s, " + pending.format("9" * digits)))
    wait = f"Request 1 finished (stop). Total time: 1s, Queue time: 1e{'9' * 3}s, Generation+async time: 1s"
    assert not list(parse_line(f"INFO x] {wait}"))


@given(st.text() | st.sampled_from(ROWS).map(lambda row: filled(row["format"])[::-1]))
def test_no_line_is_an_error(line: str) -> None:
    list(parse_line(line))


@pytest.mark.parametrize(
    ("head", "engine", "origin"),
    [
        ("(EngineCore_DP3 pid=9) INFO 11-29 17:26:42 [x.py:1] ", "3", "EngineCore_DP3 pid=9"),
        ("(EngineCore_0 pid=9) INFO 11-29 17:26:42 [x.py:1] ", "0", "EngineCore_0 pid=9"),
        ("INFO (EngineCore_1) ", "1", "EngineCore_1"),
        ("(EngineCore pid=9) INFO 11-29 17:26:42 [x.py:1] ", "", "EngineCore pid=9"),
        ("[pod/a/vllm] (Worker_TP1 pid=9) INFO [x.py:1] ", "", "pod/a/vllm Worker_TP1 pid=9"),
        ("INFO 11-29 17:26:42 [x.py:1] ", "", ""),
    ],
)
def test_the_process_names_the_engine(head: str, engine: str, origin: str) -> None:
    (fact,) = parse_line(f"{head}GPU KV cache size: 90,000 tokens")
    assert (fact.engine, fact.origin) == (engine, origin)
