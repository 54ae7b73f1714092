"""``obs-probe run`` as its users run it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from obs_exporter.probe.calibrate import calibrate
from obs_exporter.probe.cli import main
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.load import Level
from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.results import read_records, read_result, requests_path
from obs_exporter.probe.truth.behaviours import Profile
from obs_exporter.probe.truth.process import TruthProcess

from .conftest import QuietHandler, read_page, serving

UNKNOWN = "[UNK]"
PROBE = [sys.executable, "-m", "obs_exporter.probe.cli"]
QUICK = ["--warmup", "1", "--repeats", "1", "--no-calibration", "--timeout", "5"]


def probe(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROBE, *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def run(server: TruthProcess, output: Path, *arguments: str, **environment: str) -> tuple[Any, dict[str, Any]]:
    done = probe("run", "--url", server.url, "--output", str(output), *QUICK, *arguments, **environment)
    return done, read_result(output)


def test_the_studys_line_works_as_written(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "results" / "x.json"
    done = probe(
        "run",
        "--url",
        truth_server.url,
        "--model",
        "truth",
        "--scenarios",
        "short",
        "--concurrency",
        "2,4,8",
        "--requests-per-level",
        "10",
        "--warmup",
        "1",
        "--unique-prefix",
        "--ttft-slo",
        "0.5",
        "--e2e-slo",
        "10",
        "--output",
        str(output),
        "--repeats",
        "2",
    )
    assert done.returncode == 0, done.stderr
    result = read_result(output)
    order = [(level["repeat"], level["concurrency"]) for level in result["levels"]]
    assert order == [(0, 2), (0, 4), (0, 8), (1, 2), (1, 4), (1, 8)]
    assert all(level["goodput"] == 1.0 and level["output_tokens"] == 120 for level in result["levels"])
    assert len(list(read_records(requests_path(output)))) == 60
    assert [entry["concurrency"] for entry in result["calibration"]] == [2, 4, 8]
    assert result["partial"] is False
    assert "short c=4" in done.stdout
    assert "2.50 waves" in done.stdout
    assert done.stderr.count("calibration at") == 3


def test_the_contract_of_a_level(truth_server: TruthProcess, tmp_path: Path) -> None:
    _, result = run(truth_server, tmp_path / "x.json", "--concurrency", "2", "--requests-per-level", "4")
    (level,) = result["levels"]
    for key in (
        "scenario",
        "concurrency",
        "repeat",
        "requests",
        "errors",
        "duration_s",
        "output_tokens",
        "output_tokens_per_s",
        "ttft_s",
        "tpot_s",
        "itl_s",
        "e2e_s",
        "goodput",
    ):
        assert key in level
    assert {"p50", "p90", "p95", "p99", "mean"} <= set(level["ttft_s"])
    assert result["requests_file"] == "x.requests.jsonl"


def test_no_percentile_of_nothing(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    done, result = run(truth_server, output, "--model", "http-500", "--concurrency", "2", "--requests-per-level", "4")
    (level,) = result["levels"]
    assert done.returncode == 1
    assert "no request succeeded" in done.stderr
    assert level["errors"] == {"http_error": 4}
    assert level["goodput"] == 0.0
    assert level["ttft_s"]["p95"] is None
    assert level["ttft_s"]["n"] == 0


def test_auto_is_a_multiple_and_eight_waves(truth_server: TruthProcess, tmp_path: Path) -> None:
    _, result = run(truth_server, tmp_path / "x.json", "--concurrency", "3,16")
    assert [level["requests"] for level in result["levels"]] == [102, 128]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_keeps_what_has_finished(truth_server: TruthProcess, tmp_path: Path, number: signal.Signals) -> None:
    output = tmp_path / "x.json"
    process = subprocess.Popen(
        [
            *PROBE,
            "run",
            "--url",
            truth_server.url,
            "--concurrency",
            "4",
            "--duration",
            "30",
            "--output",
            str(output),
            *QUICK,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    file = requests_path(output)
    deadline = time.monotonic() + 20
    while not (file.exists() and file.stat().st_size > 2000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1, err
    assert "PARTIAL RESULT" in out
    result = read_result(output)
    (level,) = result["levels"]
    records = list(read_records(file))
    assert result["partial"] is True
    assert level["requests"] + level["cancelled"] == len(records)
    assert level["cancelled"] <= 4
    assert level["goodput"] == 1.0


def test_a_kill_loses_no_finished_request(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    process = subprocess.Popen(
        [
            *PROBE,
            "run",
            "--url",
            truth_server.url,
            "--concurrency",
            "4",
            "--duration",
            "30",
            "--output",
            str(output),
            *QUICK,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    file = requests_path(output)
    deadline = time.monotonic() + 20
    while not (file.exists() and file.stat().st_size > 2000) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    records = list(read_records(file))
    assert len(records) >= 4
    assert read_result(output)["levels"] == []
    assert read_result(output)["partial"] is True
    shown = probe("report", str(output)).stdout
    assert "PARTIAL RESULT" in shown
    row = next(line for line in shown.splitlines() if line.startswith("short c=4"))
    assert row.split()[3:5] == [str(len(records)), "100.0%"]
    merged = probe("merge", str(output), "--output", str(tmp_path / "m.json"))
    assert merged.returncode == 1, merged.stderr
    (level,) = read_result(tmp_path / "m.json")["levels"]
    assert level["requests"] == len(records)


def test_several_processes_give_one_result(truth_server: TruthProcess, tmp_path: Path) -> None:
    output, textfile = tmp_path / "x.json", tmp_path / "x.prom"
    done, result = run(
        truth_server,
        output,
        "--concurrency",
        "1,6",
        "--requests-per-level",
        "20",
        "--processes",
        "2",
        "--textfile",
        str(textfile),
    )
    assert done.returncode == 0, done.stderr
    assert [(level["concurrency"], level["requests"]) for level in result["levels"]] == [(1, 20), (6, 20)]
    assert result["levels"][1]["client"]["shards"] == 2
    ids = [record.id for record in read_records(requests_path(output))]
    assert len(set(ids)) == 40
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    text = textfile.read_text()
    assert 'llm_probe_good_requests_total{concurrency="6",rate="",scenario="short"' in text
    assert len(re.findall(r"^llm_probe_level_running{.*} 0\.0$", text, re.MULTILINE)) == 2
    assert len(re.findall(r"^llm_probe_client_limited{.*} [01]\.0$", text, re.MULTILINE)) == 2
    # What only the other processes know is not there, rather than 0.
    assert "llm_probe_requests_in_flight{" not in text
    assert "llm_probe_client_lag_seconds_count" not in text


def test_slots_that_processes_cannot_share_evenly(truth_server: TruthProcess, tmp_path: Path) -> None:
    load = ("--concurrency", "3", "--requests-per-level", "180", "--processes", "2")
    done, result = run(truth_server, tmp_path / "x.json", *load)
    assert done.returncode == 0, done.stderr
    (level,) = result["levels"]
    assert level["client"]["shard_overlap"] > 0.8
    assert "short, concurrency 3, repeat 1: runs in 2 processes" in done.stderr
    assert "rendezvous" not in done.stdout + level["client"]["limited"]


def test_a_stop_of_several_processes_keeps_all(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    process = subprocess.Popen(
        [*PROBE, "run", "--url", truth_server.url, "--concurrency", "4", "--duration", "30", "--processes", "2",
         "--output", str(output), *QUICK],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while sum(file.stat().st_size > 2000 for file in tmp_path.rglob("*.jsonl")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal's Ctrl-C does
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1, err
    result = read_result(output)
    assert result["partial"] is True
    (level,) = result["levels"]
    assert level["requests"] >= 8
    assert level["goodput"] == 1.0


def test_open_loop(truth_server: TruthProcess, tmp_path: Path) -> None:
    done, result = run(truth_server, tmp_path / "x.json", "--rate", "50", "--requests-per-level", "20", "--calibration")
    (level,) = result["levels"]
    assert (level["concurrency"], level["rate"], level["requests"]) == (None, 50.0, 20)
    assert level["schedule"]["late_s"]["n"] == 20
    assert level["schedule"]["ttft_from_schedule_s"]["p50"] >= level["ttft_s"]["p50"]
    assert level["schedule"]["e2e_from_schedule_s"]["p50"] >= level["e2e_s"]["p50"]
    assert "judged, from the schedule" in done.stdout


def test_a_client_that_leaves_late_is_not_sold_as_the_server(truth_server: TruthProcess, tmp_path: Path) -> None:
    load = ("--rate", "50", "--requests-per-level", "20")
    done, result = run(truth_server, tmp_path / "x.json", *load, "--max-client-error", "0.000001")
    (level,) = result["levels"]
    assert level["client_limited"] is True
    assert "after their schedule" in level["client"]["limited"]
    assert "client-limited" in next(line for line in done.stdout.splitlines() if line.startswith("short 50/s"))


def test_metrics_while_it_runs_and_after(truth_server: TruthProcess, tmp_path: Path) -> None:
    textfile = tmp_path / "probe.prom"
    process = subprocess.Popen(
        [
            *PROBE,
            "run",
            "--url",
            truth_server.url,
            "--concurrency",
            "2",
            "--duration",
            "2",
            "--name",
            "t",
            "--listen",
            "127.0.0.1:0",
            "--textfile",
            str(textfile),
            "--output",
            str(tmp_path / "x.json"),
            *QUICK,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    url = process.stderr.readline().split()[1]
    live = ""
    deadline = time.monotonic() + 10
    while (
        'level_running{concurrency="2",rate="",scenario="short",target="t"} 1.0' not in live
        and time.monotonic() < deadline
    ):
        live = read_page(url)
        time.sleep(0.05)
    process.communicate(timeout=20)
    labels = 'concurrency="2",rate="",scenario="short",target="t"'
    assert f"llm_probe_level_running{{{labels}}} 1.0" in live
    assert f"llm_probe_requests_in_flight{{{labels}}} " in live
    assert f"llm_probe_client_lag_seconds_count{{{labels}}} " in live
    text = textfile.read_text()
    assert f"llm_probe_goodput_ratio{{{labels}}} 1.0" in text
    assert (
        f'llm_probe_time_to_first_token_seconds_bucket{{concurrency="2",le="0.5",{labels.partition(",")[2]}}}' in text
    )
    assert "_created" not in text


def test_the_live_page_of_several_processes_has_no_false_zero(truth_server: TruthProcess, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PROBE, "run", "--url", truth_server.url, "--concurrency", "4", "--duration", "2", "--processes", "2",
         "--listen", "127.0.0.1:0", "--output", str(tmp_path / "x.json"), *QUICK],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    url = process.stderr.readline().split()[1]
    live = ""
    deadline = time.monotonic() + 10
    while "\nllm_probe_level_running{" not in live and time.monotonic() < deadline:
        live = read_page(url)
        time.sleep(0.05)
    process.communicate(timeout=20)
    assert re.search(r"^llm_probe_level_running{.*} 1\.0$", live, re.MULTILINE)
    assert "\nllm_probe_requests_in_flight{" not in live
    assert "\nllm_probe_client_lag_seconds_count" not in live


def test_a_secret_is_nowhere(truth_server: TruthProcess, tmp_path: Path) -> None:
    done, _ = run(
        truth_server,
        tmp_path / "x.json",
        "--concurrency",
        "1",
        "--requests-per-level",
        "2",
        "--textfile",
        str(tmp_path / "x.prom"),
        OBS_PROBE_API_KEY="sk-very-secret",
    )
    texts = [done.stdout, done.stderr, *(path.read_text() for path in tmp_path.iterdir())]
    assert not any("sk-very-secret" in text for text in texts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option '--url'"),
        (["--url", "nonsense://x"], "not an http or https URL"),
        (["--url", "http://127.0.0.1:1/v1", "--model", "m"], "cannot connect"),
        (["--url", "{url}", "--scenarios", "nope"], "unknown scenario"),
        (["--url", "{url}", "--scenarios", "chat"], "--chat-file"),
        (["--url", "{url}", "--concurrency", "0"], "whole numbers"),
        (["--url", "{url}", "--concurrency", "2", "--rate", "1"], "either a closed or an open loop"),
        (["--url", "{url}", "--header", "Authorization: x"], "--api-key-env"),
        (["--url", "{url}", "--shard", "4/4"], "is not a shard"),
        (["--url", "{url}", "--shard", "0/4"], "--run-id"),
        (["--url", "{url}", "--listen", "nope"], "HOST:PORT"),
        (["--url", "{url}", "--metrics-url", "http://127.0.0.1:1/metrics", "--metrics-stack", "x"], "--metrics-stack"),
        (["--url", "{url}", "--push-gateway", "http://u:hidden@127.0.0.1:1"], "--push-gateway: the URL carries"),
        (["--url", "{url}", "--push-gateway", "u:hidden@127.0.0.1:1"], "--push-gateway: the URL carries"),
        (["--url", "{url}", "--metrics-url", "http://u:hidden@127.0.0.1:1/metrics"], "--metrics-url: the URL carries"),
        (["--url", "{url}", "--push-gateway", "http://127.0.0.1:1?token=hidden"], "has no query"),
        (["--url", "{url}", "--push-gateway", "http://127.0.0.1:x?token=hidden"], "--push-gateway: the URL is not"),
        (["--url", "{url}", "--metrics-url", "ftp://h/?token=hidden"], "--metrics-url 'ftp://h/' is not an http"),
        (["--url", "{url}", "--metrics-url", "http://u:p/hidden@h/m"], "--metrics-url: the URL carries"),
        (["--url", "{url}", "--proxy", "http://u:hidden@127.0.0.1:port"], "--proxy: the URL is not a URL"),
        (["--url", "{url}", "--proxy", "http://u:hidden@127.0.0.1:1"], "--proxy: the URL carries"),
        (["--url", "http://u:hidden@[::1/v1"], "the URL is not a URL"),
        (["--url", "{url}", "--textfile", "/nonexist/x.prom"], "there is no folder /nonexist"),
        (["--url", "{url}", "--output", "/proc/nope/x.json"], "cannot be written"),
        (["--url", "{url}", "--cacert", "/nope.pem"], None),
    ],
)
def test_wrong_usage_is_told(
    truth_server: TruthProcess, tmp_path: Path, arguments: list[str], words: str | None
) -> None:
    given = [argument.replace("{url}", truth_server.url) for argument in arguments]
    if words is None:
        given[1] = given[1].replace("http:", "https:")
        words = "TLS files"
        given += ["--model", "m"]
    done = subprocess.run(
        [*PROBE, "run", *given],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("OBS_PROBE")},
    )
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "hidden" not in done.stderr
    assert done.stdout == ""


def test_model_is_the_first_that_the_server_names(truth_server: TruthProcess, tmp_path: Path) -> None:
    _, result = run(truth_server, tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "1")
    assert result["target"]["model"] == "truth"


def test_calibrate_only_sends_nothing(start_truth: Any, tmp_path: Path) -> None:
    server = start_truth(Profile(0.01, 0.001, 2))
    done = probe("run", "--url", server.url, "--concurrency", "2", "--calibrate")
    assert done.returncode == 0
    assert "calibration at concurrency 2" in done.stdout
    assert server.truth() == []


def test_calibrate_command() -> None:
    done = probe("calibrate", "--concurrency", "4", "--format", "json", "--max-client-error", "0.0000001")
    (found,) = json.loads(done.stdout)
    assert found["ttft_error_p50_s"] > 0
    assert found["client_limited"] is True
    assert "TTFT error" in found["reason"]


def test_a_rate_below_one_request_a_calibration() -> None:
    found = calibrate(Level("short", None, 0.01, 10, None), 0.005)
    assert found.rate == 0.01
    assert found.requests > 1
    assert found.failed == 0


def test_a_limited_client_is_not_sold_as_the_server(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    done, result = run(
        truth_server,
        output,
        "--concurrency",
        "2",
        "--requests-per-level",
        "4",
        "--calibration",
        "--max-client-error",
        "0.0000001",
    )
    assert result["levels"][0]["client_limited"] is True
    line = next(line for line in done.stdout.splitlines() if line.startswith("short c=2"))
    assert "client-limited" in line
    assert "100.0%" not in line


def test_help_needs_no_heavy_module() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from obs_exporter.probe.cli import main;"
        "[CliRunner().invoke(main, a) for a in (['--help'], ['run', '--help'], ['compare', '--help'])];"
        "heavy = ('rich.progress', 'prometheus_client', 'yaml', 'ssl', 'requests');"
        "print([m for m in heavy if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["run", "serve", "compare", "diagnose", "report", "merge", "import", "calibrate"])
def test_help_shows_an_example(command: str) -> None:
    done = CliRunner().invoke(main, [command, "--help"])
    assert done.exit_code == 0
    assert "Example: obs-probe" in done.output


def tokenizer_file(folder: Path) -> str:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


def test_a_tokenizer_counts_where_the_server_does_not(truth_server: TruthProcess, tmp_path: Path) -> None:
    given = ["--model", "four-no-usage", "--concurrency", "1", "--requests-per-level", "2"]
    _, plain = run(truth_server, tmp_path / "x.json", *given)
    done, counted = run(truth_server, tmp_path / "y.json", *given, "--tokenizer", tokenizer_file(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (plain["levels"][0]["output_tokens"], plain["levels"][0]["token_source"]) == (6, {"chunks": 6})
    assert (counted["levels"][0]["output_tokens"], counted["levels"][0]["token_source"]) == (24, {"tokenizer": 24})


class _Other(QuietHandler):
    """A Pushgateway and a metrics page in one; remembers what was pushed, and where."""

    pushed: ClassVar[list[bytes]] = []
    groups: ClassVar[list[str]] = []

    def do_PUT(self) -> None:  # noqa: N802 - the name is inherited
        self.groups.append(self.path)
        self.pushed.append(self.body())
        self.reply(b"")

    def do_GET(self) -> None:  # noqa: N802 - the name is inherited
        self.reply(b'# TYPE llm_kv_cache_usage_ratio gauge\nllm_kv_cache_usage_ratio{engine="0"} 0.25\n')


def test_the_servers_page_and_a_push(truth_server: TruthProcess, tmp_path: Path) -> None:
    with serving(_Other) as url:
        done, result = run(truth_server, tmp_path / "x.json", "--concurrency", "2", "--requests-per-level", "4",
                           "--metrics-url", f"{url}/metrics", "--push-gateway", url, "--name", "ray")  # fmt: skip
    assert done.returncode == 0, done.stderr
    server = result["levels"][0]["server"]
    assert server["signals"]["kv_cache_usage"]["value"] == 0.25
    assert server["signals"]["preemptions"]["value"] is None
    assert "25.0%" in done.stdout
    assert b"llm_probe_good_requests_total" in _Other.pushed[0]
    assert _Other.groups == ["/metrics/job/obs-probe/instance/ray"]  # another target's push replaces another group


def test_a_push_that_fails_is_told_and_the_result_stands(truth_server: TruthProcess, tmp_path: Path) -> None:
    done, result = run(truth_server, tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "2",
                       "--push-gateway", "http://127.0.0.1:1")  # fmt: skip
    assert done.returncode == 2
    assert "Pushgateway http://127.0.0.1:1: [Errno 111] Connection refused" in done.stderr
    assert "short c=1" in done.stdout
    assert result["partial"] is False


def test_a_bar_on_a_terminal(truth_server: TruthProcess) -> None:
    from obs_exporter.probe.progress import BarProgress, PlainProgress, progress_for

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    bar = progress_for(stream)
    assert isinstance(bar, BarProgress)
    assert not isinstance(progress_for(io.StringIO()), BarProgress)
    bar.level_started(Level("short", 2, None, 4, None), 0, lambda: 2, LagHistogram())
    bar.recorded(Record("short", 2, None, 0, 0, "a", Outcome.OK, True, 0.0))
    bar.close()
    assert "short, concurrency 2, repeat 1" in stream.getvalue()
    assert "1/4" in stream.getvalue()
    assert issubclass(BarProgress, PlainProgress)
