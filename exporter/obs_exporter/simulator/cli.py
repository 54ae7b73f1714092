"""``simulate``: serve the simulated engine, or print one page of a played workload."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obs_exporter.options import FiniteRange

if TYPE_CHECKING:
    from obs_exporter.simulator.config import Config

FACE_NAMES = (
    "kserve", "kserve-knative", "ray-serve", "ray-serve-2.44", "triton", "triton-metrics-off", "vllm", "vllm-v0",
)  # fmt: skip
"""Kept here, so that --help need not load the faces; a test holds it against them."""


@click.command()
@click.option(
    "--face", type=click.Choice(FACE_NAMES), default="vllm", show_default=True, help="The stack whose page to show."
)
@click.option(
    "--listen", default="127.0.0.1:8000", show_default=True, metavar="HOST:PORT",
    help="Where to serve, e.g. 127.0.0.1:8000; port 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file with engine, layer and workload, e.g. simulator.yaml.",
)  # fmt: skip
@click.option("--max-num-seqs", type=int, help="The engine's slots, e.g. 4.")
@click.option("--num-blocks", type=int, help="KV blocks, one of them always empty, e.g. 257.")
@click.option("--step-ms", type=float, help="How long a step takes at least, in milliseconds, e.g. 20.")
@click.option(
    "--layer", type=click.Choice(("direct", "triton", "ray", "ray-2.44")),
    help="The serving layer in front; without it, the usual one of the face.",
)  # fmt: skip
@click.option(
    "--time-scale", type=FiniteRange(min=0.01, max=1000), default=1.0, show_default=True,
    help="Simulated seconds in a real one, e.g. 2.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of lengths and arrivals, e.g. 7.")
@click.option(
    "--log-dir", type=click.Path(file_okay=False, path_type=Path), help="Write the stack's log files there, e.g. logs."
)
@click.option("--per-request-metrics", is_flag=True, help="Add vLLM's metrics object to each answer.")
@click.option(
    "--page-at", type=FiniteRange(min=0), metavar="SECONDS",
    help="Do not serve: play the configured workload and print the page of that moment, e.g. 30.",
)  # fmt: skip
def simulate(
    face: str,
    listen: str,
    config_file: Path | None,
    max_num_seqs: int | None,
    num_blocks: int | None,
    step_ms: float | None,
    layer: str | None,
    time_scale: float,
    seed: int,
    log_dir: Path | None,
    per_request_metrics: bool,
    page_at: float | None,
) -> None:
    """Serve a simulated LLM engine with an OpenAI-compatible API and one stack's /metrics.

    Example: simulate --face triton --listen 127.0.0.1:8000 --max-num-seqs 4
    """
    host, port = _listen(listen)
    changes = {
        "max_num_seqs": max_num_seqs,
        "num_blocks": num_blocks,
        "step_s": None if step_ms is None else step_ms / 1000,
    }
    config = _config(config_file, face, layer, {name: value for name, value in changes.items() if value is not None})
    if page_at is not None:
        _print_page(config, face, seed, page_at)
        return
    from obs_exporter.simulator.live_server import LiveOptions

    _serve(config, LiveOptions(face, host, port, seed, time_scale, per_request_metrics, log_dir))


def _listen(listen: str) -> tuple[str, int]:
    from obs_exporter.wsgi import split_address

    address = split_address(listen)
    if address is None or listen.startswith(":"):
        raise click.BadParameter(f"{listen!r} is not HOST:PORT, e.g. 127.0.0.1:8000", param_hint="--listen")
    return address


def _config(config_file: Path | None, face: str, layer: str | None, engine: dict[str, Any]) -> Config:
    import yaml

    from obs_exporter.simulator.config import LAYERS, ConfigError, load_config
    from obs_exporter.simulator.faces import USUAL_LAYERS

    data: Any = {}
    if config_file is not None:
        try:
            data = yaml.safe_load(config_file.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise click.UsageError(f"{config_file} cannot be read as YAML: {error}") from None
    try:
        config = load_config(data)
        if layer is not None or "layer" not in data:
            config = dataclasses.replace(config, layer=LAYERS[layer or USUAL_LAYERS[face]])
        return dataclasses.replace(config, engine=dataclasses.replace(config.engine, **engine))
    except ConfigError as error:
        where = f"{config_file}: " if config_file is not None else ""
        raise click.UsageError(f"{where}{error}") from None


def _print_page(config: Config, face: str, seed: int, at: float) -> None:
    from obs_exporter.simulator.faces import PageUnavailableError
    from obs_exporter.simulator.run import simulate as play

    try:
        page = play(config, seed).page(face, at)
    except PageUnavailableError as error:
        raise click.UsageError(f"there is no page at {at} s: {error}") from None
    click.echo(page, nl=False)


def _serve(config: Config, options: Any) -> None:
    import asyncio

    from obs_exporter.simulator.live import serve

    def ready(server: Any) -> None:
        click.echo(f"{options.face}: {server.url}/metrics, API {server.url}/v1 (model {config.engine.model})", err=True)

    try:
        asyncio.run(serve(config, options, ready))
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    except OSError as error:
        raise click.UsageError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror or error}; choose another --listen"
        ) from None
