"""What a model's config.json says of its KV cache, layer by layer. Pure: a JSON object in, a shape out.

Names of fields and their defaults are those of the Hugging Face configurations; which layers keep what follows vLLM's
own reading of them (``get_num_kv_heads``, ``is_deepseek_mla``, the layers' KV cache specs; vLLM 0.8 to 0.33).
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from enum import StrEnum

from obs_audit.kv.fields import REMEDY, Fields, ShapeError, fields_of, nested
from obs_audit.kv.without_cache import keeps_nothing


class Keeps(StrEnum):
    """What a layer keeps for the tokens of a request."""

    ALL = "full attention"
    WINDOW = "sliding window"
    LATENT = "multi-head latent attention (MLA)"
    NOTHING = "a state of fixed size, or nothing"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's cache.

    ``heads`` and ``head_dim`` are those of keys and values; a latent layer has one "head" of ``head_dim`` elements and
    keeps it once, not twice. ``window`` bounds the tokens that a sliding layer keeps. ``extra_bytes`` a token are kept
    whatever the data type (the index of sparse attention).
    """

    keeps: Keeps
    heads: int = 0
    head_dim: int = 0
    window: int = 0
    extra_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's KV cache: its layers, its attention heads, its own data type, its longest context (0: not said)."""

    model_type: str
    layers: tuple[Layer, ...]
    attention_heads: int
    head_dim: int
    dtype: str
    max_model_len: int
    notes: tuple[str, ...] = ()


_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
_MOST_LAYERS, _MOST_HEADS = 10_000, 100_000
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")

MLA_MODELS = frozenset(
    {
        "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_mtp", "kimi_k2", "kimi_linear", "longcat_flash",
        "glm_moe_dsa", "glm4_moe_lite", "pangu_ultra_moe", "bailing_hybrid",
    }
)  # fmt: skip
"""Model types of which vLLM keeps the latent vector; others with ``kv_lora_rank`` keep whole heads there."""

FOREIGN = {
    "compress_ratios": "the cache is compressed",
    "num_key_value_heads_per_layer": "the heads differ from layer to layer",
    "block_configs": "the layers differ one by one",
    "num_query_heads": "the heads differ from layer to layer",
    "global_head_dim": "full layers have other heads than sliding ones",
    "num_global_key_value_heads": "full layers have other heads than sliding ones",
    "swa_num_key_value_heads": "sliding layers have other heads than full ones",
    "swa_head_dim": "sliding layers have other heads than full ones",
}
"""Fields of caches that are not understood here, and what they say; such a model is refused."""

_WORDS = {
    "full_attention": Keeps.ALL, "attention": Keeps.ALL, "global": Keeps.ALL, "hybrid": Keeps.ALL, "*": Keeps.ALL,
    "sliding_attention": Keeps.WINDOW, "chunked_attention": Keeps.WINDOW, "local": Keeps.WINDOW,
    "linear_attention": Keeps.NOTHING, "mamba": Keeps.NOTHING, "mamba2": Keeps.NOTHING, "recurrent": Keeps.NOTHING,
    "conv": Keeps.NOTHING, "moe": Keeps.NOTHING, "mlp": Keeps.NOTHING, "M": Keeps.NOTHING, "-": Keeps.NOTHING,
    "E": Keeps.NOTHING,
}  # fmt: skip
"""The words of ``layer_types``, ``layers_block_type`` and ``hybrid_override_pattern``."""

PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}
"""Of so many layers in a row the last is a full one, where the config has a window and names no pattern."""


def read_shape(document: object) -> Shape:
    """Read a config.json.

    Raises ``ShapeError`` where a needed field is missing or makes no sense, and for a model without a KV cache.
    """
    whole = fields_of(document)
    config = nested(whole, _NESTED, _LAYERS)
    model_type = config.text("model_type") or whole.text("model_type")
    refused = keeps_nothing(whole, model_type)
    if refused:
        raise ShapeError(refused)
    _understood(config, model_type)
    count, heads = config.needed(_LAYERS, most=_MOST_LAYERS), config.needed(_HEADS, most=_MOST_HEADS)
    notes: list[str] = []
    full = _full_layer(config, model_type, heads, notes)
    window = _window(config)
    layers = tuple(_layer(config, kind, full, window) for kind in _kinds(config, model_type, count, notes))
    if all(layer.keeps is Keeps.NOTHING for layer in layers):
        raise ShapeError("no layer has attention by the config: there is no KV cache to reckon")
    shared = config.first(("num_kv_shared_layers",), least=0)
    if shared >= count:
        raise config.wrong("num_kv_shared_layers", f"less than the {count} layers")
    if shared:
        layers = layers[: count - shared]
        notes.append(f"the last {shared} layers use the cache of earlier ones")
    notes += _further_notes(whole, config, layers)
    return Shape(
        model_type, layers, heads, _head_dim(config, heads), _dtype(whole, config), config.first(_CONTEXT), tuple(notes)
    )


def _understood(config: Fields, model_type: str) -> None:
    """Raise ``ShapeError`` for a model whose cache is of a kind that is not understood."""
    for name, what in FOREIGN.items():
        if config.has(name):
            raise ShapeError(
                f"model_type {model_type!r} has {config.path}{name}: {what}, which is not understood here; take the "
                "engine's own start-up line (GPU KV cache size)"
            )


def _further_notes(whole: Fields, config: Fields, layers: tuple[Layer, ...]) -> list[str]:
    """Say what the numbers leave out or assume."""
    notes = []
    if whole.flag("is_encoder_decoder"):
        notes.append("the cross-attention's cache of the encoder's tokens is not counted")
    states = sum(layer.keeps is Keeps.NOTHING for layer in layers)
    if states:
        notes.append(
            f"an estimate: {states} of {len(layers)} layers keep a state of fixed size per request, or nothing; it is "
            "not counted, and vLLM makes blocks larger until one holds such a state"
        )
    if not _dtype(whole, config):
        notes.append("the config names no data type: 16 bits are assumed, as vLLM does (--dtype says otherwise)")
    quantized = whole.inner("quantization_config")
    if quantized is not None and (quantized.has("kv_cache_scheme") or quantized.has("kv_cache_quant_algo")):
        notes.append("quantization_config is about the KV cache, too: where vLLM follows it, --dtype fp8 is right")
    return notes


def _dtype(whole: Fields, config: Fields) -> str:
    """Return the model's data type, or "": vLLM looks at the whole before the part about the language model."""
    found = (place.text(name) for place in (whole, config) for name in ("dtype", "torch_dtype"))
    return next((name for name in found if name), "").removeprefix("torch.")


def _head_dim(config: Fields, heads: int) -> int:
    if config.first(("kv_lora_rank",)):
        return config.needed(("qk_nope_head_dim",)) + config.needed(("qk_rope_head_dim",))
    given = config.first(_HEAD_DIM)
    if given:
        return given
    hidden = config.needed(_HIDDEN)
    if hidden % heads:
        raise ShapeError(
            f"{config.path}hidden_size {hidden} is no multiple of {heads} heads, and head_dim is not given: one of "
            "them is wrong, or head_dim is missing"
        )
    return hidden // heads


def _full_layer(config: Fields, model_type: str, heads: int, notes: list[str]) -> Layer:
    """Return what a layer of full attention keeps."""
    rank = config.first(("kv_lora_rank",))
    if not rank:
        return Layer(Keeps.ALL, _kv_heads(config, heads, notes), _head_dim(config, heads))
    rope = config.needed(("qk_rope_head_dim",))
    if model_type in MLA_MODELS:
        config.first(_KV_HEADS)  # of no use to it; what cannot be is refused all the same
        index = config.first(("index_head_dim",), least=0)
        if index:
            notes.append("sparse attention keeps an index beside it: 1 byte an element, 4 bytes every 128")
        return Layer(Keeps.LATENT, 1, rank + rope, extra_bytes=index + index // 128 * 4)
    notes.append(f"kv_lora_rank is there, but vLLM keeps whole heads for model_type {model_type!r}")
    return Layer(Keeps.ALL, _kv_heads(config, heads, notes), _head_dim(config, heads))


def _kv_heads(config: Fields, heads: int, notes: list[str]) -> int:
    """Return the heads of keys and values: fewer than those of attention under GQA, one under MQA."""
    inner = config.inner("attn_config")
    if inner is not None and inner.has("kv_n_heads"):
        config, name, found = inner, "kv_n_heads", inner.needed(("kv_n_heads",))
    elif config.flag("multi_query") and not config.flag("new_decoder_architecture"):
        return 1
    else:
        name = next((one for one in _KV_HEADS if config.has(one)), "")
        found = config.first(_KV_HEADS) if name else heads
        if not name and "num_attention_heads" in config.values:
            notes.append("num_key_value_heads is not in the config: as many as attention heads are assumed (MHA)")
    if found > heads or heads % found:
        raise ShapeError(
            f"{config.path}{name} {found} does not divide num_attention_heads {heads}: one of them is wrong"
        )
    return found


def _window(config: Fields) -> int:
    """Return the tokens that a sliding layer keeps, or 0."""
    names = ("sliding_window", "attention_chunk_size", "sliding_window_size")
    found = [config.number(name, least=0) for name in names]
    return next((window for window in found if window), 0)


def _kinds(config: Fields, model_type: str, count: int, notes: list[str]) -> list[Keeps]:
    """Return what each layer keeps."""
    for name in ("layer_types", "layers_block_type", "hybrid_override_pattern"):
        if config.has(name):
            return _listed(config, name, count, notes)
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


def _sliding(config: Fields, model_type: str, count: int) -> list[Keeps]:
    """Return the kinds of a model that has windows at most."""
    used = config.flag("use_sliding_window")
    if not _window(config) or used is False:
        return [Keeps.ALL] * count
    pattern = config.first(("sliding_window_pattern", "_sliding_window_pattern")) or PERIODS.get(model_type, 0)
    if pattern:
        return [Keeps.WINDOW if (index + 1) % pattern else Keeps.ALL for index in range(count)]
    if used:
        first = config.first(("max_window_layers",), least=0)
        return [Keeps.WINDOW if index >= first else Keeps.ALL for index in range(count)]
    return [Keeps.WINDOW] * count


def _layer(config: Fields, kind: Keeps, full: Layer, window: int) -> Layer:
    if kind is Keeps.NOTHING:
        return Layer(kind)
    if kind is Keeps.WINDOW and not window:
        raise ShapeError(f"layers are named sliding, and {config.path}sliding_window is not given: add it")
    return Layer(kind, full.heads, full.head_dim, window) if kind is Keeps.WINDOW else full
