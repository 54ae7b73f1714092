"""``obs-exporter demo``: four simulated stacks under load, the exporter on them, and an API that the probe can load.

Everything runs in this process and listens on 127.0.0.1 only. The simulated engines have KV caches that are too small
for their load, so that queues, preemptions and goodput below 100 % are there to be seen.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.derive import Settings
from obs_exporter.server import App
from obs_exporter.simulator import LAYERS, USUAL_LAYERS, Config, Engine
from obs_exporter.simulator.live import LiveOptions, start_in_thread
from obs_exporter.sources.scrape import Access
from obs_exporter.stacks import STACKS
from obs_exporter.wsgi import bind, run_in_thread

ENGINE = Engine(model="demo", max_num_seqs=8, num_blocks=89, max_model_len=1024, step_s=0.03)
"""Eight slots and 88 blocks of 16 tokens: eight requests of 200 tokens do not fit, so that some are preempted."""
_TOKENS = 160
_PAUSE = 0.5
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """A running demo: where the exporter's page is, and each stack's API."""

    metrics: str
    apis: dict[str, str]


@contextmanager
def staged(clients: int, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Stage]:
    """Run the demo with so many clients for each stack; ends everything on the way out.

    Raises ``OSError`` where the exporter's address cannot be bound.
    """
    with ExitStack() as stack:
        apis = {}
        for name in STACKS:
            config = Config(engine=ENGINE, layer=LAYERS[USUAL_LAYERS[name]])
            live = start_in_thread(config, LiveOptions(face=name, port=0))
            stack.callback(live.stop)
            apis[name] = live.url
        collector = TargetCollector(Target(name, name, Access(url), settings=Settings(max_num_seqs=ENGINE.max_num_seqs))
                                    for name, url in apis.items())  # fmt: skip
        stack.callback(collector.close)
        server = bind(App(collector), address)
        stack.callback(server.server_close)
        run_in_thread(server)
        stack.callback(server.shutdown)
        collector.sample()
        stop = threading.Event()
        stack.callback(stop.set)
        for url in apis.values():
            for number in range(clients):
                threading.Thread(target=_client, args=(url, number, stop), daemon=True, name="client").start()
        host, port = server.server_address[:2]
        yield Stage(f"http://{host!s}:{port}", apis)


def _client(url: str, number: int, stop: threading.Event) -> None:
    """Ask for one answer after another, each of another length; after a failure, wait a little."""
    body = {
        "model": ENGINE.model,
        "max_tokens": _TOKENS - 16 * (number % 5),
        "ignore_eos": True,
        "prompt": "demo " * 40,
    }
    address = urlsplit(url).netloc
    while not stop.is_set():
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            stop.wait(_PAUSE)
        finally:
            connection.close()
        stop.wait(_PAUSE)
