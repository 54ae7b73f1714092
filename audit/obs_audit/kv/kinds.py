"""What each layer of a model keeps in the KV cache, by its config's words, numbers and intervals. Pure."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from enum import StrEnum

from obs_audit.kv.fields import REMEDY, Fields, ShapeError


class Keeps(StrEnum):
    """What a layer keeps for the tokens of a request."""

    ALL = "full attention"
    WINDOW = "sliding window"
    CHUNK = "chunked attention"
    LATENT = "multi-head latent attention (MLA)"
    NOTHING = "a state of fixed size, or nothing"


_WORDS = {
    "full_attention": Keeps.ALL, "attention": Keeps.ALL, "global": Keeps.ALL, "hybrid": Keeps.ALL, "*": Keeps.ALL,
    "sliding_attention": Keeps.WINDOW, "chunked_attention": Keeps.CHUNK, "local": Keeps.WINDOW,
    "linear_attention": Keeps.NOTHING, "mamba": Keeps.NOTHING, "mamba2": Keeps.NOTHING, "recurrent": Keeps.NOTHING,
    "conv": Keeps.NOTHING, "moe": Keeps.NOTHING, "mlp": Keeps.NOTHING, "M": Keeps.NOTHING, "-": Keeps.NOTHING,
    "E": Keeps.NOTHING,
}  # fmt: skip
"""The words of ``layer_types``, ``layers_block_type`` and ``hybrid_override_pattern``."""

PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Of so many layers in a row the last is a full one, where the config has a window and names no pattern."""


def window_of(config: Fields) -> int:
    """Return the tokens that a sliding layer keeps, or 0."""
    names = ("sliding_window", "attention_chunk_size", "sliding_window_size")
    found = [config.number(name, least=0) for name in names]
    return next((window for window in found if window), 0)


_NUMBERED = (
    ("attn_type_list", "", {0: Keeps.NOTHING, 1: Keeps.ALL}),
    ("decoder_attention_types", "", {0: Keeps.NOTHING, 1: Keeps.ALL}),
    ("no_rope_layers", "attention_chunk_size", {0: Keeps.ALL, 1: Keeps.CHUNK}),
)
"""Lists of a number for each layer: the field, another that must be there for it to be about the cache, and what the
numbers mean. MiniMax counts 0 for linear attention and 1 for full. Llama 4 has 1 for layers with rotary positions,
which see their chunk alone, and 0 for those without (NoPE), which see all; SmolLM3 has the same list and no chunks."""
_NO_ROPE_INTERVAL = 4
"""Llama 4 without a list: each fourth layer has no rotary positions."""


def kinds_of(config: Fields, model_type: str, count: int, notes: list[str]) -> list[Keeps]:
    """Return what each layer keeps."""
    for name in ("layer_types", "layers_block_type", "hybrid_override_pattern"):
        if config.has(name):
            return _listed(config, name, count, notes)
    for name, beside, meanings in _NUMBERED:
        if config.values.get(name) and (not beside or config.has(beside)):
            return _by_number(config, name, meanings, count)
    if config.has("attention_chunk_size") and model_type.startswith("llama4"):
        interval = config.first(("no_rope_layer_interval",)) or _NO_ROPE_INTERVAL
        return [Keeps.CHUNK if (index + 1) % interval else Keeps.ALL for index in range(count)]
    linear = config.inner("linear_attn_config")
    if linear is not None and linear.has("full_attn_layers"):
        full = linear.values["full_attn_layers"]
        if not isinstance(full, list) or not all(isinstance(one, int) and 0 < one <= count for one in full):
            raise linear.wrong("full_attn_layers", f"a list of layers from 1 to {count}")
        return [Keeps.ALL if index + 1 in full else Keeps.NOTHING for index in range(count)]
    interval = config.first(("full_attention_interval",))
    if interval:
        return [Keeps.ALL if (index + 1) % interval == 0 else Keeps.NOTHING for index in range(count)]
    period = config.first(("attn_layer_period",))
    if period:
        offset = config.number("attn_layer_offset", least=0, most=period - 1) or 0
        return [Keeps.ALL if index % period == offset else Keeps.NOTHING for index in range(count)]
    return _sliding(config, model_type, count)


def _listed(config: Fields, name: str, count: int, notes: list[str]) -> list[Keeps]:
    """Return the kinds of layers that a list names one by one, or a text letter by letter."""
    value = config.values[name]
    words = list(value) if isinstance(value, str) else config.texts(name)
    unknown = sorted(set(words) - _WORDS.keys())
    if unknown or len(words) < count:
        what = f"unknown are {', '.join(map(reprlib.repr, unknown[:5]))}" if unknown else "some are missing"
        raise ShapeError(f"{config.path}{name} has {len(words)} entries for {count} layers; {what}: {REMEDY}")
    if len(words) > count:
        notes.append(f"{name} has {len(words)} entries for {count} layers: the first {count} are taken")
    return [_WORDS[word] for word in words[:count]]


def _by_number(config: Fields, name: str, meanings: Mapping[int, Keeps], count: int) -> list[Keeps]:
    """Return the kinds of layers that a list of numbers names one by one."""
    value = config.values[name]
    if (
        not isinstance(value, list)
        or len(value) < count
        or not all(type(one) is int and one in meanings for one in value)
    ):
        raise config.wrong(name, f"a list of 0 and 1 for {count} layers")
    return [meanings[one] for one in value[:count]]


def _sliding(config: Fields, model_type: str, count: int) -> list[Keeps]:
    """Return the kinds of a model that has windows at most."""
    used = config.flag("use_sliding_window")
    if not window_of(config) or used is False:
        return [Keeps.ALL] * count
    pattern = config.first(("sliding_window_pattern", "_sliding_window_pattern")) or PERIODS.get(model_type, 0)
    if pattern:
        return [Keeps.WINDOW if (index + 1) % pattern else Keeps.ALL for index in range(count)]
    if used:
        first = config.first(("max_window_layers",), least=0)
        return [Keeps.WINDOW if index >= first else Keeps.ALL for index in range(count)]
    return [Keeps.WINDOW] * count
