"""The always-on probe: its configuration, its budget, its metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from obs_exporter.probe.cli import main
from obs_exporter.probe.metrics import ProbeMetrics, edges_with
from obs_exporter.probe.outcome import SLO
from obs_exporter.probe.budget import Budget
from obs_exporter.probe.serve import TargetProbe
from obs_exporter.probe.serve_config import ConfigError, TargetConfig, load_config, parse_config
from obs_exporter.probe.truth.process import TruthProcess

from .conftest import read_page

TARGET = {"name": "a", "url": "http://127.0.0.1:1/v1", "model": "m"}


def test_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text(
        "listen: 127.0.0.1:0\nslo: {ttft_s: 1, e2e_s: 20, tpot_s: 0.1}\n"
        "targets:\n  - {name: a, url: 'http://h:1/v1', model: m, requests_per_minute: 6, tokens_per_hour: 100}\n"
    )
    config = load_config(file)
    assert config.slo == SLO(1, 20, 0.1)
    assert config.targets[0].requests_per_minute == 6


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "the file: give keys and values"),
        ({}, "targets: give a list"),
        ({"targets": []}, "targets: give a list"),
        ({"targets": [TARGET], "lisen": "x"}, "unknown key lisen"),
        ({"targets": [TARGET | {"rpm": 1}]}, r"targets\[0\]: unknown key rpm"),
        ({"targets": [{"name": "a", "url": "http://h/v1"}]}, "model is missing"),
        ({"targets": [TARGET, TARGET]}, "'a' is given twice"),
        ({"targets": [TARGET | {"requests_per_minute": 0}]}, "requests_per_minute: give a number above 0"),
        ({"targets": [TARGET | {"requests_per_minute": "2"}]}, "requests_per_minute: give a float"),
        ({"targets": [TARGET | {"max_tokens": True}]}, "max_tokens: give a int"),
        ({"targets": [TARGET | {"jitter": 1.0}]}, "jitter"),
        ({"targets": [TARGET | {"scenario": "nope"}]}, "unknown scenario"),
        ({"targets": [TARGET | {"scenario": "chat"}]}, "unknown scenario"),
        ({"targets": [TARGET | {"api": "grpc"}]}, "unknown API"),
        ({"targets": [TARGET | {"url": "ftp://x"}]}, "not an http or https URL"),
        ({"targets": [TARGET], "slo": {"ttft": 1}}, "slo: unknown key ttft"),
        ({"targets": [TARGET], "slo": {"ttft_s": None}}, "slo.ttft_s: give a number"),
        ({"targets": [TARGET], "listen": 9}, "listen"),
    ],
)
def test_bad_configurations_are_told(data: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(data)


@pytest.mark.parametrize("text", ["a: [", "\xff", "{"])
def test_what_is_no_yaml_is_usage(tmp_path: Path, text: str) -> None:
    file = tmp_path / "probe.yaml"
    file.write_bytes(text.encode("latin-1"))
    done = CliRunner().invoke(main, ["serve", "--config", str(file)])
    assert done.exit_code == 2
    assert str(file) in done.output
    assert CliRunner().invoke(main, ["serve", "--config", str(tmp_path / "nope")]).exit_code == 2


def test_the_budget_is_of_any_hour() -> None:
    now = [0.0]
    budget = Budget(100, lambda: now[0])
    assert budget.allows(100)
    budget.spend(60)
    now[0] = 1800
    assert budget.allows(40)
    assert not budget.allows(41)
    budget.spend(40)
    now[0] = 3599
    assert not budget.allows(1)
    now[0] = 3600
    assert budget.allows(60)
    assert not budget.allows(61)


def page(metrics: ProbeMetrics) -> str:
    from prometheus_client import generate_latest

    return generate_latest(metrics.registry).decode()


def test_one_request_and_then_the_budget_is_spent(truth_server: TruthProcess) -> None:
    metrics = ProbeMetrics(SLO())
    config = TargetConfig("a", truth_server.url, "healthy", tokens_per_hour=150)
    probe = TargetProbe(config, SLO(), metrics)
    probe.once()
    probe.once()
    text = page(metrics)
    labels = 'concurrency="1",rate="",scenario="short",target="a"'
    assert f'llm_probe_requests_total{{concurrency="1",outcome="ok",{labels.partition(",")[2]}}} 1.0' in text
    assert f"llm_probe_good_requests_total{{{labels}}} 1.0" in text
    assert 'llm_probe_skipped_requests_total{reason="budget",target="a"} 1.0' in text
    assert (
        'llm_probe_output_tokens_total{concurrency="1",rate="",scenario="short",source="usage",target="a"} 12.0' in text
    )


def test_a_target_that_is_down_or_unknown_is_a_connect_failure() -> None:
    metrics = ProbeMetrics(SLO())
    for name, url in (("down", "http://127.0.0.1:1/v1"), ("unknown", "http://no.such.host.invalid/v1")):
        TargetProbe(TargetConfig(name, url, "m", timeout_s=5.0), SLO(), metrics).once()
    text = page(metrics)
    for name in ("down", "unknown"):
        assert f'outcome="connect",rate="",scenario="short",target="{name}"}} 1.0' in text
        assert f'llm_probe_goodput_ratio{{concurrency="1",rate="",scenario="short",target="{name}"}} 0.0' in text


def test_edges_hold_the_slos() -> None:
    assert edges_with((0.1, 1.0), 0.37, None) == (0.1, 0.37, 1.0)


def test_the_command_serves_until_it_is_told_to_stop(truth_server: TruthProcess, tmp_path: Path) -> None:
    file = tmp_path / "probe.yaml"
    target = f"{{name: a, url: '{truth_server.url}', model: healthy, requests_per_minute: 600, jitter: 0.1}}"
    file.write_text(
        f"targets:\n  - {target}\n  - {{name: b, url: 'http://127.0.0.1:1/v1', model: m, requests_per_minute: 600}}\n"
    )
    command = [
        sys.executable,
        "-m",
        "obs_exporter.probe.cli",
        "serve",
        "--config",
        str(file),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stderr is not None
    url = process.stderr.readline().split()[1]
    text = ""
    deadline = time.monotonic() + 15
    while 'outcome="ok",rate="",scenario="short",target="a"} 3.0' not in text and time.monotonic() < deadline:
        text = read_page(url)
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=10)
    assert process.returncode == 0, rest
    assert 'target="b"' in text
    assert "llm_probe_slo_seconds" in text
