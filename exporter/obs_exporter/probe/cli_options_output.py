"""How ``obs-probe run`` judges and what it publishes: the options of limits, files, metrics and the target's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from obs_exporter.options import STACK_NAMES, FiniteRange

Option = Callable[[Any], Any]
"""A decorator that adds one option to a command."""

_SECONDS = FiniteRange(min=0, min_open=True)


JUDGE: tuple[Option, ...] = (
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
            "The probe's own TTFT error, and its lateness in an open loop, at p99 in seconds, from which a level counts"
            " as limited by the client."
        ),
    ),
)

OUTPUT: tuple[Option, ...] = (
    click.option(
        "--output",
        type=click.Path(dir_okay=False),
        help=(
            "The result file, for example results/x.json; requests go to results/x.requests.jsonl. A result that is"
            " there already is kept: both files move to x.1.json and x.1.requests.jsonl (or the next free number). A"
            " file that is no result is left alone, and the run refused. Default: obs-probe-TIME.json."
        ),
    ),
    click.option("--listen", help="Serve /metrics there during the run, for example 127.0.0.1:9109."),
    click.option(
        "--push-gateway",
        help=(
            "Push the metrics there at the end, for example http://pushgateway:9091. The group is job obs-probe and"
            " instance NAME (see --name), with --shard also its shard: a push replaces only that target's last one."
        ),
    ),
    click.option(
        "--textfile",
        type=click.Path(dir_okay=False),
        help=(
            "Write the metrics there at the end, for node_exporter, for example /var/lib/node_exporter/probe.prom. An"
            " older file there is replaced; the folder must be there."
        ),
    ),
    click.option(
        "--metrics-url",
        help=(
            "The server's own /metrics, to put its side beside the client's, for example http://127.0.0.1:9108/metrics."
        ),
    ),
    click.option(
        "--metrics-stack",
        type=click.Choice(["schema", *STACK_NAMES]),
        default="schema",
        show_default=True,
        help="How to read that page: schema (an obs-exporter's page), or the stack whose own page it is, e.g. vllm.",
    ),
    click.option(
        "--metrics-target",
        help="The target to read where an obs-exporter's page has several (label target), for example chat-prod.",
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
        help=(
            "Processes to share the load between, for example 4. Should this process be killed, they end by themselves"
            " and leave what they measured in .obs-probe-* beside the result: join it with obs-probe merge."
        ),
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
        help=("What to call the target in metrics and reports, for example ray-serve. Default: its host and port."),
    ),
    click.option("--stack", help="The serving stack, for example kserve."),
    click.option("--stack-version", help="Its version, for example 0.20.0."),
    click.option("--engine-version", help="The engine's version, for example 0.20.0. Default: what /version says."),
    click.option(
        "--engine-generation",
        type=click.Choice(["V0", "V1"]),
        help="vLLM's engine generation. Default: what the versions say.",
    ),
    click.option(
        "--weights",
        help="What --model truly is, where a layer serves it under a name of its own, for example"
        " Qwen/Qwen2.5-1.5B-Instruct: compare then knows that it is the same model.",
    ),
    click.option("--gpu", help="The GPU, for example 'RTX 4080 Laptop'."),
    click.option(
        "--setting",
        "settings",
        multiple=True,
        help="An engine setting to compare by, for example max_num_seqs=64. May be given again.",
    ),
    click.option("--quiet", is_flag=True, help="No progress, and no report at the end."),
    click.option(
        "--stop-at-eof",
        is_flag=True,
        help=(
            "End the run when standard input ends, and keep what has finished: for a program that starts this one with"
            " a pipe and may die, for example --processes itself."
        ),
    ),
)
