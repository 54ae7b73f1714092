"""Models that keep no KV cache at all: encoders, and those without attention. Pure."""

from __future__ import annotations

import reprlib

from obs_audit.kv.fields import Fields

STATES = frozenset({"mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm"})
"""Model types without any attention: a request keeps a state of fixed size, and no token a KV cache."""

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


def keeps_nothing(whole: Fields, model_type: str) -> str:
    """Say why a model keeps no KV cache, or ""."""
    if model_type in STATES:
        return f"model_type {model_type!r} has no attention: there is no KV cache to reckon"
    return _encoder(whole, model_type)


def _encoder(whole: Fields, model_type: str) -> str:
    """Say what shows that the model is an encoder alone, or ""."""
    names, decodes = whole.texts("architectures"), whole.flag("is_decoder")
    if decodes or whole.flag("is_encoder_decoder") or any(word in one for one in names for word in _GENERATING):
        return ""
    shows = ""
    if model_type in ENCODERS:
        shows = f"model_type {model_type!r}"
    elif names and (decodes is False or all(name.endswith(_ENCODING) for name in names)):
        why = "is_decoder is false, and " if decodes is False else ""
        shows = f"{why}the architecture {reprlib.repr(names[0])} is no causal language model"
    return f"{shows}: an encoder keeps no KV cache, since it generates nothing" if shows else ""
