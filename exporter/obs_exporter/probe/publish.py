"""How the metrics leave the process: a page, a file for node_exporter's textfile collector, a push to a Pushgateway."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError

from obs_exporter.probe.request import RequestError, parse_endpoint
from obs_exporter.wsgi import Environ, Respond, Wsgi, bind, reply, run_in_thread, split_address

if TYPE_CHECKING:
    from obs_exporter.probe.metrics import ProbeMetrics

JOB = "obs-probe"


class MetricsOutputError(Exception):
    """The metrics cannot be served, pushed or written; the message says where and why."""


def listen_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT (":PORT" means every address, "[::1]:PORT" IPv6). Raises ValueError saying what is expected."""
    address = split_address(text)
    if address is None:
        raise ValueError(f"{text!r}: give it as HOST:PORT, for example 127.0.0.1:9109")
    return address


def serve_metrics(metrics: ProbeMetrics, listen: str) -> tuple[Callable[[], None], int]:
    """Serve the page at HOST:PORT in a thread; return how to end that, and the port. Raises MetricsOutputError."""
    try:
        address = listen_address(listen)
    except ValueError as error:
        raise MetricsOutputError(f"--listen {error}") from None
    try:
        server = bind(_app(metrics), address)
    except OSError as error:
        raise MetricsOutputError(f"--listen {listen}: {error.strerror or error}") from None
    thread = run_in_thread(server)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close, int(server.server_port)


def _app(metrics: ProbeMetrics) -> Wsgi:
    """Return what answers: the page at /metrics alone, so that a wrong path in a scrape is noticed."""
    from prometheus_client import make_wsgi_app

    page: Wsgi = make_wsgi_app(metrics.registry)

    def route(environ: Environ, respond: Respond) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            return page(environ, respond)
        status = "200 OK" if path in ("", "/") else "404 Not Found"
        return reply(respond, status, "obs-probe: the metrics are at /metrics\n")

    return route


def check_textfile(path: Path) -> None:
    """Raise MetricsOutputError where the file could not be written at the end, so that it is told before a run."""
    folder = path.parent
    if not folder.is_dir():
        raise MetricsOutputError(f"--textfile {path}: there is no folder {folder}: make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MetricsOutputError(f"--textfile {path}: the folder {folder} may not be written to")


def write_textfile(metrics: ProbeMetrics, path: Path) -> None:
    """Write the page for node_exporter's textfile collector. Raises MetricsOutputError."""
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(path), metrics.registry)
    except OSError as error:
        raise MetricsOutputError(f"{path}: cannot be written: {error.strerror}") from None


def gateway_url(gateway: str) -> str:
    """Return a Pushgateway's URL, checked. Raises MetricsOutputError, which repeats no password and no token."""
    try:
        return parse_endpoint(gateway).url
    except RequestError as error:
        raise MetricsOutputError(f"--push-gateway: {error}") from None


def push(metrics: ProbeMetrics, gateway: str, grouping: Mapping[str, str]) -> None:
    """Push the page to a Pushgateway, in place of what the same group pushed before. Raises MetricsOutputError.

    A push replaces its whole group, job and ``grouping`` together: without the target in it, one would wipe the other.
    """
    from prometheus_client import push_to_gateway

    url = gateway_url(gateway)
    try:
        push_to_gateway(url, job=JOB, grouping_key=dict(grouping), registry=metrics.registry, timeout=10)
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) and not str(error).startswith("HTTP") else error
        raise MetricsOutputError(f"Pushgateway {url}: {reason}") from None
