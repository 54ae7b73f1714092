"""What ``obs-probe run`` sends: the options of its load and of its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from obs_exporter.options import FiniteRange
from obs_exporter.probe.cli_common import Separated, positive_float, positive_int
from obs_exporter.probe.request import APIS

Option = Callable[[Any], Any]
"""A decorator that adds one option to a command."""

_SECONDS = FiniteRange(min=0, min_open=True)


def _requests(text: str) -> int | None:
    return None if text == "auto" else positive_int(text)


class _Requests(click.ParamType[int | None]):
    name = "auto|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        try:
            return _requests(str(value)) if value is not None else None
        except ValueError:
            self.fail(f"{value!r}: give auto or a whole number above 0", param, ctx)


LOAD: tuple[Option, ...] = (
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
        help=("Requests a level, for example 100. auto: at least 100, at least 8 a slot, and a multiple of the slots."),
    ),
    click.option("--duration", type=_SECONDS, help="Seconds a level instead of a number of requests, for example 60."),
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
        "--restart-command",
        help="A shell command before each repeat but the first: each repeat is then a server life; lives differ more"
        " than repeats. It returns when the old server is gone; the probe waits for the new one. For example"
        " 'kubectl rollout restart deploy/llm && kubectl rollout status deploy/llm'.",
    ),
    click.option(
        "--restart-timeout",
        type=_SECONDS,
        default=600.0,
        show_default=True,
        help="Seconds for the restart command and the server's return, for example 900.",
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

REQUEST: tuple[Option, ...] = (
    click.option(
        "--api",
        type=click.Choice(APIS),
        default="chat",
        show_default=True,
        help="The API to use, for example completions. triton-generate is Triton's own (generate_stream, no chat"
        " template); the URL is then that of port 8000, without /v1.",
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
    click.option("--temperature", type=FiniteRange(min=0), help="Sampling temperature, for example 0."),
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
        help=("A tokenizer.json to count tokens with where the server does not, for example model/tokenizer.json."),
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
        "--http2",
        is_flag=True,
        help="Speak HTTP/2, one request at a time on each connection: negotiated over TLS, unasked over plain HTTP.",
    ),
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
