"""The flags that say where evidence is and what is asked, each written once; ``gather`` shares the first kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from obs_exporter import options

FORMATS = ("text", "json", "markdown", "html", "junit", "sarif")
PROFILES = ("seed", "slo", "autoscaling", "gateway", "all")
"""As in ``data/profiles.yaml``, which is not read for a ``--help`` (a test keeps them equal)."""

_Command = Callable[..., None]


def _stacked(decorators: list[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    """Make one decorator of several, in the order of the help."""

    def decorate(command: _Command) -> _Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def sources() -> Callable[[_Command], _Command]:
    """Return the flags that say where evidence is."""
    return _stacked([
        click.option("--stack", type=options.STACK, help="The stack to audit, e.g. --stack ray-serve."),
        options.stack_version(),
        options.engine_version(),
        click.option("--url", "urls", multiple=True, metavar="URL",
                     help="A page to fetch, e.g. --url http://127.0.0.1:8002/metrics; may be repeated for several "
                     "ports of one target."),
        click.option("--file", "files", multiple=True, metavar="PAGE",
                     help="A page in a file, - for standard input, e.g. --file page.txt; may be repeated."),
        options.api_url(),
        options.bearer_token_file(),
        click.option("--watch", type=options.FiniteRange(0, 3600), default=0.0, metavar="SECONDS",
                     help="Fetch each page a second time after so long, e.g. --watch 15: what moves, what falls?"),
        click.option("--engine-log", "engine_logs", multiple=True, metavar="GLOB",
                     help="The engine's log, e.g. --engine-log '/tmp/ray/session_latest/logs/worker-*.out'."),
        click.option("--ray-sd", default="", metavar="FILE_OR_URL",
                     help="Ray's service discovery, e.g. --ray-sd /tmp/ray/prom_metrics_service_discovery.json or "
                     "--ray-sd http://127.0.0.1:8265."),
        click.option("--annotations", multiple=True, metavar="FILE",
                     help="A manifest of the InferenceService or pod, - for standard input, e.g. --annotations "
                     "isvc.yaml (kubectl get pod POD -o yaml)."),
        click.option("--baseline", default="", metavar="PAGE_OR_URL",
                     help="The bare engine's page of the same version, e.g. --baseline http://127.0.0.1:8000/metrics."),
        click.option("--exercise", default="", metavar="URL",
                     help="Send a few small requests through this OpenAI-compatible API and watch the counters of the "
                     "first --url, e.g. --exercise http://127.0.0.1:8000."),
        click.option("--model", default="", help="The model to exercise, e.g. --model chat."),
        click.option("--exercise-hard", is_flag=True,
                     help="Exercise with a load that provokes preemptions; never on a server that others use."),
    ])  # fmt: skip


def question() -> Callable[[_Command], _Command]:
    """Return the flags that say what is asked."""
    return _stacked([
        click.option("--profile", type=click.Choice(PROFILES), default="all",
                     help="Which signals matter, e.g. --profile seed (a capacity incident)."),
        click.option("--expect", multiple=True, metavar="KEY=VALUE",
                     help="A setting that should be in effect, e.g. --expect max_model_len=4096; may be repeated."),
        click.option("--require", "required", default="", metavar="SIGNAL,...",
                     help="Signals that must be published, e.g. --require preemptions,kv_cache_usage."),
        click.option("--fail-on", type=click.Choice(["none", "lost", "hidden", "any"]), default="none",
                     help="Exit with 1 where a signal of the profile is at least so bad, e.g. --fail-on lost: on every "
                     "error; hidden: also on what a switch would show; any: on every warning."),
        click.option("--waivers", type=click.Path(path_type=Path), metavar="FILE",
                     help="Findings that are accepted until a day, e.g. --waivers waivers.yaml."),
        click.option("--today", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
                     help="The day that waivers are judged by, e.g. --today 2026-12-01 (default: today, UTC)."),
        click.option("--format", "form", type=click.Choice(FORMATS), default="text",
                     help="Form of the report, e.g. --format html."),
        click.option("--output", type=click.Path(path_type=Path), metavar="FILE",
                     help="Write the report to a file, e.g. --output report.html."),
    ])  # fmt: skip
