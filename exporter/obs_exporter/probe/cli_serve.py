"""``obs-probe serve``."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from obs_exporter.probe.cli_common import InputError


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
@click.option("--check", is_flag=True, help="Only check the file.")
def serve_command(config_file: Path, listen: str | None, check: bool) -> None:
    """Probe targets at a low rate, without end, within a budget of requests and tokens; ends on SIGTERM or Ctrl-C.

    Example: obs-probe serve --config probe.yaml
    """
    from obs_exporter.probe.request import RequestError
    from obs_exporter.probe.serve_config import ConfigError, load_config

    try:
        config = load_config(config_file)
    except ConfigError as error:
        raise InputError(str(error)) from None
    if check:
        click.echo(f"{config_file}: {len(config.targets)} targets, fine", err=True)
        return

    from obs_exporter.probe.metrics import MetricsOutputError, ProbeMetrics, serve_metrics
    from obs_exporter.probe.serve import serve

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    metrics = ProbeMetrics(config.slo)
    try:
        close, port = serve_metrics(metrics, listen or config.listen)
    except MetricsOutputError as error:
        raise InputError(str(error)) from None
    click.echo(f"metrics: http://{(listen or config.listen).rpartition(':')[0]}:{port}/metrics", err=True)
    try:
        serve(config, metrics, stop)
    except RequestError as error:
        raise InputError(str(error)) from None
    finally:
        close()
