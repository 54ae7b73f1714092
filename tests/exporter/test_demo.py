"""The embedded demo: four live stacks, the exporter on them, and nothing left behind."""

from __future__ import annotations

import threading
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from obs_exporter.demo import staged
from obs_exporter.stacks import STACKS


def _values(url: str, name: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=20) as response:  # noqa: S310 - our own server on 127.0.0.1
        text = response.read().decode()
    return {
        sample.labels["stack"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_all_four_stacks_are_up_and_under_load_and_end_clean() -> None:
    before = threading.active_count()
    with staged(clients=3) as stage:
        assert set(stage.apis) == set(STACKS)
        assert _values(f"{stage.metrics}/metrics", "obs_exporter_target_up") == dict.fromkeys(STACKS, 1.0)
        deadline = time.monotonic() + 60
        busy: dict[str, float] = {}
        while time.monotonic() < deadline and not {"vllm", "kserve"} <= {name for name, value in busy.items() if value}:
            busy = _values(f"{stage.metrics}/metrics", "llm_requests_running")
            time.sleep(0.3)
        assert busy["vllm"] > 0
        assert busy["kserve"] > 0
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert threading.active_count() <= before
