"""The command line of ``obs-audit kv``."""

from __future__ import annotations

from pathlib import Path

import click

from obs_audit.kv.fields import LARGEST
from obs_exporter import options

_POSITIVE = click.IntRange(min=1, max=LARGEST)


@click.command("kv")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The model's config.json, e.g. --config config.json.",
)
@click.option(
    "--dtype",
    type=click.Choice(["auto", "bfloat16", "float16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2", "int8"]),
    default="auto",
    help="Data type of the KV cache, e.g. --dtype fp8 (auto: the model's own).",
)
@click.option(
    "--block-size",
    type=_POSITIVE,
    metavar="N",
    help="Tokens a block, e.g. --block-size 16 (default: the log's, or 16).",
)
@click.option("--num-blocks", type=_POSITIVE, metavar="N", help="Blocks of the cache, e.g. --num-blocks 15326.")
@click.option(
    "--kv-bytes",
    type=options.FiniteRange(min=1, max=1e18),
    metavar="B",
    help="Bytes for the cache on one GPU, in place of blocks, e.g. --kv-bytes 7e9.",
)
@click.option(
    "--max-model-len", type=_POSITIVE, metavar="L", help="Longest context in tokens, e.g. --max-model-len 4096."
)
@click.option(
    "--tensor-parallel-size",
    "tensor_parallel",
    type=_POSITIVE,
    default=1,
    metavar="N",
    help="GPUs that share each layer, e.g. --tensor-parallel-size 2.",
)
@options.engine_log()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form, e.g. --format json.")
@click.pass_context  # fmt: skip
def kv(
    context: click.Context,
    config: Path,
    form: str,
    num_blocks: int | None,
    kv_bytes: float | None,
    max_model_len: int | None,
    dtype: str,
    block_size: int | None,
    tensor_parallel: int,
    engine_log: tuple[str, ...],
) -> None:
    """Say how many bytes a token takes in the KV cache, and check it against the engine's start-up lines.

    Exit codes: 0 fine, 1 the engine's own lines say otherwise, 2 wrong usage or unreadable input.

    \b
    Examples:
      obs-audit kv --config config.json --num-blocks 15326 --max-model-len 4096
      obs-audit kv --config config.json --engine-log vllm.log
    """
    if num_blocks and kv_bytes:
        raise click.UsageError("give --num-blocks or --kv-bytes, not both")
    from obs_audit.kv.calculation import Asked, calculate
    from obs_audit.kv.report import FORMATS

    asked = Asked(
        config,
        dtype,
        block_size or 0,
        num_blocks or 0,
        kv_bytes or 0.0,
        max_model_len or 0,
        tensor_parallel,
        engine_log,
    )
    result = calculate(asked)
    click.echo(FORMATS[form](result), nl=False)
    context.exit(int(result.differs))
