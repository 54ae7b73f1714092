"""What a model's config.json says of its KV cache, layer by layer. Pure: a JSON object in, a shape out.

Names of fields and their defaults are those of the Hugging Face configurations; which layers keep what follows vLLM's
own reading of them (``get_num_kv_heads``, ``is_deepseek_mla``, the layers' KV cache specs; vLLM 0.8 to 0.33).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ShapeError(ValueError):
    """A config.json cannot be understood; the message names the field and what was expected."""


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
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")

MLA_MODELS = frozenset(
    {
        "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_mtp", "kimi_k2", "kimi_linear", "longcat_flash",
        "glm_moe_dsa", "glm4_moe_lite", "pangu_ultra_moe", "bailing_hybrid",
    }
)  # fmt: skip
"""Model types of which vLLM keeps the latent vector; others with ``kv_lora_rank`` keep whole heads there."""

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


ENCODERS = frozenset(
    {
        "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "eurobert", "gte", "layoutlm",
        "longformer", "modernbert", "mpnet", "new", "nomic_bert", "roberta", "vit", "xlm-roberta", "xlnet",
    }
)  # fmt: skip
"""Model types whose layers look both ways: nothing is generated token by token, so vLLM keeps nothing of them."""

_ENCODING = ("ForMaskedLM", "ForPreTraining", "ForTokenClassification", "ForQuestionAnswering")
"""Endings of architectures that only encoders have; Model and ForSequenceClassification are decoders' as well."""
_GENERATING = ("CausalLM", "LMHeadModel", "ConditionalGeneration")


def read_shape(document: object) -> Shape:
    """Read a config.json.

    Raises ``ShapeError`` where a needed field is missing or makes no sense, and for a model without a KV cache.
    """
    if not isinstance(document, Mapping):
        raise ShapeError("config.json must hold one JSON object")
    config = _text_config(document)
    encoder = _encoder(document, config)
    if encoder:
        raise ShapeError(f"{encoder}: an encoder keeps no KV cache, since it generates nothing")
    count, heads = _needed(config, _LAYERS), _needed(config, _HEADS)
    model_type = str(config.get("model_type") or document.get("model_type") or "")
    if "compress_ratios" in config:
        raise ShapeError(f"model_type {model_type!r} compresses its cache in a way that is not understood here")
    notes: list[str] = []
    full = _full_layer(config, model_type, heads, notes)
    kinds = _kinds(config, model_type, count)
    window = _window(config)
    layers = tuple(_layer(kind, full, window) for kind in kinds)
    shared = _optional(config, ("num_kv_shared_layers",))
    if shared:
        layers = layers[: count - shared]
        notes.append(f"the last {shared} layers use the cache of earlier ones")
    if document.get("is_encoder_decoder"):
        notes.append("the cross-attention's cache of the encoder's tokens is not counted")
    if any(layer.keeps is Keeps.NOTHING for layer in layers):
        notes.append("layers that keep a state of fixed size per request are not counted")
    dtype = str(config.get("dtype") or config.get("torch_dtype") or document.get("torch_dtype") or "")
    return Shape(
        model_type, layers, heads, _head_dim(config, heads), dtype.removeprefix("torch."),
        _optional(config, _CONTEXT), tuple(notes),
    )  # fmt: skip


def _encoder(document: Mapping[str, object], config: Mapping[str, object]) -> str:
    """Say what shows that the model is an encoder alone, or ""."""
    listed = document.get("architectures")
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    model_type = str(config.get("model_type") or document.get("model_type") or "")
    decodes = document.get("is_decoder")
    if (
        decodes is True
        or document.get("is_encoder_decoder")
        or any(word in one for one in names for word in _GENERATING)
    ):
        return ""
    if model_type in ENCODERS:
        return f"model_type {model_type!r}"
    if names and (decodes is False or all(name.endswith(_ENCODING) for name in names)):
        why = "is_decoder is false, and " if decodes is False else ""
        return f"{why}the architecture {names[0]} is no causal language model"
    return ""


def _text_config(document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part about the language model: multimodal configs keep it one or two levels down."""
    config = document
    for _ in range(2):
        if any(name in config for name in _LAYERS):
            return config
        nested = [config[name] for name in _NESTED if isinstance(config.get(name), Mapping)]
        if nested and isinstance(nested[0], Mapping):
            config = nested[0]
    return config


def _number(config: Mapping[str, object], name: str) -> int | None:
    value = config.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise ShapeError(f"{name} is {value!r}; a whole number was expected")
    return value


def _optional(config: Mapping[str, object], names: tuple[str, ...]) -> int:
    """Return the first of several fields that is there, or 0."""
    return next((value for name in names if (value := _number(config, name))), 0)


def _needed(config: Mapping[str, object], names: tuple[str, ...]) -> int:
    value = _optional(config, names)
    if not value:
        raise ShapeError(f"{names[0]} is missing (or {', '.join(names[1:])}): is this a model's config.json?")
    return value


def _head_dim(config: Mapping[str, object], heads: int) -> int:
    latent = _optional(config, ("kv_lora_rank",))
    whole = _optional(config, ("qk_nope_head_dim",)) + _optional(config, ("qk_rope_head_dim",))
    given = whole if latent and whole else _optional(config, _HEAD_DIM)
    if given:
        return given
    hidden = _needed(config, _HIDDEN)
    if hidden % heads:
        raise ShapeError(f"hidden_size {hidden} is no multiple of {heads} heads, and head_dim is not given")
    return hidden // heads


def _full_layer(config: Mapping[str, object], model_type: str, heads: int, notes: list[str]) -> Layer:
    """Return what a layer of full attention keeps."""
    rank = _optional(config, ("kv_lora_rank",))
    if not rank:
        return Layer(Keeps.ALL, _kv_heads(config, heads), _head_dim(config, heads))
    rope = _optional(config, ("qk_rope_head_dim",))
    if model_type in MLA_MODELS:
        index = _optional(config, ("index_head_dim",))
        if index:
            notes.append("sparse attention keeps an index beside it: 1 byte an element, 4 bytes every 128")
        return Layer(Keeps.LATENT, 1, rank + rope, extra_bytes=index + index // 128 * 4)
    notes.append(f"kv_lora_rank is there, but vLLM keeps whole heads for model_type {model_type!r}")
    return Layer(Keeps.ALL, _kv_heads(config, heads), _head_dim(config, heads))


def _kv_heads(config: Mapping[str, object], heads: int) -> int:
    """Return the heads of keys and values: fewer than those of attention under GQA, one under MQA."""
    nested = config.get("attn_config")
    if isinstance(nested, Mapping) and _number(nested, "kv_n_heads"):
        return _optional(nested, ("kv_n_heads",))
    if config.get("multi_query") is True and not config.get("new_decoder_architecture"):
        return 1
    found = _optional(config, _KV_HEADS) or heads
    if found > heads or heads % found:
        raise ShapeError(f"num_key_value_heads {found} does not divide num_attention_heads {heads}")
    return found


def _window(config: Mapping[str, object]) -> int:
    return _optional(config, ("sliding_window", "attention_chunk_size", "sliding_window_size"))


def _kinds(config: Mapping[str, object], model_type: str, count: int) -> list[Keeps]:
    """Return what each layer keeps."""
    listed = config.get("layer_types") or config.get("layers_block_type") or config.get("hybrid_override_pattern")
    if isinstance(listed, (list, str)):
        unknown = sorted({str(word) for word in listed} - _WORDS.keys())
        if unknown or len(listed) < count:
            raise ShapeError(f"layer_types has {len(listed)} entries for {count} layers; unknown: {unknown}")
        return [_WORDS[str(word)] for word in listed[:count]]
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        full = set(linear["full_attn_layers"])
        return [Keeps.ALL if index + 1 in full else Keeps.NOTHING for index in range(count)]
    interval = _optional(config, ("full_attention_interval",))
    if interval:
        return [Keeps.ALL if (index + 1) % interval == 0 else Keeps.NOTHING for index in range(count)]
    period = _optional(config, ("attn_layer_period",))
    if period:
        offset = _optional(config, ("attn_layer_offset",))
        return [Keeps.ALL if index % period == offset else Keeps.NOTHING for index in range(count)]
    return _sliding(config, model_type, count)


def _sliding(config: Mapping[str, object], model_type: str, count: int) -> list[Keeps]:
    """Return the kinds of a model that has windows at most."""
    if not _window(config) or config.get("use_sliding_window") is False:
        return [Keeps.ALL] * count
    pattern = _optional(config, ("sliding_window_pattern", "_sliding_window_pattern")) or PERIODS.get(model_type, 0)
    if pattern:
        return [Keeps.WINDOW if (index + 1) % pattern else Keeps.ALL for index in range(count)]
    if config.get("use_sliding_window") is True:
        first = _optional(config, ("max_window_layers",))
        return [Keeps.WINDOW if index >= first else Keeps.ALL for index in range(count)]
    return [Keeps.WINDOW] * count


def _layer(kind: Keeps, full: Layer, window: int) -> Layer:
    if kind is Keeps.NOTHING:
        return Layer(kind)
    if kind is Keeps.WINDOW and not window:
        raise ShapeError("layer_types names sliding layers, and sliding_window is not given")
    return Layer(kind, full.heads, full.head_dim, window) if kind is Keeps.WINDOW else full
