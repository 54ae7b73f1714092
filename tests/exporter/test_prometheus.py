"""A real Prometheus scrapes a running exporter; promtool finds nothing to say about its page, whatever the stack."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.mapping_once import from_files, rendered
from obs_exporter.server import App
from obs_exporter.sources.scrape import Access
from obs_exporter.wsgi import bind, run_in_thread

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")

# Where CI says so, a missing Prometheus is a failure, not a skip.
needs_debian = pytest.mark.skipif(
    not PROMETHEUS and not os.environ.get("CI"), reason="no prometheus here; make test installs Debian's package"
)

PAGES = {
    "vllm": "vllm/0.32.0-real-preempting/after",
    "kserve": "vllm/0.20.0-rendered/v1-load",
    "triton": "triton/24.10-vllm0.32.0-custom-metrics/after",
    "ray-serve": "ray/2.60.0-llm-vllm0.29.0/after",
}


@needs_debian
@pytest.mark.parametrize("stack", PAGES)
def test_promtool_has_nothing_to_say(stack: str, page: Callable[[str], bytes], tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_bytes(page(PAGES[stack]))
    text = rendered(from_files(Target("file", stack, Access("file")), [str(path)]))
    assert PROMTOOL
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Start a real Prometheus that scrapes an address each second; yields its base URL."""
    running: list[subprocess.Popen[bytes]] = []

    def start(target: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = tmp_path / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: llm, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        assert PROMETHEUS
        running.append(
            subprocess.Popen(
                [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                 f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        return f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.terminate()
        process.wait(20)


def _query(base: str, expression: str) -> list[dict[str, Any]]:
    url = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310
        found: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return found


def _eventually(base: str, expression: str, seconds: float = 60) -> list[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found = _query(base, expression)
        except OSError:
            found = []
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"{expression} never had an answer")


@needs_debian
def test_a_real_prometheus_finds_the_pages_values(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], prometheus: Callable[[str], str]
) -> None:
    targets = [Target(stack, stack, Access(serve(fixed(page(name))).url)) for stack, name in PAGES.items()]
    collector = TargetCollector(targets)
    server = bind(App(collector), ("127.0.0.1", 0))
    run_in_thread(server)
    try:
        base = prometheus(f"127.0.0.1:{server.server_address[1]}")
        (preemptions,) = _eventually(base, 'llm_preemptions_total{target="vllm"}')
        assert float(preemptions["value"][1]) == 19
        assert preemptions["metric"]["stack"] == "vllm"
        (mean,) = _query(base, 'llm_request_queue_seconds_sum{target="vllm"} / llm_request_queue_seconds_count')
        assert float(mean["value"][1]) == pytest.approx(252.77 / 64, rel=1e-4)
        (quantile,) = _query(
            base, 'histogram_quantile(0.5, llm_time_to_first_token_seconds_bucket{target="ray-serve"})'
        )
        assert 0 < float(quantile["value"][1]) < 60
        (layer,) = _query(base, "llm_layer_queue_seconds_sum / llm_layer_queue_seconds_count")
        assert layer["metric"]["stack"] == "triton"
        (hidden,) = _query(base, 'llm_signal_info{target="triton", signal="kv_cache_usage"}')
        assert hidden["metric"]["state"] == "lost"
        assert {
            row["metric"]["target"]: row["value"][1] for row in _query(base, "obs_exporter_target_up")
        } == dict.fromkeys(PAGES, "1")
    finally:
        server.shutdown()
        server.server_close()
        collector.close()
