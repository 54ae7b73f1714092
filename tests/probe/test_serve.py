"""The always-on probe: its configuration, its budget, its metrics."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.budget import Budget, Pace
from obs_exporter.probe.cli import main
from obs_exporter.probe.metrics import ProbeMetrics, edges_with
from obs_exporter.probe.outcome import SLO, Outcome, Record
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
        ({"targets": [TARGET], "listen": "foo"}, "listen: 'foo': give it as HOST:PORT"),
        ({"targets": [TARGET], "listen": "h:70000"}, "HOST:PORT"),
        ({"targets": [TARGET | {"name": " "}]}, r"targets\[0\].name: is empty"),
        ({"targets": [TARGET | {"model": ""}]}, r"targets\[0\].model: is empty"),
        ({"targets": [TARGET | {"max_tokens": 500, "tokens_per_hour": 400}]}, "so none would be sent"),
        ({"targets": [TARGET | {"max_tokens": 1, "tokens_per_hour": 30}]}, "so none would be sent: give at least"),
        ({"targets": [TARGET | {"api": "triton-generate"}]}, "not below /v1"),
        ({"targets": [TARGET | {"requests_per_minute": 1e300}]}, "from 0.0001 to 6000"),
        ({"targets": [TARGET | {"requests_per_minute": 1e-300}]}, "from 0.0001 to 6000"),
        ({"targets": [TARGET | {"api_key_env": "sk-no-name"}]}, "the name of an environment variable"),
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


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("api_key_env: NO_SUCH_KEY", "NO_SUCH_KEY is not set"),
        ("ca_file: /nope.pem", "/nope.pem"),
        ("url: 'http://u:hidden@127.0.0.1:port/v1'", "is not a URL"),
        ("url: 'http://u:hidden@[::1/v1'", "is not a URL"),
        ("api_key_env: hidden-key", "the name of an environment variable"),
        ("url: http://u:hidden@h: x", "not YAML: mapping values are not allowed here (line 4"),
    ],
)
def test_check_finds_what_could_not_be_used(tmp_path: Path, entry: str, words: str) -> None:
    file = tmp_path / "probe.yaml"
    url = "" if entry.startswith("url") else "    url: https://h/v1\n"
    file.write_text(f"targets:\n  - name: a\n    model: m\n    {entry}\n{url}")
    done = CliRunner().invoke(main, ["serve", "--config", str(file), "--check"])
    assert done.exit_code == 2
    assert words in done.output
    assert "hidden" not in done.output


def test_check_says_fine_and_looks_at_listen(tmp_path: Path) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text("targets:\n  - {name: a, model: m, url: 'http://h/v1'}\n")
    check = ["serve", "--config", str(file), "--check"]
    assert CliRunner().invoke(main, check).output == f"{file}: 1 target, fine\n"
    assert CliRunner().invoke(main, [*check, "--listen", "foo"]).exit_code == 2


def most_in_any(times: list[float], window_s: float) -> int:
    """Return the most of the times that lie in one window, its edges included."""
    return max(sum(1 for later in times[at:] if later <= begin + window_s) for at, begin in enumerate(times))


@given(
    st.sampled_from([0.1, 0.5, 1, 1.5, 2, 7, 30, 30.9]), st.sampled_from([0.0, 0.2, 0.9]), st.integers(0, 2**32),
    st.sampled_from([0.0, 0.5, 4.0]),
)  # fmt: skip
def test_no_window_holds_more_requests_than_the_budget(rate: float, jitter: float, seed: int, longest_s: float) -> None:
    now, rng = [1000.0], random.Random(seed)
    pace = Pace(rate, jitter, lambda: now[0], rng)
    times: list[float] = []
    most = max(1, int(rate))
    while len(times) < 4 * most + 20:
        while (left := pace.left()) > 0:
            now[0] += left
        pace.turn()
        times.append(now[0])
        took = longest_s * rng.random()
        now[0] += took
        pace.sent(took)
    assert most_in_any(times, max(60.0, 60.0 / rate)) <= most
    if not longest_s:  # and it does not keep the budget by sending next to nothing
        # No gap is longer than the jitter makes it; what is rounded down of the rate is lost.
        longest = (1 + jitter) * max(60.0, 60.0 / rate) / most
        assert len(times) - 1 >= 0.9 * (times[-1] - times[0]) / longest


class Hands(threading.Event):
    """A stop that moves a clock instead of waiting, and is asked for after so many seconds of it."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self.now = 0.0
        self._until_s = until_s

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        if self.now >= self._until_s:
            self.set()
        return self.is_set()


class Scripted(TargetProbe):
    """Sends nothing: its requests end as told, one after the other, the last again and again."""

    def __init__(self, config: TargetConfig, endings: list[tuple[Outcome, str]], hands: Hands) -> None:
        self.lines: list[str] = []
        self.times: list[float] = []
        self._endings = endings
        self._hands = hands
        super().__init__(config, SLO(), ProbeMetrics(SLO()), self.lines.append, lambda: hands.now)

    def _measure(self) -> Record:
        self.times.append(self._hands.now)
        self._hands.now += 0.3
        outcome, detail = self._endings.pop(0) if len(self._endings) > 1 else self._endings[0]
        return Record("short", 1, None, 0, 0, "a", outcome, False, 0.0, detail, e2e_s=0.3, tokens=12)


@pytest.mark.parametrize(("rate", "most", "window_s"), [(30.0, 30, 60.0), (0.5, 1, 120.0)])
def test_a_target_gets_what_its_budget_says(rate: float, most: int, window_s: float) -> None:
    hands = Hands(3600.0)
    config = TargetConfig("a", "http://h/v1", "m", requests_per_minute=rate, tokens_per_hour=10**6, jitter=0.9)
    probe = Scripted(config, [(Outcome.OK, "")], hands)
    probe.run(hands)
    assert most_in_any(probe.times, window_s) <= most
    assert len(probe.times) > 0.7 * 60 * rate


def test_each_change_of_the_outcome_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-very-secret")
    down = (Outcome.CONNECT, "Connection refused")
    odd = (Outcome.HTTP_ERROR, "HTTP 401: sk-very-secret is not known")
    config = TargetConfig("a", "http://h/v1", "m", requests_per_minute=60, tokens_per_hour=500, api_key_env="A_KEY")
    hands = Hands(30.0)
    probe = Scripted(config, [(Outcome.OK, ""), (Outcome.OK, ""), down, down, odd, (Outcome.OK, "")], hands)
    probe.run(hands)
    assert probe.lines == [
        "a: ok",
        "a: ok -> connect: Connection refused",
        "a: connect -> http_error: HTTP 401: [redacted] is not known",
        "a: http_error -> ok",
        "a: ok -> skipped: the tokens of this hour are spent",
    ]


def test_a_request_that_hangs_is_in_flight() -> None:
    metrics = ProbeMetrics(SLO())
    labels = 'llm_probe_requests_in_flight{concurrency="1",rate="",scenario="short",target="a"}'
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        probe = TargetProbe(TargetConfig("a", url, "m", timeout_s=20.0), SLO(), metrics)
        assert f"{labels} 0.0" in page(metrics)
        thread = threading.Thread(target=probe.once)
        thread.start()
        connection, _ = listener.accept()
        assert connection.recv(1)
        text = page(metrics)
        connection.close()
        thread.join(10)
    assert f"{labels} 1.0" in text
    assert f"{labels} 0.0" in page(metrics)
    assert "llm_probe_client_lag_seconds_count" not in text


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


def read_status(url: str) -> int:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status
    finally:
        connection.close()


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
    root = urlsplit(url)._replace(path="/").geturl()
    status = {path: read_status(root + path) for path in ("", "metrics", "nope", "metrics/x")}
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=10)
    assert process.returncode == 0, rest
    assert status == {"": 200, "metrics": 200, "nope": 404, "metrics/x": 404}
    assert [line.split(" ", 1)[1] for line in sorted(rest.splitlines(), key=lambda line: line.split()[1])] == [
        "a: ok",
        "b: connect: connection refused, before any answer",
    ]
    assert 'target="b"' in text
    assert "llm_probe_slo_seconds" in text
