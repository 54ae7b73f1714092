"""From a cache's shape to bytes a token, bytes a request, and what fits. Pure arithmetic, in bytes and tokens."""

from __future__ import annotations

import reprlib
from collections import Counter
from dataclasses import dataclass

from obs_audit.kv.fields import ShapeError
from obs_audit.kv.kinds import Keeps
from obs_audit.kv.shape import Layer, Shape

DTYPES = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "int8": 1.0}
"""Bytes an element of the KV cache takes, by vLLM's words for --kv-cache-dtype and the model's own data types."""

AUTO = "auto"

MODEL_DTYPES = {
    "bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "bfloat16", "float": "bfloat16",
    "": "bfloat16",
}  # fmt: skip
"""The cache's data type under ``auto``, by the model's own: vLLM runs a float32 model, and one that names none, in 16
bits unless told otherwise, and so do its caches."""


def resolve_dtype(asked: str, shape: Shape) -> str:
    """Return the cache's data type: the one asked for, or under ``auto`` that of the model's own.

    Raises ``ShapeError`` under ``auto`` for a data type that vLLM runs no model in.
    """
    if asked != AUTO:
        return asked
    if shape.dtype not in MODEL_DTYPES:
        known = ", ".join(name for name in MODEL_DTYPES if name)
        raise ShapeError(
            f"torch_dtype is {reprlib.repr(shape.dtype)}; known are {known}: say the cache's data type with --dtype, "
            "e.g. --dtype bfloat16"
        )
    return MODEL_DTYPES[shape.dtype]


def kept_heads(layer: Layer, tensor_parallel: int) -> float:
    """Return the heads that one GPU keeps: its share, at least one (heads are copied where GPUs outnumber them)."""
    if layer.keeps is Keeps.LATENT:
        return 1
    return max(1.0, layer.heads / tensor_parallel)


def layer_bytes(layer: Layer, dtype: str, tensor_parallel: int = 1) -> float:
    """Return the bytes that one token takes in one layer on one GPU."""
    if layer.keeps is Keeps.NOTHING:
        return 0.0
    copies = 1 if layer.keeps is Keeps.LATENT else 2
    return copies * kept_heads(layer, tensor_parallel) * layer.head_dim * DTYPES[dtype] + layer.extra_bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes on one GPU. ``growing`` a token in layers that keep every token, ``windowed`` in layers with a window,
    ``chunked`` in layers that keep the last chunk, each with that length in tokens.

    ``by_heads`` is what the formula with attention heads in place of key and value heads would say of all layers.
    ``uniform``: all layers keep every token, so that the engine has one group of them and counts plain blocks.
    """

    growing: float
    windowed: tuple[tuple[int, float], ...]
    by_heads: float
    uniform: bool = True
    chunked: tuple[tuple[int, float], ...] = ()

    @property
    def per_token(self) -> float:
        """Bytes of one more token while it is inside every window and chunk."""
        return self.growing + sum(size for _, size in (*self.windowed, *self.chunked))

    @property
    def exaggeration(self) -> float:
        """How many times too much the formula with attention heads says."""
        return self.by_heads / self.per_token if self.per_token else 0.0

    def request(self, tokens: int, block_size: int) -> float:
        """Return the bytes of one request of so many tokens, in whole blocks.

        A sliding layer keeps its window and one block more, since a window seldom begins with a block. A chunk
        does.
        """
        blocks = -(-tokens // block_size)
        total = self.growing * blocks * block_size
        for window, size in self.windowed:
            total += size * block_size * min(blocks, -(-window // block_size) + 1)
        for chunk, size in self.chunked:
            total += size * block_size * min(blocks, -(-chunk // block_size))
        return total


def cost(shape: Shape, dtype: str, tensor_parallel: int = 1) -> Cost:
    """Return what a token costs in a model's cache."""
    growing = 0.0
    bounded: dict[Keeps, Counter[int]] = {Keeps.WINDOW: Counter(), Keeps.CHUNK: Counter()}
    sizes: dict[tuple[Keeps, int], float] = {}
    for layer in shape.layers:
        size = layer_bytes(layer, dtype, tensor_parallel)
        if layer.keeps in bounded:
            bounded[layer.keeps][layer.window] += 1
            sizes[layer.keeps, layer.window] = size
        else:
            growing += size
    windowed, chunked = (
        tuple((window, counts[window] * sizes[keeps, window]) for window in sorted(counts))
        for keeps, counts in bounded.items()
    )
    attending = sum(1 for layer in shape.layers if layer.keeps is not Keeps.NOTHING)
    heads = max(1.0, shape.attention_heads / tensor_parallel)
    by_heads = 2 * heads * shape.head_dim * DTYPES[dtype] * attending
    uniform = not windowed and not chunked and attending == len(shape.layers)
    return Cost(growing, windowed, by_heads, uniform, chunked)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits: blocks, tokens in them, their bytes on one GPU, and requests of a full context (0: not asked)."""

    blocks: int
    tokens: int
    bytes: float
    max_concurrency: float = 0.0


def capacity(found: Cost, block_size: int, blocks: int, max_model_len: int = 0) -> Capacity:
    """Return what so many blocks hold, for a model whose layers all keep every token.

    The concurrency is vLLM V1's: blocks over the whole blocks of one request of the longest context.
    """
    tokens = blocks * block_size
    concurrency = blocks / -(-max_model_len // block_size) if max_model_len else 0.0
    return Capacity(blocks, tokens, tokens * found.per_token, concurrency)


def blocks_in(found: Cost, block_size: int, memory: float) -> int:
    """Return the whole blocks that fit into so many bytes of one GPU."""
    return int(memory // (found.per_token * block_size)) if found.per_token else 0
