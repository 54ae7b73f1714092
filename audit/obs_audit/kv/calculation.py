"""From what the user asked to a finished calculation. Reads the files; the rest is arithmetic."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from obs_audit import loglines
from obs_audit.evidence import files
from obs_audit.kv.arithmetic import Capacity, Cost, blocks_in, capacity, cost, resolve_dtype
from obs_audit.kv.checks import BLOCK_SIZE, CONFIGURED, check, told_block_size
from obs_audit.kv.fields import ShapeError
from obs_audit.kv.report import Result
from obs_audit.kv.shape import read_shape
from obs_exporter.derive.from_logs import Engine
from obs_exporter.derive.from_logs import capacity as tokens_of
from obs_exporter.errors import InputError
from obs_exporter.sources.beside import Beside
from obs_exporter.stacks.log_lines import BLOCKS, CONTEXT

MAX_CONFIG = 16 * 1024 * 1024
"""Bytes: far more than any model's config.json."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A calculation as asked for; numbers are 0 where they were not given."""

    config: Path
    dtype: str = "auto"
    block_size: int = 0
    num_blocks: int = 0
    kv_bytes: float = 0.0
    max_model_len: int = 0
    tensor_parallel: int = 1
    engine_log: tuple[str, ...] = ()


def calculate(asked: Asked) -> Result:
    """Calculate, and check against the engine's lines where a log is given.

    Raises ``InputError`` for a file that cannot be read, is no model's config.json, or no engine's log.
    """
    try:
        shape = read_shape(_document(asked.config))
        dtype = resolve_dtype(asked.dtype, shape)
    except ShapeError as error:
        raise InputError(f"{asked.config}: {error}") from None
    heads = max((layer.heads for layer in shape.layers), default=1)
    if max(heads, asked.tensor_parallel) % max(1, min(heads, asked.tensor_parallel)):
        raise InputError(
            f"{heads} key/value heads cannot be split over {asked.tensor_parallel} GPUs: give --tensor-parallel-size a "
            f"divisor or a multiple of {heads}"
        )
    found = cost(shape, dtype, asked.tensor_parallel)
    starts = _starts(asked.engine_log)
    size = asked.block_size or next((told for start in starts if (told := told_block_size(start, found))), BLOCK_SIZE)
    longest = asked.max_model_len or int(starts[0].get(CONTEXT, 0) if starts else 0)
    blocks = asked.num_blocks or _blocks_of_bytes(asked, found, size)
    if not blocks and starts:
        blocks = int(starts[0].get(BLOCKS) or (tokens_of(starts[0], size) or 0) // size)
    fits: Capacity | None = capacity(found, size, blocks, longest) if blocks else None
    checks = tuple(one for start in starts for one in check(start, found, size, asked.num_blocks))
    return Result(shape, dtype, asked.tensor_parallel, size, longest, found, fits, checks)


def _document(path: Path) -> object:
    """Return the JSON document of a file. Raises ``InputError`` where it cannot be read, or is none."""
    try:
        with path.open("rb") as handle:
            body = handle.read(MAX_CONFIG + 1)
        if len(body) > MAX_CONFIG:
            raise InputError(f"{path}: more than {MAX_CONFIG} bytes: this is no model's config.json")
        document: object = json.loads(body.decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: this is no JSON, so no model's config.json: {error}") from None
    return document


def _blocks_of_bytes(asked: Asked, found: Cost, size: int) -> int:
    """Return the blocks that fit into --kv-bytes, 0 where it was not given.

    Raises ``InputError`` where not even one does.
    """
    if not asked.kv_bytes or not found.per_token:
        return 0
    blocks = blocks_in(found, size, asked.kv_bytes)
    if not blocks:
        raise InputError(
            f"--kv-bytes {asked.kv_bytes:,.0f} is less than one block: {size} tokens of {found.per_token:,.0f} B are "
            f"{found.per_token * size:,.0f} B"
        )
    return blocks


def _starts(globs: tuple[str, ...]) -> list[dict[str, float]]:
    """Return the numbers of every engine's start-up lines.

    Raises ``InputError`` where the logs cannot be read or hold none.
    """
    if not globs:
        return []
    beside = Beside(globs)
    evidence = beside.read(0.0, None)
    beside.close()
    if evidence.problems:
        raise InputError("; ".join(evidence.problems))
    engines = evidence.logs.engines if evidence.logs is not None else {}
    starts = [
        {**engines.get((key[0], "", ""), Engine()).start, **engine.start, **_configured(key[0])}
        for key, engine in sorted(engines.items(), key=lambda item: (not _tells_size(item[1]), item[0]))
        if _tells_size(engine) or (engine.start and not any(map(_tells_size, engines.values())))
    ]
    if not starts:
        raise InputError(f"{', '.join(globs)}: no start-up line about the KV cache is in it")
    return starts


def _tells_size(engine: Engine) -> bool:
    """Whether start-up lines tell how much the cache holds; workers' lines tell the memory alone."""
    return any(name in engine.start for name in ("kv_cache_capacity", BLOCKS, "kv_cache_max_concurrency"))


def _configured(name: str) -> dict[str, float]:
    """Return the block size that the log's line of arguments sets; nothing where it sets none."""
    try:
        with Path(name).open("rb") as handle:
            settings = loglines.read(name, loglines.excerpt(files.lines(handle))).settings
        return {CONFIGURED: float(int(settings["block_size"]))}
    except (OSError, KeyError, ValueError):
        return {}  # no such argument: vLLM then takes its default, which the other lines show
