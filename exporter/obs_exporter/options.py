"""Command-line options that several commands share, each written once, and the target that they describe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from obs_exporter.config import Target
    from obs_exporter.stacks import Claims

STACK_NAMES = ("vllm", "kserve", "triton", "ray-serve")
"""As in the registry of stacks, which is not imported for a ``--help`` (a test keeps them equal)."""


class FiniteRange(click.FloatRange):
    """A range of numbers, of which neither ``nan`` nor ``inf`` is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; a usage error for what is none."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
STACK = click.Choice(STACK_NAMES)

_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def stack_version() -> _Decorator:
    """``--stack-version``."""
    return click.option(
        "--stack-version", default="", metavar="V",
        help="The stack's version where the target does not tell, e.g. --stack-version 24.12.",
    )  # fmt: skip


def engine_version() -> _Decorator:
    """``--engine-version``."""
    return click.option(
        "--engine-version", default="", metavar="V",
        help="vLLM's version where the target does not tell, e.g. --engine-version 0.20.0.",
    )  # fmt: skip


def api_url() -> _Decorator:
    """``--api-url``."""
    return click.option(
        "--api-url", default="", metavar="URL",
        help="The API to ask for versions, e.g. --api-url http://127.0.0.1:8000 (default: the page's host and port).",
    )  # fmt: skip


def bearer_token_file() -> _Decorator:
    """``--bearer-token-file``."""
    return click.option(
        "--bearer-token-file", default="", metavar="FILE",
        help="A file with the token that the page asks for, e.g. --bearer-token-file /var/run/secrets/token.",
    )  # fmt: skip


def engine_log() -> _Decorator:
    """``--engine-log``."""
    return click.option(
        "--engine-log", multiple=True, metavar="GLOB",
        help="The engine's log files, e.g. --engine-log '/var/log/vllm/*.log'; may be repeated.",
    )  # fmt: skip


def beside_the_page() -> _Decorator:
    """All options that tell of a target what its page does not."""
    made = (
        engine_log(),
        click.option(
            "--max-num-seqs", type=click.IntRange(min=1), metavar="N",
            help="Slots of the engine, of all replicas behind the target together, e.g. --max-num-seqs 256.",
        ),
        click.option(
            "--block-size", type=click.IntRange(min=1), metavar="N",
            help="Tokens a KV cache block, for logs that count blocks, e.g. --block-size 16.",
        ),
        click.option(
            "--kv-capacity-tokens", type=click.IntRange(min=1), metavar="N",
            help="Tokens that the KV cache holds, where nothing tells, e.g. --kv-capacity-tokens 247024.",
        ),
        click.option(
            "--estimate-kv-usage", is_flag=True,
            help="Publish an estimate of the KV cache usage where nothing better is known.",
        ),
        click.option("--gpu", is_flag=True, help="Ask the GPU driver of this machine (NVML) for memory and load."),
    )  # fmt: skip

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(made):
            command = option(command)
        return command

    return decorate


def beside(
    engine_log: tuple[str, ...] = (),
    max_num_seqs: int | None = None,
    block_size: int | None = None,
    kv_capacity_tokens: int | None = None,
    estimate_kv_usage: bool = False,
    gpu: bool = False,
) -> dict[str, Any]:
    """Return what those options say, as fields of a target."""
    from obs_exporter.derive.model import Settings

    settings = Settings(
        max_num_seqs=max_num_seqs or 0,
        block_size=block_size or 0,
        kv_capacity=float(kv_capacity_tokens or 0),
        estimate_kv_usage=estimate_kv_usage,
    )
    return {"engine_logs": engine_log, "gpu": gpu, "settings": settings}


def table_format() -> _Decorator:
    """``--format`` of the schema's table."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text",
        help="How to print it, e.g. --format markdown.",
    )  # fmt: skip


def claims(stack_version: str, engine_version: str) -> Claims:
    """Return the versions given. Raises ``click.BadParameter``, naming the flag, for text that is no version."""
    from obs_exporter.config import claimed
    from obs_exporter.stacks import Claims

    known = []
    for flag, text in (("--stack-version", stack_version), ("--engine-version", engine_version)):
        try:
            known.append(claimed(text))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=flag) from None
    return Claims(*known)


def target(
    stack: str,
    url: str,
    versions: Claims,
    *,
    name: str = "",
    api_url: str = "",
    bearer_token_file: str = "",
    **told: Any,
) -> Target:
    """Return the target that flags describe; ``told`` are those of ``beside_the_page``.

    Raises ``click.BadParameter``, naming the flag, for a URL that is none.
    """
    from obs_exporter.config import Target, target_name
    from obs_exporter.sources.scrape import Access

    for flag, text in (("--url", url), ("--api-url", api_url)):
        try:
            _ = target_name(text) if text or flag == "--url" else ""
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=flag) from None
    access = Access(url, bearer_token_file=bearer_token_file)
    return Target(name or target_name(url), stack, access, versions, api_url, **beside(**told))
