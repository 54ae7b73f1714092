"""``make demo``: pages that real servers printed, replayed through the exporter and the auditor.

A local server shows the captured pages of four stacks one after another: before, during and after load. The exporter
scrapes them as four targets; then the auditor judges each stack, and a table shows all signals of all stacks.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to clean up, Ctrl-C just ends it

# ruff: noqa: E402
import gzip
import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from obs_exporter.demo import staged

LIVE_CLIENTS = 4
"""Clients of each simulated stack besides the probe."""

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
BIN = Path(sys.executable).parent
PHASES = ("before load", "under load", "after load")


@dataclass(frozen=True)
class Show:
    """One stack of the demo: what its pages are, and the three of them."""

    stack: str
    what: str
    pages: tuple[str, ...]


SHOWS = (
    Show("vllm", "vLLM 0.32.0 on CPU, its KV cache so small that it preempts",
         ("vllm/0.32.0-real-preempting/idle", "vllm/0.32.0-real-preempting/during-3",
          "vllm/0.32.0-real-preempting/after")),
    Show("kserve", "KServe in Standard mode: the runtime prints vLLM's own page",
         ("vllm/0.32.0-real/idle", "vllm/0.32.0-real/during", "vllm/0.32.0-real/after")),
    Show("triton", "Triton 24.10 with the vLLM backend, REPORT_CUSTOM_METRICS on",
         tuple(f"triton/24.10-vllm0.32.0-custom-metrics/{when}" for when in ("before", "during", "after"))),
    Show("ray-serve", "Ray Serve LLM 2.60.0 over vLLM 0.29.0",
         tuple(f"ray/2.60.0-llm-vllm0.29.0/{when}" for when in ("before", "during", "after"))),
)  # fmt: skip

COLUMNS = (
    ("vLLM 0.32", "vllm", SHOWS[0].pages[2]),
    ("KServe", "kserve", SHOWS[1].pages[2]),
    ("Triton, switch on", "triton", SHOWS[2].pages[2]),
    ("Triton, switch off", "triton", "triton/24.10-python-model/after"),
    ("Ray 2.60", "ray-serve", SHOWS[3].pages[2]),
    ("Ray 2.60, metrics off", "ray-serve", "ray/2.60.0-llm-vllm0.29.0-metrics-off/after"),
    ("Ray 2.44", "ray-serve", "ray/2.44.1-llm-standin-engine/after"),
)

INTERESTING = (
    "llm_requests_running{", "llm_requests_waiting{", "llm_kv_cache_usage_ratio{", "llm_kv_cache_capacity_tokens{",
    "llm_preemptions_total{", "llm_request_queue_seconds_sum{", "llm_request_queue_seconds_count{",
    "llm_time_to_first_token_seconds_sum{", "llm_time_to_first_token_seconds_count{", "llm_layer_queue_seconds_sum{",
    "llm_layer_queue_seconds_count{",
)  # fmt: skip

STYLES = {"native": "green", "renamed": "green", "derived": "cyan", "log": "cyan", "idle": "blue", "hidden": "yellow",
          "lost": "bold red", "unreachable": "bold red"}  # fmt: skip


def load(page: str) -> bytes:
    """Read a captured page."""
    path = DATA / f"{page}.txt"
    return path.read_bytes() if path.exists() else gzip.decompress((DATA / f"{page}.txt.gz").read_bytes())


class Replay(ThreadingHTTPServer):
    """Serves /STACK/metrics with the page of the current phase."""

    phase = 0
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies = {show.stack: [load(page) for page in show.pages] for show in SHOWS}
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = cast("Replay", self.server)
        bodies = server.bodies.get(self.path.split("/")[1]) if self.path.endswith("/metrics") else None
        body = bodies[server.phase] if bodies else b"not here\n"
        self.send_response(200 if bodies else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


def start_exporter(replay: Replay, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start ``obs-exporter serve --config`` on the four targets and return it with the URL of its page."""
    port = replay.server_address[1]
    rows = [
        f"  - {{name: {s.stack}, stack: {s.stack}, url: 'http://127.0.0.1:{port}/{s.stack}/metrics'}}" for s in SHOWS
    ]
    config = folder / "targets.yml"
    config.write_text("listen: 127.0.0.1:0\ntargets:\n" + "\n".join(rows) + "\n", encoding="utf-8")
    process = subprocess.Popen(
        [BIN / "obs-exporter", "serve", "--config", config], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    errors = cast("IO[str]", process.stderr)
    line = errors.readline()
    if "serving " not in line:
        raise SystemExit(f"the exporter did not start: {line}{errors.read()}")
    return process, line.split("serving ")[1].strip()


def show_schema(console: Console, replay: Replay, url: str) -> None:
    """Scrape the exporter once a phase and print the interesting lines by stack."""
    for number, phase in enumerate(PHASES):
        replay.phase = number
        with urllib.request.urlopen(url, timeout=20) as response:  # noqa: S310 - our own server on 127.0.0.1
            lines = response.read().decode().splitlines()
        console.rule(f"[bold]{phase}[/bold]")
        for show in SHOWS:
            console.print(Text(show.stack, style="bold") + Text(f"  {show.what}", style="dim"))
            for line in lines:
                if line.startswith(INTERESTING) and f'stack="{show.stack}"' in line:
                    console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
        console.print()


def audit(stack: str, page: str, folder: Path, *extra: str) -> str:
    """Run ``obs-audit`` on a page and return what it prints."""
    path = folder / "page.txt"
    path.write_bytes(load(page))
    command = [str(BIN / "obs-audit"), "--stack", stack, "--file", str(path), *extra]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace(str(path), page)


def show_audits(console: Console, folder: Path) -> None:
    """Print the audit of each stack's page after load."""
    for show in SHOWS:
        console.rule(f"[bold]obs-audit --stack {show.stack}[/bold]")
        console.print(audit(show.stack, show.pages[2], folder), soft_wrap=True, highlight=False, markup=False)


def show_summary(console: Console, folder: Path) -> None:
    """Print the table of signals by stack."""
    states: dict[str, list[str]] = {}
    for _, stack, page in COLUMNS:
        for row in json.loads(audit(stack, page, folder, "--format", "json"))["signals"]:
            states.setdefault(row["id"], []).append(row["state"])
    table = Table(title="Signals by stack", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("signal", no_wrap=True)
    for title, _, _ in COLUMNS:
        table.add_column(title)
    for name, row in states.items():
        table.add_row(name, *(Text(state, style=STYLES.get(state, "dim")) for state in row))
    console.print(table)


def show_live(console: Console, folder: Path) -> None:
    """Load two simulated stacks with the probe, bare and behind Ray, and say what the users felt."""
    console.rule("[bold]live: simulated stacks under load, measured by obs-probe[/bold]")
    with staged(LIVE_CLIENTS) as stage:
        for name in ("vllm", "ray-serve"):
            output = folder / f"{name}.json"
            command = [str(BIN / "obs-probe"), "run", "--url", f"{stage.apis[name]}/v1", "--concurrency", "8",
                       "--requests-per-level", "16", "--max-tokens", "12", "--repeats", "1", "--no-calibration",
                       "--output", str(output)]  # fmt: skip
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            level = json.loads(output.read_text(encoding="utf-8"))["levels"][0]
            said = f"TTFT p50 {level['ttft_s']['p50']:.2f} s, p95 {level['ttft_s']['p95']:.2f} s"
            console.print(f"{name}: {said}, goodput {level['goodput']:.0%}", highlight=False)
    console.print("obs-exporter demo keeps such stacks running, with the exporter on them.")


def main() -> int:
    """Run the demo; Ctrl-C ends it clean."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    replay, exporter = Replay(), None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            exporter, url = start_exporter(replay, folder)
            show_schema(console, replay, url)
            show_audits(console, folder)
            show_summary(console, folder)
            show_live(console, folder)
    except KeyboardInterrupt:
        console.print("\nstopped")
        return 130
    finally:
        if exporter is not None:
            exporter.terminate()
            exporter.wait(10)
        replay.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
