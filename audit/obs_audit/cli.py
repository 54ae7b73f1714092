"""``obs-audit``: which engine signals a stack exposes, renames, hides or loses, and how to get them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obs_audit import flags
from obs_audit.kv.command import kv
from obs_audit.lint.cli import lint
from obs_exporter import options
from obs_exporter._version import __version__


@click.group(invoke_without_command=True, context_settings=options.CONTEXT)
@click.version_option(__version__, prog_name="obs-audit")
@flags.sources()
@click.option(
    "--from", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Judge what obs-audit gather has stored, e.g. --from evidence/, in place of --stack and its pages.",
)  # fmt: skip
@flags.question()
@click.pass_context
def main(
    context: click.Context, /, stack: str | None, folder: Path | None, output: Path | None, form: str, **asked: Any
) -> None:
    """Say, for each engine signal, whether a serving stack exposes, renames, hides or loses it.

    Without --url and --file it is a paper audit: what the stack is known to do at its version.

    Exit codes: 0 fine, 1 findings at or above --fail-on (or a required signal that is missing), 2 wrong usage or a page
    (or --baseline or --ray-sd) that cannot be read.

    \b
    Examples:
      obs-audit --stack ray-serve
      obs-audit --stack triton --stack-version 24.12 --url http://127.0.0.1:8002/metrics
      obs-audit --stack vllm --file page.txt --format json --fail-on lost
      obs-audit gather evidence/ --stack kserve --url http://POD:8080/metrics
      obs-audit --from evidence/ --format html --output report.html
    """
    if context.invoked_subcommand is not None:
        given = [name for name in context.params if context.get_parameter_source(name) is _FROM_COMMAND_LINE]
        if given:
            raise click.UsageError(f"the options of an audit do not go before {context.invoked_subcommand!r}")
        return
    if not stack and folder is None:
        raise click.UsageError("give --stack: vllm, kserve, triton or ray-serve; or --from DIR; or --help")
    from obs_audit import auditing, report

    sources, question = auditing.split(asked)
    if folder is not None:
        extra = [name for name, value in {"stack": stack, **sources}.items() if value]
        if extra:
            flag = extra[0].rstrip("s").replace("_", "-")
            raise click.UsageError(f"--from holds the evidence; leave --{flag} out")
        from obs_audit.evidence import store

        bundle = store.read(folder)
    else:
        from obs_audit.evidence import Sources

        bundle = auditing.gathered(Sources(stack or "", **sources))
    finished = auditing.judged(bundle, auditing.Question(**question))
    auditing.written(report.rendered(finished, form), output)
    for problem in finished.problems:
        click.echo(f"Error: {problem}", err=True)
    context.exit(finished.exit_code)


_FROM_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


@main.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@flags.sources()
def gather(folder: Path, stack: str | None, **asked: Any) -> None:
    """Collect the evidence into a new folder now, to judge it later and elsewhere with --from.

    Pages, versions, models, other forms of the page and the known lines of the engine's log are kept with their times
    and hashes. Tokens, prompts and the passwords of URLs are not.

    \b
    Example:
      obs-audit gather evidence/ --stack ray-serve --url http://NODE:8080/metrics --watch 15
    """
    if not stack:
        raise click.UsageError("give --stack: vllm, kserve, triton or ray-serve")
    from obs_audit import auditing
    from obs_audit.evidence import Sources, store

    bundle = auditing.gathered(Sources(stack, **asked))
    store.write(bundle, folder)
    failed = [piece for piece in bundle.pieces if piece.error]
    click.echo(f"{folder}: {len(bundle.pieces) - len(failed)} pieces of evidence")
    for piece in failed:
        click.echo(f"  not to be had: {piece.error}", err=True)


@main.command()
@options.table_format()
def signals(form: str) -> None:
    """Print the signals that an audit answers for."""
    from obs_exporter.schema import table

    click.echo(table.FORMATS[form](), nl=False)


@main.command()
@click.option("--stack", type=options.STACK, help="One stack only, e.g. --stack triton.")
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "html"]), default="text",
    help="How to print it, e.g. --format html.",
)  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE",
              help="Write it to a file, e.g. --output matrix.html.")  # fmt: skip
def matrix(stack: str | None, form: str, output: Path | None) -> None:
    """Print signals x stacks x versions: when did what appear, rename, hide and vanish."""
    from obs_audit import auditing
    from obs_audit.matrix import FORMATS

    auditing.written(FORMATS[form]((stack,) if stack else options.STACK_NAMES), output)


@main.command()
@click.argument("signal")
@click.option("--stack", type=options.STACK, help="One stack only, e.g. --stack triton.")
def explain(signal: str, stack: str | None) -> None:
    """Say what a signal means, which stack has it since when, and how to read it.

    \b
    Example:
      obs-audit explain preemptions --stack ray-serve
    """
    import difflib

    from obs_audit.explain import render
    from obs_exporter.schema import BY_ID

    if signal not in BY_ID:
        near = difflib.get_close_matches(signal, BY_ID, 1)
        hint = f"did you mean {near[0]!r}?" if near else "see obs-audit signals"
        raise click.BadParameter(f"no such signal: {signal}; {hint}", param_hint="SIGNAL")
    click.echo(render(signal, (stack,) if stack else options.STACK_NAMES), nl=False)


main.add_command(kv)
main.add_command(lint)
