"""``obs-probe run`` and ``obs-probe calibrate``: the options; what they do is in ``run_command``'s modules."""

from __future__ import annotations

from typing import Any

import click

from obs_exporter.probe.cli_common import InputError, Separated, positive_float, positive_int

_SECONDS = click.FloatRange(min=0, min_open=True)


def _requests(text: str) -> int | None:
    return None if text == "auto" else positive_int(text)


class _Requests(click.ParamType[int | None]):
    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        try:
            return _requests(str(value)) if value is not None else None
        except ValueError:
            self.fail(f"{value!r}: give auto or a whole number above 0", param, ctx)


def _load_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--url", envvar="OBS_PROBE_URL", required=True, help="Base URL, for example http://127.0.0.1:8000/v1."
            ),
            click.option(
                "--model",
                envvar="OBS_PROBE_MODEL",
                help="Model name, for example Qwen/Qwen2.5-1.5B-Instruct. Default: the first of /models.",
            ),
            click.option(
                "--scenarios",
                type=Separated(str, "scenario names"),
                default="short",
                show_default=True,
                help="What is asked, for example short,long-prompt (see obs-probe scenarios).",
            ),
            click.option(
                "--concurrency",
                type=Separated(positive_int, "whole numbers"),
                help="Closed loop: slots, for example 1,2,4,8,16,32,64 (the default, when no --rate is given).",
            ),
            click.option(
                "--rate",
                type=Separated(positive_float, "numbers"),
                help="Open loop: requests a second (Poisson), for example 0.5,2,8.",
            ),
            click.option(
                "--requests-per-level",
                "requests",
                type=_Requests(),
                default="auto",
                show_default=True,
                help=(
                    "Requests a level, for example 100. auto: at least 100, at least 8 a slot, and a multiple of the "
                    "slots."
                ),
            ),
            click.option(
                "--duration", type=_SECONDS, help="Seconds a level instead of a number of requests, for example 60."
            ),
            click.option(
                "--warmup",
                type=click.IntRange(min=0),
                default=1,
                show_default=True,
                help="Requests before each level that are in no number, for example 4.",
            ),
            click.option(
                "--repeats",
                type=click.IntRange(min=1),
                default=5,
                show_default=True,
                help="Times that all levels are run, one after the other, for example 3.",
            ),
            click.option(
                "--unique-prefix/--no-unique-prefix",
                default=True,
                show_default=True,
                help="A text that no other request has at the very start of every prompt: no prefix cache can help.",
            ),
            click.option(
                "--seed", type=int, default=0, show_default=True, help="For prompts and arrival times, for example 7."
            ),
        )
    ):
        command = option(command)
    return command


def _request_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--api",
                type=click.Choice(["chat", "completions"]),
                default="chat",
                show_default=True,
                help="The API to use, for example completions.",
            ),
            click.option(
                "--max-tokens",
                type=click.IntRange(min=1),
                help="Tokens asked for, for example 128. Default: the scenario's.",
            ),
            click.option(
                "--ignore-eos",
                is_flag=True,
                help="Ask for exactly --max-tokens (vLLM's ignore_eos; other servers may refuse it).",
            ),
            click.option(
                "--min-tokens",
                type=click.IntRange(min=0),
                help="Ask for at least so many tokens (vLLM's min_tokens), for example 128.",
            ),
            click.option("--temperature", type=click.FloatRange(min=0), help="Sampling temperature, for example 0."),
            click.option(
                "--stream/--no-stream",
                default=True,
                show_default=True,
                help="Ask for a stream. Without one, TTFT is the time of the whole answer.",
            ),
            click.option(
                "--usage/--no-usage",
                default=True,
                show_default=True,
                help="Ask for the token count with stream_options.include_usage.",
            ),
            click.option(
                "--continuous-usage",
                is_flag=True,
                help="Ask for the count with every event (vLLM): exact TPOT when an event carries several tokens.",
            ),
            click.option(
                "--tokenizer",
                type=click.Path(dir_okay=False),
                help=(
                    "A tokenizer.json to count tokens with where the server does not, for example model/tokenizer.json."
                ),
            ),
            click.option(
                "--chat-file",
                type=click.Path(dir_okay=False),
                help='For the scenario chat: JSON lines of {"messages": [...]}, for example chats.jsonl.',
            ),
            click.option(
                "--header",
                "headers",
                multiple=True,
                help="One more header, for example 'X-Tenant: test'. Its value is never written down.",
            ),
            click.option(
                "--api-key-env",
                help="The environment variable with the API key. Default: OBS_PROBE_API_KEY, then OPENAI_API_KEY.",
            ),
            click.option(
                "--timeout",
                type=_SECONDS,
                default=120.0,
                show_default=True,
                help="Seconds until a request is given up, for example 60.",
            ),
            click.option("--fresh-connections", is_flag=True, help="A new connection for every request."),
            click.option(
                "--proxy",
                help="An HTTP proxy, for example http://127.0.0.1:3128. The environment's proxies are not used.",
            ),
            click.option(
                "--cacert",
                type=click.Path(dir_okay=False),
                help="CA certificates to check the server with, for example ca.pem.",
            ),
            click.option("--cert", type=click.Path(dir_okay=False), help="Client certificate, for example client.pem."),
            click.option(
                "--key", type=click.Path(dir_okay=False), help="Key of the client certificate, for example client.key."
            ),
            click.option("--insecure", is_flag=True, help="Accept any server certificate; the result says so."),
        )
    ):
        command = option(command)
    return command


def _judge_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--ttft-slo",
                type=_SECONDS,
                default=0.5,
                show_default=True,
                help="A good request's longest TTFT in seconds, for example 0.5.",
            ),
            click.option(
                "--e2e-slo",
                type=_SECONDS,
                default=10.0,
                show_default=True,
                help="A good request's longest E2E in seconds, for example 10.",
            ),
            click.option(
                "--tpot-slo",
                type=_SECONDS,
                help="A good request's longest TPOT in seconds, for example 0.05. Default: none.",
            ),
            click.option(
                "--calibration/--no-calibration",
                default=True,
                show_default=True,
                help="Measure the probe's own error first, against a local server of known truth.",
            ),
            click.option("--calibrate", "calibrate_only", is_flag=True, help="Only that: send nothing to the target."),
            click.option(
                "--max-client-error",
                type=_SECONDS,
                default=0.005,
                show_default=True,
                help=(
                    "The probe's own TTFT error at p99, in seconds, from which a level counts as limited by the client."
                ),
            ),
        )
    ):
        command = option(command)
    return command


def _output_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option(
                "--output",
                type=click.Path(dir_okay=False),
                help=(
                    "The result file, for example results/x.json; requests go to results/x.requests.jsonl. Default: "
                    "obs-probe-TIME.json."
                ),
            ),
            click.option("--listen", help="Serve /metrics there during the run, for example 127.0.0.1:9109."),
            click.option(
                "--push-gateway", help="Push the metrics there at the end, for example http://pushgateway:9091."
            ),
            click.option(
                "--textfile",
                type=click.Path(dir_okay=False),
                help=(
                    "Write the metrics there at the end, for node_exporter, for example "
                    "/var/lib/node_exporter/probe.prom."
                ),
            ),
            click.option(
                "--metrics-url",
                help=(
                    "The server's own /metrics, to put its side beside the client's, for example "
                    "http://127.0.0.1:9108/metrics."
                ),
            ),
            click.option(
                "--metrics-stack",
                default="schema",
                show_default=True,
                help=(
                    "How to read that page: schema (an obs-exporter's page), or a stack that this installation can "
                    "read."
                ),
            ),
            click.option(
                "--metrics-interval",
                type=_SECONDS,
                default=1.0,
                show_default=True,
                help="Seconds between looks at that page, for example 1.",
            ),
            click.option(
                "--processes",
                type=click.IntRange(min=1, max=256),
                default=1,
                show_default=True,
                help="Processes to share the load between, for example 4.",
            ),
            click.option(
                "--shard",
                help="This is shard i of n (from 0) of one run, for example 0/4; join them with obs-probe merge.",
            ),
            click.option(
                "--rendezvous",
                type=click.Path(file_okay=False),
                help="A directory that all shards see: they start each level together.",
            ),
            click.option("--run-id", help="The run's id; shards need the same one. Default: a new one."),
            click.option(
                "--name",
                help=(
                    "What to call the target in metrics and reports, for example ray-serve. Default: its host and port."
                ),
            ),
            click.option("--stack", help="The serving stack, for example kserve."),
            click.option("--stack-version", help="Its version, for example 0.20.0."),
            click.option(
                "--engine-version", help="The engine's version, for example 0.20.0. Default: what /version says."
            ),
            click.option(
                "--engine-generation",
                type=click.Choice(["V0", "V1"]),
                help="vLLM's engine generation. Default: what the versions say.",
            ),
            click.option("--gpu", help="The GPU, for example 'RTX 4080 Laptop'."),
            click.option(
                "--setting",
                "settings",
                multiple=True,
                help="An engine setting to compare by, for example max_num_seqs=64. May be given again.",
            ),
            click.option("--quiet", is_flag=True, help="No progress, and no report at the end."),
        )
    ):
        command = option(command)
    return command


class _KeepsArguments(click.Command):
    """Remembers the arguments as given: --processes hands them on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = tuple(args)
        return super().parse_args(ctx, args)


@click.command("run", cls=_KeepsArguments)
@_load_options
@_request_options
@_judge_options
@_output_options
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
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print, for example json.",
)
def calibrate_command(concurrency: tuple[int, ...], max_client_error: float, output_format: str) -> None:
    """Measure the probe's own TTFT error against a local server of known truth (in a process of its own).

    Example: obs-probe calibrate --concurrency 1,64,256
    """
    import json

    from obs_exporter.probe.calibrate import calibrate
    from obs_exporter.probe.load import Level
    from obs_exporter.probe.progress import calibration_line
    from obs_exporter.probe.truth.process import TruthError

    try:
        found = [calibrate(Level("calibration", slots, None, None, None), max_client_error) for slots in concurrency]
    except TruthError as error:
        raise InputError(str(error)) from None
    if output_format == "json":
        click.echo(json.dumps([calibration.to_json() for calibration in found], indent=1))
    else:
        for calibration in found:
            click.echo(calibration_line(calibration))
