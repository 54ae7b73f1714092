"""Commands over result files: ``report``, ``merge`` and ``import``; and the list of scenarios."""

from __future__ import annotations

from pathlib import Path

import click

from obs_exporter.options import FiniteRange
from obs_exporter.probe.cli_common import InputError, pairs, printed, say, write_output

_FILE = click.Path(dir_okay=False, path_type=Path)
_KEPT = "A result that is there already is kept: it moves to {}.1.json with its requests."


@click.command("report")
@click.argument("result", type=_FILE)
@click.option("--baseline", type=_FILE, help="Another result whose curves are drawn beside, for example bare.json.")
@printed("text", "markdown", "html", example="html", file="report.html")
def report_command(result: Path, baseline: Path | None, output_format: str, output: str | None) -> None:
    """Show RESULT; html has charts and needs no network.

    Example: obs-probe report results/ray.json --baseline results/bare.json --format html --output ray.html
    """
    from obs_exporter.probe.recover import read_whole
    from obs_exporter.probe.report import render
    from obs_exporter.probe.results import ResultError

    try:
        found, other = read_whole(result), read_whole(baseline) if baseline else None
    except ResultError as error:
        raise InputError(str(error)) from None
    write_output(render(found, output_format, other), output)


@click.command("merge")
@click.argument("results", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--output",
    type=_FILE,
    required=True,
    help=f"The result to write, for example results/all.json. {_KEPT.format('all')}",
)
@click.option(
    "--wait",
    type=FiniteRange(min=0),
    default=0.0,
    help="Wait up to so many seconds until all shards are there and have ended, for example 3600.",
)
def merge_command(results: tuple[Path, ...], output: Path, wait: float) -> None:
    """Join the shards of one run: every number is computed anew from all requests.

    RESULTS are the result files, or a folder with them; one result of a run without shards is computed anew alone.
    Exit status 1 when the merged result is partial (a shard is missing or was stopped).

    Example: obs-probe merge results/shard-*.json --output results/all.json
    """
    from obs_exporter.probe.merge import merge_files, shard_files
    from obs_exporter.probe.report import render
    from obs_exporter.probe.results import ResultError

    try:
        merged = merge_files(shard_files(results, output, wait), output, say)
    except ResultError as error:
        raise InputError(str(error)) from None
    write_output(render(merged, "text"), None)
    if merged["partial"]:
        click.get_current_context().exit(1)


@click.command("import")
@click.argument("csv_file", type=_FILE)
@click.option(
    "--map",
    "columns",
    multiple=True,
    help="FIELD=COLUMN, for example output_tokens_per_s=bare_tokens_per_s. May be given again.",
)
@click.option(
    "--where", multiple=True, help="COLUMN=VALUE: only rows with it, for example stack=ray-serve. May be given again."
)
@click.option(
    "--set", "fixed", multiple=True, help="FIELD=VALUE for all rows, for example requests=100. May be given again."
)
@click.option(
    "--setting", "settings", multiple=True, help="An engine setting, for example max_num_seqs=64. May be given again."
)
@click.option(
    "--output",
    type=_FILE,
    required=True,
    help=f"The result to write, for example bare.json. {_KEPT.format('bare')}",
)
def import_command(
    csv_file: Path,
    columns: tuple[str, ...],
    where: tuple[str, ...],
    fixed: tuple[str, ...],
    settings: tuple[str, ...],
    output: Path,
) -> None:
    """Make a result of published numbers: CSV_FILE has one row a level.

    Fields: concurrency, rate, scenario, repeat, requests, output_tokens_per_s, goodput (0..1), goodput_percent,
    ttft_s_p50/p90/p95/p99/mean (the same for tpot_s, itl_s, e2e_s), and name, model, stack, stack_version,
    engine_version, engine_generation, gpu.

    Example: obs-probe import throughput.csv --where stack=ray-serve --map concurrency=concurrency
    --map output_tokens_per_s=bare_tokens_per_s --set name=bare --output bare.json
    """
    from obs_exporter.probe.aside import make_room
    from obs_exporter.probe.importer import import_csv
    from obs_exporter.probe.results import ResultError, write_json

    try:
        result = import_csv(
            csv_file,
            pairs(columns, "--map"),
            pairs(where, "--where"),
            pairs(fixed, "--set"),
            pairs(settings, "--setting"),
        )
        output.parent.mkdir(parents=True, exist_ok=True)
        if moved := make_room(output):
            say(moved)
        write_json(output, result)
    except ResultError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
    click.echo(f"{output}: {len(result['levels'])} levels", err=True)


@click.command("scenarios")
def scenarios_command() -> None:
    """List the scenarios that run and serve know.

    Example: obs-probe scenarios
    """
    from obs_exporter.probe.scenarios import SCENARIOS

    width = max(map(len, SCENARIOS))
    write_output("\n".join(f"{one.name.ljust(width)}  {one.meaning}" for one in SCENARIOS.values()), None)
