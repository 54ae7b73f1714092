"""Log lines have the formats of real ones, and their numbers are the truth."""

from __future__ import annotations

import re

import pytest

from obs_exporter.simulator import LAYERS, Closed, Config, Engine, Idle, Lengths, Restart, Run, Steady, simulate

V1_STATS = re.compile(
    r"\(APIServer pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[loggers\.py:\d+\] Engine 000: "
    r"Avg prompt throughput: (\d+\.\d) tokens/s, Avg generation throughput: (\d+\.\d) tokens/s, "
    r"Running: (\d+) reqs, Waiting: (\d+) reqs, \w+ KV cache usage: (\d+\.\d)%, Prefix cache hit rate: (\d+\.\d)%"
)
V0_STATS = re.compile(
    r"INFO \d\d-\d\d \d\d:\d\d:\d\d metrics\.py:\d+\] Avg prompt throughput: (\d+\.\d) tokens/s, "
    r"Avg generation throughput: (\d+\.\d) tokens/s, Running: (\d+) reqs, Swapped: 0 reqs, Pending: (\d+) reqs, "
    r"GPU KV cache usage: (\d+\.\d)%, CPU KV cache usage: 0\.0%\."
)
V1_START = re.compile(
    r"\(EngineCore pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[kv_cache_utils\.py:\d+\] "
    r"\w+ KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: (\d+\.\d\d)x"
)
FINISHED = re.compile(
    r"INFO \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} default_LLMDeployment:tiny \w{8} ([0-9a-f-]{36}) -- "
    r"Request \1 finished \(length\)\. Total time: ([\d.e-]+)s, Queue time: ([\d.e-]+)s, Generation\+async time: ([\d.e-]+)s, "
    r"Input tokens: (\d+), Generated tokens: (\d+), tokens/s: [\d.]+, generated tokens/s: [\d.]+\."
)

# Lines of real servers, so that the patterns above are known to fit them (vLLM 0.32.0, 0.29.0 and Ray 2.44.1).
REAL = (
    (
        V1_STATS,
        "(APIServer pid=12660) INFO 11-29 17:26:42 [loggers.py:335] Engine 000: Avg prompt throughput: 246.9 tokens/s, "
        "Avg generation throughput: 146.0 tokens/s, Running: 3 reqs, Waiting: 13 reqs, CPU KV cache usage: 87.0%, "
        "Prefix cache hit rate: 0.0%",
    ),
    (
        V1_START,
        "(EngineCore pid=732) INFO 11-29 16:57:00 [kv_cache_utils.py:2032] GPU KV cache size: 1,048,576 tokens, "
        "Maximum concurrency for 1,024 tokens per request: 1024.00x",
    ),
    (
        FINISHED,
        "INFO 2026-11-29 17:14:38,287 default_LLMDeployment:tiny nh89dfej 44851625-9a6b-4aa8-924a-42697491ee1e -- "
        "Request 44851625-9a6b-4aa8-924a-42697491ee1e finished (length). Total time: 0.09135935199992673s, "
        "Queue time: 1.6450881958007812e-05s, Generation+async time: 0.09134290111796872s, Input tokens: 12, "
        "Generated tokens: 4, tokens/s: 175.16413212381016, generated tokens/s: 43.79103303095254.",
    ),
)


@pytest.mark.parametrize(("pattern", "line"), REAL)
def test_the_patterns_fit_real_lines(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.fullmatch(line)


def test_v1_prints_capacity_then_a_line_every_ten_seconds_while_busy(busy: Run) -> None:
    first, *rest = busy.log_lines("vllm", 100.0)
    start = V1_START.fullmatch(first.text)
    assert start
    assert start.groups() == ("2,064", "2,048", "1.01")
    assert all(V1_STATS.fullmatch(line.text) for line in rest)
    # 40 s of load and its tail, one line of zeros, then silence until the load comes back.
    assert [line.t for line in rest] == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
    assert "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%" in rest[-1].text
    assert busy.log_lines("vllm", 130.0)[-1].t == 130.0


def test_v1_throughput_is_that_of_the_interval(busy: Run) -> None:
    truth = busy.truth()
    line = next(line for line in busy.log_lines("vllm", 40.0) if line.t == 20.0)
    found = V1_STATS.fullmatch(line.text)
    assert found
    made = sum(1 for one in truth.requests for moment in one.token_times if 10e9 < moment <= 20e9)
    assert float(found[2]) == pytest.approx(made / 10, abs=0.051)


def test_no_v1_line_tells_of_preemptions(busy: Run) -> None:
    assert busy.truth().preemptions > 50
    assert not any("reempt" in line for line in busy.log("vllm", busy.end))


def test_v0_warns_of_every_fiftieth_preemption_and_says_the_number(busy: Run) -> None:
    lines = [line for line in busy.log("vllm-v0", busy.end) if "is preempted by" in line]
    numbers = [int(line.rpartition("total_num_cumulative_preemption=")[2]) for line in lines]
    assert numbers == list(range(1, busy.truth().preemptions + 1, 50))
    assert len(numbers) >= 2


def test_v0_lines(busy: Run) -> None:
    lines = busy.log("vllm-v0", 20.0)
    assert lines[1].endswith("Maximum concurrency for 2048 tokens per request: 1.00x")
    stats = [V0_STATS.fullmatch(line) for line in lines if "Avg prompt" in line]
    assert len(stats) == 4
    for found in stats:
        assert found
        assert 0 < float(found[5]) <= 100


def test_the_stacks_that_swallow_the_periodic_line(busy: Run) -> None:
    for face in ("triton", "ray-serve"):
        lines = busy.log(face, busy.end)
        assert len(lines) == 1
        assert V1_START.fullmatch(lines[0])


def test_ray_244_logs_each_requests_queue_time() -> None:
    config = Config(engine=Engine(max_num_seqs=4), layer=LAYERS["ray-2.44"], phases=(Closed(20.0, 16),))
    run = simulate(config, 1)
    files = run.log_files("ray-serve-2.44", run.end + 60)
    replica = next(lines for name, lines in files.items() if name.startswith("serve/replica_default_LLMDeployment"))
    found = [FINISHED.fullmatch(line) for line in replica if " finished (" in line]
    waits = sorted(float(one[3]) for one in found if one)
    truth = sorted(one.queue_wait_v0 for one in run.truth().finished if one.queue_wait_v0 is not None)
    assert waits == pytest.approx(truth)
    worker = next(lines for name, lines in files.items() if name.startswith("worker-"))
    assert any(V0_STATS.fullmatch(line) for line in worker)


def test_a_restarted_engine_prints_its_capacity_again() -> None:
    run = simulate(Config(phases=(Steady(30.0, 2.0), Idle(10.0)), restarts=(Restart(12.0, 3.0),)))
    starts = [line.t for line in run.log_lines("vllm", 60.0) if "KV cache size" in line.text]
    assert starts == [0.0, 15.0]
    stats = [line.t for line in run.log_lines("vllm", 60.0) if "Avg prompt" in line.text]
    assert stats[:2] == [10.0, 25.0], "the interval starts anew"


def test_the_hit_rate_is_that_of_the_prompts() -> None:
    config = Config(phases=(Steady(30.0, 3.0),), prompt_tokens=Lengths(128.0), cached_prefix_tokens=64)
    found = V1_STATS.fullmatch(simulate(config).log("vllm", 20.0)[-1])
    assert found
    assert 45.0 < float(found[6]) < 50.0


def test_an_earlier_log_is_a_beginning_of_a_later_one(busy: Run) -> None:
    late = busy.log("vllm-v0", 90.0)
    early = busy.log("vllm-v0", 33.0)
    assert late[: len(early)] == early
    assert len(early) < len(late)
