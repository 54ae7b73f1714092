"""``obs-probe serve``."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from obs_exporter.probe.cli_common import InputError, say

if TYPE_CHECKING:
    from obs_exporter.probe.serve_config import ServeConfig


@click.command("serve")
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The YAML file with the targets, for example probe.yaml.",
)
@click.option(
    "--listen", help="Where to serve /metrics, for example 0.0.0.0:9109. Default: the file's, else 127.0.0.1:9109."
)
@click.option("--check", is_flag=True, help="Only check the file, the API keys and the certificates; send nothing.")
def serve_command(config_file: Path, listen: str | None, check: bool) -> None:
    """Probe targets at a low rate, without end, within a budget of requests and tokens; ends on SIGTERM or Ctrl-C.

    Whenever a target's requests end in another way than before, one line on standard error says so, with the reason.

    Example: obs-probe serve --config probe.yaml
    """
    from obs_exporter.probe.publish import MetricsOutputError, serve_metrics
    from obs_exporter.probe.request import RequestError

    config = _checked(config_file, listen)
    if check:
        say(f"{config_file}: {len(config.targets)} target{'s' * (len(config.targets) != 1)}, fine")
        return

    from obs_exporter.probe.metrics import ProbeMetrics
    from obs_exporter.probe.serve import serve

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    metrics = ProbeMetrics(config.slo)
    try:
        close, port = serve_metrics(metrics, listen or config.listen)
    except MetricsOutputError as error:
        raise InputError(str(error)) from None
    say(f"metrics: http://{(listen or config.listen).rpartition(':')[0]}:{port}/metrics")
    try:
        serve(config, metrics, stop, _log)
    except RequestError as error:
        raise InputError(str(error)) from None
    finally:
        close()


def _checked(config_file: Path, listen: str | None) -> ServeConfig:
    """Return the configuration, found to be usable on this machine. Raises InputError."""
    from obs_exporter.probe.publish import listen_address
    from obs_exporter.probe.serve_config import ConfigError, check_here, load_config

    try:
        config = load_config(config_file)
    except ConfigError as error:
        raise InputError(str(error)) from None
    try:
        check_here(config)
    except ConfigError as error:
        raise InputError(f"{config_file}: {error}") from None
    if listen:
        try:
            listen_address(listen)
        except ValueError as error:
            raise InputError(f"--listen {error}") from None
    return config


def _log(line: str) -> None:
    """Write a line with its time to standard error; one that nobody takes any more must not end the probing."""
    with suppress(OSError):
        say(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}")
