"""``obs-audit``: which engine signals a stack exposes, renames, hides or loses, and how to get them back."""

from __future__ import annotations

from pathlib import Path

import click

from obs_audit.lint.cli import lint
from obs_exporter import options
from obs_exporter._version import __version__
from obs_exporter.errors import InputError


@click.group(invoke_without_command=True, context_settings=options.CONTEXT)
@click.version_option(__version__, prog_name="obs-audit")
@click.option("--stack", type=options.STACK, help="The stack to audit, e.g. --stack ray-serve.")
@options.stack_version()
@options.engine_version()
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="A page to fetch, e.g. --url http://127.0.0.1:8002/metrics; may be repeated for several ports of one target.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PAGE",
    help="A page in a file, - for standard input, e.g. --file page.txt; may be repeated.",
)
@options.api_url()
@options.bearer_token_file()
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Form of the report, e.g. --format json.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report to a file, e.g. --output report.json.",
)
@click.option(
    "--require",
    "required",
    default="",
    metavar="SIGNAL,...",
    help="Signals that must be published, e.g. --require preemptions,kv_cache_usage.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["none", "lost", "hidden", "any"]),
    default="none",
    help="Exit with 1 where a signal is at least so bad, e.g. --fail-on lost; any: on every warning, too.",
)
@click.pass_context  # fmt: skip
def main(context: click.Context, /, stack: str | None, output: Path | None, form: str, **asked: object) -> None:
    """Say, for each engine signal, whether a serving stack exposes, renames, hides or loses it.

    Without --url and --file it is a paper audit: what the stack is known to do at its version. Exit codes: 0 fine,
    1 findings at or above --fail-on (or a required signal that is missing), 2 wrong usage or no readable page.

    \b
    Examples:
      obs-audit --stack ray-serve
      obs-audit --stack triton --stack-version 24.12 --url http://127.0.0.1:8002/metrics
      obs-audit --stack vllm --file page.txt --format json --fail-on lost
    """
    if context.invoked_subcommand is not None:
        if stack or any(value for name, value in asked.items() if name != "fail_on"):
            raise click.UsageError(f"the options of an audit do not go before {context.invoked_subcommand!r}")
        return
    if not stack:
        raise click.UsageError("give --stack: vllm, kserve, triton or ray-serve; or --help")
    from obs_audit import auditing

    report = auditing.audit(auditing.Request.of(stack, asked))
    text = auditing.rendered(report, form)
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{output}: {error.strerror or error}") from None
    if report.exit_code == 2:
        click.echo(f"Error: {report.reading.problem}", err=True)
    context.exit(report.exit_code)


@main.command()
@options.table_format()
def signals(form: str) -> None:
    """Print the signals that an audit answers for."""
    from obs_exporter.schema import table

    click.echo(table.FORMATS[form](), nl=False)


main.add_command(lint)
