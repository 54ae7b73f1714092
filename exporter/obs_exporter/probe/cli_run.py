"""``obs-probe run`` and ``obs-probe calibrate``; the options of ``run`` are in the modules cli_options_*."""

from __future__ import annotations

from typing import Any

import click

from obs_exporter.options import FiniteRange
from obs_exporter.probe.cli_common import InputError, Separated, positive_int, write_output
from obs_exporter.probe.cli_options_load import LOAD, REQUEST
from obs_exporter.probe.cli_options_output import JUDGE, OUTPUT

_SECONDS = FiniteRange(min=0, min_open=True)


def _with_options(command: Any) -> Any:
    """Add all options; the last added is shown first."""
    for option in reversed((*LOAD, *REQUEST, *JUDGE, *OUTPUT)):
        command = option(command)
    return command


class _KeepsArguments(click.Command):
    """Remembers the arguments as given: --processes hands them on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)


@click.command("run", cls=_KeepsArguments)
@_with_options
@click.pass_context
def run_command(ctx: click.Context, /, **options: Any) -> None:
    """Put load on a server and measure it.

    Ctrl-C ends the run: what has finished is kept, and the result says that it is partial (exit status 1).

    Example: obs-probe run --url http://127.0.0.1:8000/v1 --model M --scenarios short --concurrency 1,2,4,8,16,32,64
    --requests-per-level 100 --warmup 1 --unique-prefix --ttft-slo 0.5 --e2e-slo 10 --output results/x.json
    """
    from obs_exporter.probe.session import execute
    from obs_exporter.probe.session_parts import RunOptions

    ctx.exit(execute(RunOptions(**options), ctx.meta["arguments"]))


@click.command("calibrate")
@click.option(
    "--concurrency",
    type=Separated(positive_int, "whole numbers"),
    default="1,16,64",
    show_default=True,
    help="Slots, for example 1,16,64,256.",
)
@click.option(
    "--max-client-error",
    type=_SECONDS,
    default=0.005,
    show_default=True,
    help="TTFT error at p99, in seconds, that is still accepted.",
)
@click.option("--tls", is_flag=True, help="Over TLS, as for an https target.")
@click.option("--http2", is_flag=True, help="Over HTTP/2, as with run --http2.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print, for example json.",
)
def calibrate_command(
    concurrency: tuple[int, ...], max_client_error: float, tls: bool, http2: bool, output_format: str
) -> None:
    """Measure the probe's own TTFT error against a local server of known truth (in a process of its own).

    Example: obs-probe calibrate --concurrency 1,64,256
    """
    import json

    from obs_exporter.probe.calibrate import calibrate
    from obs_exporter.probe.load import Level
    from obs_exporter.probe.progress import calibration_line
    from obs_exporter.probe.session_parts import check_http2
    from obs_exporter.probe.truth.process import TruthError

    if http2:
        check_http2()
    try:
        levels = [Level("calibration", slots, None, None, None) for slots in concurrency]
        found = [calibrate(level, max_client_error, tls=tls, http2=http2) for level in levels]
    except TruthError as error:
        raise InputError(str(error)) from None
    if tls and not all(calibration.tls for calibration in found):
        raise InputError("--tls: this OpenSSL has no anonymous cipher, so there is no local TLS server to measure with")
    if output_format == "json":
        write_output(json.dumps([calibration.to_json() for calibration in found], indent=1), None)
    else:
        write_output("\n".join(map(calibration_line, found)), None)
