"""What all tests share: the captured pages, and servers that answer with what a test says."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
STACK_OF = {"vllm": "vllm", "ray": "ray-serve", "triton": "triton"}


def all_pages() -> list[str]:
    """The names of all captured pages, as ``vllm/0.32.0-real/during``."""
    found = [path for stack in STACK_OF for path in (DATA / stack).rglob("*.txt*")]
    return sorted(str(path.relative_to(DATA)).removesuffix(".gz").removesuffix(".txt") for path in found)


def load_page(name: str) -> bytes:
    """The body of a captured page."""
    path = DATA / f"{name}.txt"
    return path.read_bytes() if path.exists() else gzip.decompress((DATA / f"{name}.txt.gz").read_bytes())


@pytest.fixture
def page() -> Callable[[str], bytes]:
    """Load a captured page by name."""
    return load_page


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``page_name`` on every captured page, for ``engine_page`` on those of vLLM alone."""
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", all_pages())
    if "engine_page" in metafunc.fixturenames:
        pages = [name for name in all_pages() if name.startswith("vllm/") and "no-log-stats" not in name]
        metafunc.parametrize("engine_page", pages)


@dataclass
class Served:
    """A real HTTP server on a free port of 127.0.0.1, and what it was asked."""

    url: str
    requests: list[tuple[str, dict[str, str]]]


Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Served]]:
    """Start servers whose GET is answered by the function given."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> Served:
        seen: list[tuple[str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                try:
                    answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return Served(f"http://127.0.0.1:{server.server_address[1]}", seen)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def body_answer(body: bytes, content_type: str = "text/plain; version=0.0.4", status: int = 200) -> Answer:
    """An answer of fixed bytes on every path."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture
def fixed() -> Callable[..., Answer]:
    """Make an answer of fixed bytes."""
    return body_answer
