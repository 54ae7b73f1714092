"""``obs-exporter``: serve the common schema, map one page, print the signals, check a configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from obs_exporter import options
from obs_exporter._version import __version__
from obs_exporter.errors import InputError
from obs_exporter.simulator.cli import simulate


@click.group(context_settings=options.CONTEXT)
@click.version_option(__version__, prog_name="obs-exporter")
def main() -> None:
    """Publish one metrics schema for LLM serving stacks, and say how each value is known.

    \b
    Examples:
      obs-exporter serve --stack ray-serve --url http://127.0.0.1:8080/metrics
      obs-exporter serve --config targets.yml
      obs-exporter map --stack vllm --file page.txt
    """


@main.command()
@click.option("--stack", type=options.STACK, help="The stack of the one target, e.g. --stack triton.")
@click.option(
    "--url",
    metavar="URL",
    help="Its metrics page, e.g. --url http://127.0.0.1:8002/metrics (http:// and /metrics may be left out).",
)
@click.option("--name", default="", help="Its name in the target label, e.g. --name chat-a (default: host and port).")
@options.api_url()
@options.stack_version()
@options.engine_version()
@options.bearer_token_file()
@options.beside_the_page()
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A YAML file with many targets, e.g. --config targets.yml.",
)
@click.option(
    "--listen", default="", metavar="HOST:PORT",
    help="Where to serve, e.g. --listen 0.0.0.0:9750 (default: 127.0.0.1:9750).",
)  # fmt: skip
def serve(stack: str | None, url: str | None, config_file: Path | None, listen: str, **flags: Any) -> None:
    """Serve /metrics for one target (--stack and --url) or for many (--config)."""
    from obs_exporter import config as configuration
    from obs_exporter.serving import serve_until_stopped

    if config_file is not None:
        given = {"stack": stack, "url": url, **flags}
        extra = [f"--{flag.replace('_', '-')}" for flag, value in given.items() if value]
        if extra:
            raise click.UsageError(f"--config says it all; leave {', '.join(extra)} out")
        config = configuration.load(config_file)
        serve_until_stopped(config.targets, _address(listen) if listen else config.listen)
        return
    if not stack or not url:
        raise click.UsageError("give --stack and --url for one target, or --config for many")
    versions = options.claims(flags.pop("stack_version"), flags.pop("engine_version"))
    address = _address(listen or configuration.DEFAULT_LISTEN)
    serve_until_stopped((options.target(stack, url, versions, **flags),), address)


@main.command("map")
@click.option("--stack", type=options.STACK, required=True, help="The stack that printed it, e.g. --stack kserve.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PAGE",
    help="A page in a file, - for standard input; several are successive scrapes, oldest first, "
    "e.g. --file before.txt --file after.txt.",
)
@click.option("--url", metavar="URL", help="A page to fetch, e.g. --url http://127.0.0.1:8000/metrics.")
@click.option(
    "--interval",
    type=options.FiniteRange(min=0, min_open=True),
    default=15.0,
    metavar="SECONDS",
    help="Time between two pages given with --file, e.g. --interval 5 (default: 15).",
)
@options.stack_version()
@options.engine_version()
@options.beside_the_page()  # fmt: skip
def map_page(
    stack: str,
    files: tuple[str, ...],
    url: str | None,
    interval: float,
    stack_version: str,
    engine_version: str,
    **told: Any,
) -> None:
    """Print the schema for one page and end: the same path as serve, once.

    Derived signals that grow from look to look need two pages or more, given oldest first.
    """
    from obs_exporter import mapping_once

    if bool(files) == bool(url):
        raise click.UsageError("give the page with --file or with --url, one of the two")
    versions = options.claims(stack_version, engine_version)
    if url:
        looks = mapping_once.from_url(options.target(stack, url, versions, **told))
    else:
        target = options.target(stack, "file", versions, name="file", **told)
        looks = mapping_once.from_files(target, files, interval)
    sys.stdout.write(mapping_once.rendered(looks))
    problem = looks[-1][1].reading.problem
    if problem:
        raise InputError(problem)


@main.command()
@options.table_format()
def signals(form: str) -> None:
    """Print the schema: every signal with its metric, type, unit and labels."""
    from obs_exporter.schema import table

    click.echo(table.FORMATS[form](), nl=False)


@main.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check a configuration file and say what it would scrape."""
    from obs_exporter import config as configuration
    from obs_exporter.sources.scrape import metrics_url, redacted

    config = configuration.load(file)
    click.echo(f"{file}: fine, {len(config.targets)} target(s)")
    for target in config.targets:
        click.echo(f"  {target.name}: {target.stack} at {redacted(metrics_url(target.access.url))}")


@main.command()
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    show_default=True,
    help="Where the exporter serves, e.g. --listen 127.0.0.1:9750; port 0 takes a free one.",
)
@click.option(
    "--clients",
    default=10,
    type=click.IntRange(0, 64),
    show_default=True,
    help="Clients that load each stack, e.g. --clients 0 to load them yourself.",
)
@click.option(
    "--seconds", default=0.0, type=options.FiniteRange(min=0),
    help="End after so long, e.g. --seconds 30 (default: Ctrl-C).",
)  # fmt: skip
def demo(listen: str, clients: int, seconds: float) -> None:
    """Run four simulated stacks under load, with the exporter on them."""
    from obs_exporter.demo import staged
    from obs_exporter.serving import until_stopped

    try:
        with staged(clients, _address(listen)) as stage:
            click.echo(f"metrics of all four: {stage.metrics}/metrics, states: {stage.metrics}/", err=True)
            for name, url in stage.apis.items():
                click.echo(f"{name}: {url}/metrics; load it: obs-probe run --url {url}/v1 --concurrency 1,8", err=True)
            until_stopped(seconds)
    except OSError as error:
        raise InputError(f"cannot listen on {listen}: {error.strerror or error}") from None


main.add_command(simulate)


@main.command("gateway-config")
@click.option("--stack", type=options.STACK, required=True, help="The stack of the model servers, e.g. --stack kserve.")
@options.stack_version()
@options.engine_version()
@click.option("--common", is_flag=True, help="Ask for the common schema's names, on the exporter's page (port 9750).")
@click.option("--lora", is_flag=True, help="The engine runs with --enable-lora: name its adapter metric, too.")
@click.option(
    "--extractor",
    type=click.Choice(["core-metrics-extractor", "model-server-protocol-metrics"]),
    default="core-metrics-extractor",
    show_default=True,
    help="The plugin's name: the former in llm-d-router, the latter in the extension up to 1.4 and in KServe.",
)
@click.pass_context  # fmt: skip
def gateway_config(
    context: click.Context, stack: str, stack_version: str, engine_version: str, common: bool, lora: bool,
    extractor: str,
) -> None:  # fmt: skip
    """Print the endpoint picker's engineConfigs for a stack (Gateway API inference extension).

    Exit code 1 where one of the three gauges that the picker needs has no name on this stack: the reason and the remedy
    stand in the output. Triton's vLLM backend has none of them, and --common cannot make them up.

    \b
    Examples:
      obs-exporter gateway-config --stack ray-serve --stack-version 2.60.0
      obs-exporter gateway-config --stack kserve --common
    """
    from obs_exporter import gateway
    from obs_exporter.stacks import STACKS

    if STACKS[stack].is_engine and stack_version and not engine_version:
        stack_version, engine_version = "", stack_version
    claims = options.claims(stack_version, engine_version)
    config = gateway.engine_config(STACKS[stack], claims, common=common, lora=lora)
    click.echo(gateway.rendered(config, extractor), nl=False)
    context.exit(0 if config.complete else 1)


def _address(text: str) -> tuple[str, int]:
    from obs_exporter import config as configuration

    try:
        return configuration.listen_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None
