"""Derived signals over real HTTP: outages, logs that vanish, polite asking, and looks between the scrapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from obs_exporter.cli import main
from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target, load
from obs_exporter.look import Looker
from obs_exporter.mapping_once import rendered
from obs_exporter.sampling import Sampler
from obs_exporter.schema import Histogram, State
from obs_exporter.sources.scrape import Access
from obs_exporter.stacks import Claims, Known

DATA = Path(__file__).parents[1] / "data"
V1_0_7_2 = Claims(engine_version=Known(("0.7.2",), "given"))
_STATS = (
    "INFO {:%m-%d %H:%M:%S} metrics.py:455] Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 2.0 tokens/s, Running: 4 reqs, Swapped: 0 reqs, "
    "Pending: 12 reqs, GPU KV cache usage: 87.5%, CPU KV cache usage: 0.0%.\n"
)


def stats(ago: float = 0.0) -> str:
    """A periodic line of so many seconds ago, as an engine in Kathmandu stamps it."""
    return _STATS.format(datetime.now(timezone(timedelta(hours=5, minutes=45))) - timedelta(seconds=ago))


class Server:
    """What a target answers next, to be changed by the test."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = 200
        self.asked = 0

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked += handler.path == "/metrics"
        handler.send_response(self.status)
        handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        handler.wfile.write(self.body)


@contextmanager
def looking(target: Target) -> Iterator[Looker]:
    looker = Looker(target)
    try:
        yield looker
    finally:
        looker.close()


def waiting_page(waiting: int, began: int) -> bytes:
    """A page of vLLM 0.7.2's V1 engine, which has no queue time."""
    page = (DATA / "vllm/0.7.2-rendered/v1-load.txt").read_bytes()
    lines = []
    for line in page.split(b"\n"):
        if line.startswith(b"vllm:num_requests_waiting{"):
            line = line.rpartition(b" ")[0] + f" {waiting}.0".encode()
        if line.startswith(
            (b"vllm:time_to_first_token_seconds_count", b'vllm:time_to_first_token_seconds_bucket{le="+Inf"')
        ):
            line = line.rpartition(b" ")[0] + f" {began}.0".encode()
        if line.startswith(b"vllm:time_to_first_token_seconds_sum"):
            line = line.rpartition(b" ")[0] + f" {began * 10}.0".encode()
        lines.append(line)
    return b"\n".join(lines)


def queue(look: Any) -> tuple[float, float]:
    (series,) = look.reading.answer("queue_wait").series
    assert isinstance(series, Histogram)
    return series.sum, series.count


def test_an_outage_adds_nothing_and_says_that_the_page_is_unreachable(serve: Callable[..., Any]) -> None:
    server = Server(waiting_page(5, 10))
    target = Target("t", "vllm", Access(serve(server).url), V1_0_7_2)
    with looking(target) as looker:
        looker.look()
        before = looker.look()
        server.status = 500
        down = looker.look()
        assert down.reading.answer("queue_wait").state is State.UNREACHABLE
        server.status, server.body = 200, waiting_page(5, 999)
        after = looker.look()
        assert queue(after) == queue(before), "the 989 requests of the outage are in neither sum nor count"


def test_looks_between_scrapes_fill_the_integral(serve: Callable[..., Any]) -> None:
    """Two scrapes see a queue of 0; the looks between them see the 50 that waited."""
    server = Server(waiting_page(0, 10))
    target = Target("t", "vllm", Access(serve(server).url), V1_0_7_2, sample_seconds=0.05)
    collector = TargetCollector([target])
    try:
        collector.look(9.0)
        collector.look(9.0)
        server.body = waiting_page(50, 10)
        collector.sample()
        deadline = time.monotonic() + 20
        while server.asked < 8 and time.monotonic() < deadline:
            time.sleep(0.05)
        server.body = waiting_page(0, 20)
        total, count = 0.0, 0.0
        while count != 10 and time.monotonic() < deadline:  # a scrape may share a look that began before the change
            ((_, look),) = collector.look(9.0)
            total, count = queue(look)
    finally:
        collector.close()
    assert count == 10
    assert total > 0
    assert server.asked >= 8


@pytest.mark.parametrize(
    ("stack", "page", "claims", "sampled"),
    [
        ("vllm", "vllm/0.7.2-rendered/v1-load.txt", V1_0_7_2, True),
        ("vllm", "vllm/0.32.0-real/during.txt", Claims(), False),
        ("triton", "triton/24.10-python-model/during.txt", Claims(), False),
    ],
    ids=["needs an integral", "has its own histogram", "has nothing to integrate"],
)
def test_only_a_target_that_needs_it_is_sampled(
    serve: Callable[..., Any], stack: str, page: str, claims: Claims, sampled: bool
) -> None:
    target = Target("t", stack, Access(serve(Server((DATA / page).read_bytes())).url), claims)
    with looking(target) as looker:
        assert looker.sample_again == 0.0
        looker.look()
        assert (looker.sample_again >= 1.0) is sampled


def test_a_page_that_loses_its_gauges_is_asked_every_10_seconds_at_most(
    serve: Callable[..., Any], page: Callable[[str], bytes]
) -> None:
    body = page("ray/2.60.0-llm-vllm0.29.0/during").replace(b'Version="2.60.0"', b'Version="2.55.1"')
    server = Server(body)
    target = Target("r", "ray-serve", Access(serve(server).url))
    with looking(target) as looker:
        first = looker.look()
        time.sleep(0.05)
        second = looker.look()
        assert server.asked == 1
        assert second.reading == first.reading
        assert second.page_age >= 0.05
        assert looker.sample_again == 0.0
    text = rendered([(target, second)])
    (age,) = [s.value for f in text_string_to_metric_families(text) for s in f.samples if "page_age" in s.name]
    assert age == second.page_age


def test_a_newer_ray_is_asked_every_time(serve: Callable[..., Any], page: Callable[[str], bytes]) -> None:
    server = Server(page("ray/2.60.0-llm-vllm0.29.0/during"))
    with looking(Target("r", "ray-serve", Access(serve(server).url))) as looker:
        looker.look()
        looker.look()
        assert server.asked == 2


def test_a_log_fills_what_the_page_lacks_and_its_end_is_said(
    serve: Callable[..., Any], page: Callable[[str], bytes], tmp_path: Path
) -> None:
    log = tmp_path / "worker-1.out"
    log.write_text(stats())
    url = serve(Server(page("ray/2.44.1-llm-standin-engine/during"))).url
    target = Target("r", "ray-serve", Access(url), engine_logs=(str(tmp_path / "worker-*.out"),))
    with looking(target) as looker:
        answer = looker.look().reading.answer("kv_cache_usage")
        assert answer.state is State.LOG
        log.unlink()
        answer = looker.look().reading.answer("kv_cache_usage")
        assert (answer.state, answer.series) == (State.STALE, ())
        log.write_text(stats())
        assert looker.look().reading.answer("kv_cache_usage").state is State.LOG


@pytest.mark.parametrize(("ago", "state"), [(5, State.LOG), (200, State.STALE)])
def test_an_old_line_under_fresh_access_lines_is_stale_from_the_start(
    ago: float, state: State, serve: Callable[..., Any], page: Callable[[str], bytes], tmp_path: Path
) -> None:
    log = tmp_path / "worker-1.out"
    log.write_text(stats(ago) + 'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 5)
    url = serve(Server(page("ray/2.44.1-llm-standin-engine/during"))).url
    with looking(Target("r", "ray-serve", Access(url), engine_logs=(str(log),))) as looker:
        answer = looker.look().reading.answer("kv_cache_usage")
    assert answer.state is state
    assert bool(answer.series) is (state is State.LOG)


def test_the_log_speaks_while_the_page_is_down(serve: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(stats())
    server = Server(b"")
    server.status = 503
    target = Target("v", "vllm", Access(serve(server).url), engine_logs=(str(log),))
    with looking(target) as looker:
        reading = looker.look().reading
    assert reading.answer("kv_cache_usage").state is State.LOG
    assert reading.answer("preemptions").state is State.UNREACHABLE


def test_a_sampler_leaves_a_hanging_look_behind() -> None:
    """Each look is a job of its own: one that never ends holds up no other."""

    class Hangs:
        sample_again = 1.0

        def sample(self) -> None:
            raise AssertionError("jobs are run by whoever took them")

    jobs: list[Callable[[], None]] = []
    sampler = Sampler([Hangs(), Hangs()], jobs.append)
    sampler.tick(0.0)
    assert not jobs, "the first is due after its period"
    sampler.tick(1.0)
    sampler.tick(1.5)
    sampler.tick(2.0)
    assert len(jobs) == 4


def test_stopping_ends_the_sampler() -> None:
    before = set(threading.enumerate())
    sampler = Sampler([], lambda job: job())
    sampler.start()
    (own,) = [thread for thread in threading.enumerate() if thread.name == "sampler" and thread not in before]
    sampler.stop()
    assert not own.is_alive()


def test_map_with_successive_pages_and_a_log(tmp_path: Path) -> None:
    pages = [tmp_path / f"{number}.txt" for number in range(3)]
    for number, path in enumerate(pages):
        path.write_bytes(waiting_page(6, 10 + 20 * number))
    files = [argument for path in pages for argument in ("--file", str(path))]
    result = CliRunner().invoke(
        main, ["map", "--stack", "vllm", *files, "--interval", "10", "--engine-version", "0.7.2"]
    )
    assert result.exit_code == 0
    assert 'llm_request_queue_seconds_sum{engine="",model="m",stack="vllm",target="file"} 120.0' in result.output
    assert 'llm_request_queue_seconds_count{engine="",model="m",stack="vllm",target="file"} 40.0' in result.output


def test_map_reads_capacity_from_a_log() -> None:
    page = DATA / "triton/24.10-vllm0.32.0-custom-metrics/during.txt"
    log = DATA / "vllm/0.32.0-real-preempting/server.log"
    result = CliRunner().invoke(main, ["map", "--stack", "triton", "--file", str(page), "--engine-log", str(log)])
    assert (
        'llm_kv_cache_capacity_tokens{engine="",model="vllm_model",stack="triton",target="file"} 768.0' in result.output
    )


_CONFIG = """
targets:
  - stack: triton
    url: http://127.0.0.1:8002
    engine_logs: [/var/log/a-*.log, /var/log/b.log]
    gpu: true
    max_num_seqs: 256
    block_size: 32
    kv_capacity_tokens: 247024
    estimate_kv_usage: true
    stale_after_seconds: 60
    sample_seconds: 0
"""


def test_the_configuration_knows_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "targets.yml"
    path.write_text(_CONFIG)
    (target,) = load(path).targets
    assert target.engine_logs == ("/var/log/a-*.log", "/var/log/b.log")
    assert target.gpu
    assert target.sample_seconds == 0
    settings = target.settings
    assert (settings.max_num_seqs, settings.block_size, settings.kv_capacity) == (256, 32, 247_024)
    assert (settings.estimate_kv_usage, settings.stale_after) == (True, 60)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_num_seqs: 0", "less than 1"),
        ("stale_after_seconds: 0", "outside 1 to 3600"),
        ("sample_seconds: -1", "outside 0 to 60"),
        ("engine_logs: {a: b}", "a glob of log files"),
        ("engine_log: x", "did you mean 'engine_logs'"),
    ],
)
def test_mistakes_in_it_are_told_with_their_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "targets.yml"
    path.write_text(f"targets:\n  - stack: vllm\n    url: http://h\n    {line}\n")
    result = CliRunner().invoke(main, ["check-config", str(path)])
    assert result.exit_code == 2
    assert message in result.output
    assert "targets.yml:4:" in result.output
