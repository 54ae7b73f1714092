"""What a model's config.json says of its KV cache, layer by layer. Pure: a JSON object in, a shape out.

Names of fields and their defaults are those of the Hugging Face configurations; which layers keep what follows vLLM's
own reading of them (``get_num_kv_heads``, ``is_deepseek_mla``, the layers' KV cache specs; vLLM 0.8 to 0.33).
"""

from __future__ import annotations

from dataclasses import dataclass

from obs_audit.kv.fields import Fields, ShapeError, fields_of, nested
from obs_audit.kv.kinds import Keeps, kinds_of, window_of
from obs_audit.kv.without_cache import keeps_nothing


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's cache.

    ``heads`` and ``head_dim`` are those of keys and values; a latent layer has one "head" of ``head_dim`` elements and
    keeps it once, not twice. ``window`` bounds the tokens that a sliding layer keeps, or is the length of the chunks
    whose last one a chunked layer keeps. ``extra_bytes`` a token are kept whatever the data type (the index of sparse
    attention).
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
    window = window_of(config)
    layers = tuple(_layer(config, kind, full, window) for kind in kinds_of(config, model_type, count, notes))
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
    if any(layer.keeps is Keeps.CHUNK for layer in layers):
        notes.append(
            "chunked layers are reckoned with their last chunk; where the engine's log says that the hybrid KV cache "
            "manager is disabled, they keep every token"
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


def _layer(config: Fields, kind: Keeps, full: Layer, window: int) -> Layer:
    if kind is Keeps.NOTHING:
        return Layer(kind)
    if kind is Keeps.CHUNK:
        chunk = config.number("attention_chunk_size")
        if not chunk:
            raise ShapeError(f"layers are named chunked, and {config.path}attention_chunk_size is not given: add it")
        return Layer(kind, full.heads, full.head_dim, chunk)
    if kind is Keeps.WINDOW and not window:
        raise ShapeError(f"layers are named sliding, and {config.path}sliding_window is not given: add it")
    return Layer(kind, full.heads, full.head_dim, window) if kind is Keeps.WINDOW else full
