"""``obs-audit lint``: which panels or alerts of your own files cannot be answered by a stack at a version."""

from __future__ import annotations

from pathlib import Path

import click

from obs_exporter import options


@click.command("lint")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DASHBOARD_OR_RULES...")
@click.option("--stack", type=options.STACK, required=True, help="The stack that is asked, e.g. --stack ray-serve.")
@options.stack_version()
@options.engine_version()
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Form of the result, e.g. --format json.",
)
@click.pass_context  # fmt: skip
def lint(
    context: click.Context, files: tuple[Path, ...], stack: str, stack_version: str, engine_version: str, form: str
) -> None:
    """Say which expressions of dashboards and rules a stack cannot answer, why, and what to ask instead.

    Reads Grafana's JSON and Prometheus' rule files. Without --stack-version the newest known release is judged. Exit
    codes: 0 every expression can be answered, 1 some cannot, 2 wrong usage or a file that cannot be read.

    \b
    Examples:
      obs-audit lint board.json --stack ray-serve --stack-version 2.60.0
      obs-audit lint rules/*.yml board.json --stack vllm --stack-version 0.20.0 --format json
    """
    from obs_audit.lint import linting, render, sources
    from obs_audit.lint.answers import Judge
    from obs_exporter.stacks import STACKS

    if STACKS[stack].is_engine and stack_version and not engine_version:
        stack_version, engine_version = "", stack_version
    judge = Judge(STACKS[stack], options.claims(stack_version, engine_version))
    result = linting.lint([sources.read(path) for path in files], judge)
    click.echo(render.FORMATS[form](result), nl=False)
    context.exit(1 if result.findings else 0)
