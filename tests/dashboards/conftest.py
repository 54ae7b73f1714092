"""A lab for the boards and rules: real Prometheus and Alertmanager over the exporter, over real pages that move on.

Each target answers its pages one after the other, as a server under load would: real captures where there are several,
the simulator under load elsewhere. The probe's pages are captures of ``obs-probe run`` against two simulated servers.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.server import App
from obs_exporter.simulator import LAYERS, Closed, Config, Engine, simulate
from obs_exporter.sources.scrape import Access
from obs_exporter.wsgi import bind, run_in_thread

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
RULES = ROOT / "deploy" / "prometheus" / "rules"
PROMETHEUS = shutil.which("prometheus")
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")

STEP = 2.0
"""Seconds that a page stays; Prometheus scrapes every second."""
PREEMPTING = "vllm/0.32.0-real-preempting"
REPLAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "vllm": ("vllm", tuple(f"{PREEMPTING}/{part}" for part in ("idle", "during-1", "during-3", "during-5", "after"))),
    "vllm-stats-off": ("vllm", ("vllm/0.32.0-real-no-log-stats/after",)),
    "kserve": ("kserve", ("vllm/0.20.0-rendered/v1-idle", "vllm/0.20.0-rendered/v1-load")),
    "triton": (
        "triton",
        tuple(f"triton/24.10-vllm0.32.0-custom-metrics/{part}" for part in ("before", "during", "after")),
    ),
    "triton-off": ("triton", tuple(f"triton/24.10-python-model/{part}" for part in ("before", "during", "after"))),
    "ray": ("ray-serve", tuple(f"ray/2.60.0-llm-vllm0.29.0/{part}" for part in ("before", "during", "after"))),
    "ray-off": ("ray-serve", tuple(f"ray/2.60.0-llm-vllm0.29.0-metrics-off/{part}" for part in ("during", "after"))),
    "ray-2.44": ("ray-serve", tuple(f"ray/2.44.1-llm-standin-engine/{part}" for part in ("during", "after"))),
}
SIMULATED = {
    "vllm-sim": ("vllm", "vllm", "direct"), "kserve-sim": ("kserve", "kserve-knative", "direct"),
    "triton-sim": ("triton", "triton", "triton"), "triton-sim-side-port": ("triton", "vllm", "triton"),
    "ray-sim": ("ray-serve", "ray-serve", "ray"), "ray-2.44-sim": ("ray-serve", "ray-serve-2.44", "ray"),
}  # fmt: skip
STARTS = {"ray-2.44-sim": 12.0}
"""Second of its life at which a simulated target is first seen, where it is not 5: Ray reports every 10 s, and each of
its processes is to report while the lab looks."""
PROBES = ("bare", "ray")


def load(name: str) -> bytes:
    path = DATA / f"{name}.txt"
    return path.read_bytes() if path.exists() else gzip.decompress((DATA / f"{name}.txt.gz").read_bytes())


def probe_pages(name: str) -> list[bytes]:
    """Three of the pages that ``obs-probe run`` showed: during its first level, and twice during its second."""
    with gzip.open(Path(__file__).parent / "pages" / f"probe-{name}.jsonl.gz", "rt") as handle:
        rows = [json.loads(line) for line in handle]
    return [rows[index]["page"].encode() for index in (4, 7, 11)]


@dataclass
class Lab:
    """The running lab: where Prometheus answers, who the targets are, and what Alertmanager sent on."""

    url: str
    targets: dict[str, str]
    sent: list[dict[str, Any]] = field(default_factory=list)

    def get(self, path: str, **parameters: str) -> Any:
        """Ask Prometheus' API and return the data; an error of the query raises ``AssertionError``."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as response:  # noqa: S310
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate an expression now; a scalar becomes one sample without labels."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        found: list[dict[str, Any]] = data["result"]
        return found

    def series(self, selector: str) -> list[dict[str, str]]:
        """The series that a selector finds, as a variable of Grafana asks for them."""
        found: list[dict[str, str]] = self.get("series", **{"match[]": selector})
        return found

    def eventually(self, ready: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if ready():
                    return
            except OSError:
                pass
            time.sleep(0.3)
        raise AssertionError(f"never happened: {what}")


class Clock:
    """Counts seconds from the first time that it is looked at: no page has moved on before Prometheus has seen it."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        if self._began is None:
            self._began = time.monotonic()
        return time.monotonic() - self._began


def serve_pages(page_at: Callable[[float], bytes], clock: Clock) -> ThreadingHTTPServer:
    """Serve on a free port what a function of the clock's seconds says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = page_at(clock.seconds()) if self.path == "/metrics" else b""
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


def replay(pages: list[bytes]) -> Callable[[float], bytes]:
    return lambda seconds: pages[min(int(seconds / STEP), len(pages) - 1)]


def simulated(face: str, layer: str, start: float) -> Callable[[float], bytes]:
    """A page of a simulated engine that 12 clients keep busy, with a KV cache too small for them."""
    engine = Engine(max_num_seqs=8, num_blocks=97, max_model_len=1024, step_s=0.01)
    run = simulate(Config(engine=engine, layer=LAYERS[layer], phases=(Closed(90.0, 12),), cached_prefix_tokens=32), 1)

    def page(seconds: float) -> bytes:
        shown = run.page(face, min(start + seconds, 80))
        return shown if isinstance(shown, bytes) else shown.encode()

    return page


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start it all, once; the tests only ask."""
    if not (PROMETHEUS and ALERTMANAGER):
        if os.environ.get("CI"):
            pytest.fail("prometheus or alertmanager is missing: sh tests/debian-packages.sh installs them")
        pytest.skip("no prometheus or alertmanager here; make test installs Debian's packages")
    folder, clock = tmp_path_factory.mktemp("lab"), Clock()
    sources = {name: (stack, replay([load(page) for page in pages])) for name, (stack, pages) in REPLAYS.items()}
    sources |= {
        name: (stack, simulated(face, layer, STARTS.get(name, 5.0))) for name, (stack, face, layer) in SIMULATED.items()
    }
    servers = {name: serve_pages(page_at, clock) for name, (_, page_at) in sources.items()}
    probes = [serve_pages(replay(probe_pages(name)), clock) for name in PROBES]
    targets = [
        Target(name, sources[name][0], Access(f"http://127.0.0.1:{server.server_address[1]}"))
        for name, server in servers.items()
    ]
    targets.append(Target("down", "vllm", Access(f"http://127.0.0.1:{free_port()}")))
    collector = TargetCollector(targets)
    exporter = bind(App(collector), ("127.0.0.1", 0))
    run_in_thread(exporter)
    made = Lab(f"http://127.0.0.1:{free_port()}", {target.name: target.stack for target in targets})
    receiver = _receiver(made)
    processes = _start(
        folder, made, receiver, exporter.server_address[1], [probe.server_address[1] for probe in probes]
    )
    try:
        made.eventually(lambda: made.query("count(obs_exporter_target_up)"), "the first scrape")
        time.sleep(max(0.0, 6 * STEP - clock.seconds()))  # until every page has been scraped
        yield made
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)
        for server in (*servers.values(), *probes, receiver, exporter):
            server.shutdown()
            server.server_close()
        collector.close()


def _receiver(made: Lab) -> ThreadingHTTPServer:
    """A webhook that keeps what Alertmanager sends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.sent.append(json.loads(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


def _start(
    folder: Path, made: Lab, receiver: ThreadingHTTPServer, exporter: int, probes: list[int]
) -> list[subprocess.Popen[bytes]]:
    """Start Alertmanager and Prometheus with our rules. Only the waiting times of the alerts are cut to nothing."""
    alerts = free_port()
    for path in RULES.glob("*.yml"):
        document = yaml.safe_load(path.read_text())
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            rule.pop("for", None)
        (folder / path.name).write_text(yaml.safe_dump(document))
    (folder / "alertmanager.yml").write_text(yaml.safe_dump({
        "route": {"receiver": "hook", "group_wait": "1s", "group_interval": "1s", "group_by": ["alertname"]},
        "receivers": [{"name": "hook", "webhook_configs": [
            {"url": f"http://127.0.0.1:{receiver.server_address[1]}/", "send_resolved": False}]}],
    }))  # fmt: skip
    (folder / "prometheus.yml").write_text(yaml.safe_dump({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "llm-*.yml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alerts}"]}]}]},
        "scrape_configs": [
            {"job_name": "obs-exporter", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]},
            {"job_name": "obs-probe", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in probes]}]},
        ],
    }))  # fmt: skip
    assert PROMETHEUS
    assert ALERTMANAGER
    commands = (
        [ALERTMANAGER, f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'am'}",
         f"--web.listen-address=127.0.0.1:{alerts}", "--cluster.listen-address=", "--log.level=error"],
        [PROMETHEUS, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
         f"--web.listen-address={made.url.removeprefix('http://')}", "--log.level=error"],
    )  # fmt: skip
    with (folder / "log").open("wb") as log:
        return [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
