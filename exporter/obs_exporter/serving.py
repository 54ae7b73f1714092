"""Run the sidecar until it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading

import click

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.errors import InputError
from obs_exporter.server import App
from obs_exporter.wsgi import bind, run_in_thread


def serve_until_stopped(targets: tuple[Target, ...], address: tuple[str, int]) -> None:
    """Serve /metrics for these targets until SIGINT or SIGTERM.

    Raises ``InputError`` where the address cannot be bound.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    collector = TargetCollector(targets)
    try:
        server = bind(App(collector), address)
    except OSError as error:
        raise InputError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}") from None
    run_in_thread(server)
    collector.sample()
    host, port = server.server_address[:2]
    click.echo(f"obs-exporter: {len(targets)} target(s), serving http://{host!s}:{port}/metrics", err=True)
    until_stopped()
    server.shutdown()
    server.server_close()
    collector.close()


def until_stopped(seconds: float = 0.0) -> None:
    """Wait for SIGINT or SIGTERM, or until so many seconds are over (0: no end)."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait(seconds or None)
