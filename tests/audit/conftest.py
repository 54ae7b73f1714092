"""Fixtures of the audit's tests: real pages, and the verdict on one."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from obs_audit.cli import main
from obs_audit.evidence import Bundle, Given, Piece, Role, interpret
from obs_audit.verdict import Asked, Report, judge

DATA = Path(__file__).parent.parent / "data"

PageOf = Callable[[str], bytes]
Judge = Callable[..., Report]


def read_data(name: str) -> bytes:
    """Read a file of tests/data, stored plain or compressed."""
    path = DATA / name
    if path.exists():
        return path.read_bytes()
    return gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


@pytest.fixture(scope="session")
def page_of() -> PageOf:
    return read_data


@pytest.fixture(scope="session")
def verdict() -> Judge:
    """Judge pages: verdict("vllm", page, later=..., asked=Asked(...), pieces=[...])."""

    def run(
        stack: str,
        *pages: bytes,
        stack_version: str = "",
        engine_version: str = "",
        asked: Asked | None = None,
        pieces: tuple[Piece, ...] = (),
    ) -> Report:
        given = Given(stack, stack_version, engine_version)
        found = [Piece(Role.PAGE, f"page-{number}.txt", body, number) for number, body in enumerate(pages)]
        return judge(interpret(Bundle(given, (*found, *pieces))), asked)

    return run


@dataclass
class Engine:
    """A small OpenAI-like server with a metrics page; ``lie`` says how its counters differ from what it does.

    ``strict`` refuses fields that the OpenAI API does not have, ``longest`` bounds an answer's tokens.
    """

    url: str
    lie: str = ""
    requests: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    strict: bool = False
    longest: int = 1 << 30
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a chat completion, and count it as the lie has it."""
        if body["model"] != "tiny":
            return 404, {"error": "no such model"}
        if (self.strict and "ignore_eos" in body) or body["max_tokens"] > self.longest:
            return 400, {"error": "no such field, or longer than the context"}
        with self.lock:
            self.bodies.append(body)
        prompt, completion = len(body["messages"][0]["content"].split()), body["max_tokens"]
        factor = {"dead": 0.0, "half": 0.5, "twice": 2.0}.get(self.lie, 1.0)
        with self.lock:
            self.requests += 1
            self.prompt_tokens += int(prompt * 2 * factor)
            self.generation_tokens += completion
        usage = None if self.lie == "no usage" else {"prompt_tokens": prompt * 2, "completion_tokens": completion}
        return 200, {"choices": [{"message": {"content": "x"}}], "usage": usage}

    def page(self, openmetrics: bool) -> bytes:
        """Print the page; asked for OpenMetrics it mangles names, as prometheus_client does."""
        label = '{engine="0",model_name="tiny"}'
        done = '{engine="0",finished_reason="stop",model_name="tiny"}'
        prefix = "vllm_" if openmetrics else "vllm:"
        return (
            f"# TYPE vllm:prompt_tokens_total counter\n{prefix}prompt_tokens_total{label} {self.prompt_tokens}\n"
            f"# TYPE vllm:generation_tokens_total counter\n"
            f"{prefix}generation_tokens_total{label} {self.generation_tokens}\n"
            f"# TYPE vllm:request_success_total counter\n{prefix}request_success_total{done} {self.requests}\n"
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1000\n"
            + ("# EOF\n" if openmetrics else "")
        ).encode()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Start such a server on a free port of 127.0.0.1."""
    state = Engine("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            state.paths.append(self.path)
            openmetrics = "openmetrics" in self.headers.get("Accept", "")
            documents = {
                "/version": {"version": "0.32.0"},
                "/v1/models": {"data": [{"id": "tiny", "max_model_len": 512}]},
            }
            if self.path == "/metrics":
                kind = "application/openmetrics-text" if openmetrics else "text/plain; version=0.0.4"
                self._send(200, state.page(openmetrics), kind)
            elif self.path in documents:
                self._send(200, json.dumps(documents[self.path]).encode(), "application/json")
            else:
                self._send(404, b"{}", "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = state.answer(body)
            self._send(status, json.dumps(document).encode(), "application/json")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run obs-audit in this process: run("--stack", "vllm", ...)."""

    def invoke(*words: object, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words], input=stdin)

    return invoke
