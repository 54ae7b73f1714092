"""Hold the arithmetic against the engine's own start-up lines. A check agrees, differs, or says what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from obs_audit.kv.arithmetic import Cost
from obs_exporter.derive.from_logs import SIZES, fitting_block_size
from obs_exporter.stacks.log_lines import BLOCKS, CONTEXT, MEMORY

BLOCK_SIZE = 16
"""Tokens a block where nothing tells: vLLM's default on GPUs."""
CONFIGURED = "configured_block_size"
"""Tokens a block in the line of arguments, beside the names of ``stacks.log_lines``."""
GIB = 1024.0**3
_ROUNDED = 0.0051
"""Half of the last digit that the engine prints of a concurrency, and of its GiB."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: what was compared, whether it agrees, and the two numbers in a sentence."""

    name: str
    agrees: bool
    message: str


def told_block_size(start: Mapping[str, float], found: Cost) -> int:
    """Return the tokens a block that the log tells, or 0.

    The line of arguments says it where it was set; else the numbers of blocks and tokens (or of the concurrency) do,
    where they fit one size that vLLM uses.
    """
    configured = int(start.get(CONFIGURED, 0))
    if configured:
        return configured
    tokens, blocks = start.get("kv_cache_capacity"), start.get(BLOCKS)
    if tokens and blocks and found.uniform and tokens / blocks in SIZES:
        return int(tokens / blocks)
    return fitting_block_size(start)


def check(start: Mapping[str, float], found: Cost, block_size: int, num_blocks: int = 0) -> Iterator[Check]:
    """Yield what can be compared among the start-up's numbers, the arithmetic, and what was asked for.

    ``start`` holds the numbers of the start-up lines by the names of ``stacks.log_lines``. ``num_blocks`` is the number
    of blocks that the user believes in, 0 where none was given.
    """
    tokens, blocks = start.get("kv_cache_capacity"), start.get(BLOCKS)
    told = told_block_size(start, found)
    size = told or block_size
    if told:
        agrees = told == block_size
        message = f"the engine's log is of blocks of {told} tokens"
        yield Check("block size", agrees, message + ("" if agrees else f"; {block_size} were given (--block-size)"))
    if blocks is not None and tokens is None:
        tokens = blocks * size
        yield Check(
            "blocks", True, f"{blocks:,.0f} blocks of {size} tokens hold {tokens:,.0f} tokens",
        )  # fmt: skip
    elif blocks is not None and tokens is not None and found.uniform:
        held = blocks * size
        message = f"{blocks:,.0f} blocks of {size} tokens hold {held:,.0f} tokens; the engine printed {tokens:,.0f}"
        yield Check("blocks", held == tokens, message)
    elif tokens is not None and blocks is None:
        whole = tokens % size == 0
        yield Check(
            "whole blocks", whole,
            f"{tokens:,.0f} tokens are {tokens / size:,.{0 if whole else 2}f} blocks of {size} tokens"
            + ("" if whole else ": the block size is another one (--block-size)"),
        )  # fmt: skip
    counted = blocks if blocks is not None else tokens / size if tokens is not None else None
    if num_blocks and counted is not None:
        message = f"{num_blocks:,} blocks were given; the engine's log says {counted:,.10g}"
        yield Check("number of blocks", num_blocks == counted, message)
    yield from _concurrency(start, tokens, size)
    yield from _memory(start, tokens, found, size)


def _concurrency(start: Mapping[str, float], tokens: float | None, size: int) -> Iterator[Check]:
    """Compare the printed concurrency: V1 counts whole blocks a request, V0 divided tokens."""
    context, printed = start.get(CONTEXT), start.get("kv_cache_max_concurrency")
    if tokens is None or not context or printed is None:
        return
    by_blocks = (tokens / size) / -(-context // size)
    by_tokens = tokens / context
    agrees = min(abs(by_blocks - printed), abs(by_tokens - printed)) <= _ROUNDED
    yield Check(
        "concurrency", agrees,
        f"{tokens:,.0f} tokens over {context:,.0f} are {by_blocks:.2f}x; the engine printed {printed:.2f}x",
    )  # fmt: skip


def _memory(start: Mapping[str, float], tokens: float | None, found: Cost, size: int) -> Iterator[Check]:
    """Compare the memory that the tokens take with what the engine had for them; rounding and one block may be off."""
    memory = start.get(MEMORY)
    if tokens is None or memory is None or not found.per_token:
        return
    needed = tokens * found.per_token
    agrees = -_ROUNDED * GIB <= memory - needed <= _ROUNDED * GIB + found.per_token * size
    message = f"{tokens:,.0f} tokens take {needed / GIB:.2f} GiB; the engine had {memory / GIB:.2f} GiB"
    if not agrees:
        message += f", which is {memory / tokens:,.0f} B a token: another data type, parallel size or kind of layers"
    yield Check("memory", agrees, message)
