"""Hold the arithmetic against the engine's own start-up lines. A check agrees, differs, or says what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from obs_audit.kv.arithmetic import Cost
from obs_exporter.derive.from_logs import fitting_block_size
from obs_exporter.stacks.log_lines import BLOCKS, CONTEXT, MEMORY

GIB = 1024.0**3
_ROUNDED = 0.0051
"""Half of the last digit that the engine prints of a concurrency, and of its GiB."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: what was compared, whether it agrees, and the two numbers in a sentence."""

    name: str
    agrees: bool
    message: str


def check(start: Mapping[str, float], found: Cost, block_size: int) -> Iterator[Check]:
    """Yield what can be compared among the start-up's numbers and the arithmetic.

    ``start`` holds the numbers of the start-up lines by the names of ``stacks.log_lines``.
    """
    tokens, blocks = start.get("kv_cache_capacity"), start.get(BLOCKS)
    size = fitting_block_size(start) or block_size
    if blocks is not None and tokens is None:
        tokens = blocks * size
        yield Check(
            "blocks", True, f"{blocks:,.0f} blocks of {size} tokens hold {tokens:,.0f} tokens",
        )  # fmt: skip
    if tokens is not None and blocks is None:
        whole = tokens % size == 0
        yield Check(
            "whole blocks", whole,
            f"{tokens:,.0f} tokens are {tokens / size:,.{0 if whole else 2}f} blocks of {size} tokens"
            + ("" if whole else ": the block size is another one (--block-size)"),
        )  # fmt: skip
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
