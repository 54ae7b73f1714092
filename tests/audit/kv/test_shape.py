"""What config.json files of the families of models say; the numbers are those of their publishers' configs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from obs_audit.kv.arithmetic import cost, resolve_dtype
from obs_audit.kv.fields import ShapeError
from obs_audit.kv.kinds import Keeps
from obs_audit.kv.shape import read_shape

QWEN: dict[str, Any] = {
    "model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    "hidden_size": 1536, "torch_dtype": "bfloat16", "sliding_window": 32768, "use_sliding_window": False,
    "max_window_layers": 28,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA3: dict[str, Any] = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
        "head_dim": 128, "hidden_size": 5376, "sliding_window": 1024, "sliding_window_pattern": 6,
    },
    "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss", "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "hidden_size": 2880, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12, "torch_dtype": "bfloat16",
}  # fmt: skip


MINIMAX: dict[str, Any] = {
    "model_type": "minimax_m1", "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 128, "hidden_size": 6144, "attn_type_list": ([0] * 7 + [1]) * 10, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA4: dict[str, Any] = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text", "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "hidden_size": 5120, "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 12,
    },
    "torch_dtype": "bfloat16",
}  # fmt: skip


def kinds(config: dict[str, Any]) -> dict[Keeps, int]:
    layers = read_shape(config).layers
    return {kind: count for kind in Keeps if (count := sum(1 for layer in layers if layer.keeps is kind))}


def test_qwen_takes_28_kib_a_token_and_not_168() -> None:
    found = cost(read_shape(QWEN), "bfloat16")
    assert found.per_token == 28_672
    assert found.by_heads == 168 * 1024
    assert found.exaggeration == 6


@pytest.mark.parametrize("name", ["attn_type_list", "decoder_attention_types"])
def test_minimax_has_full_attention_in_each_eighth_layer(name: str) -> None:
    config = {key: value for key, value in MINIMAX.items() if key != "attn_type_list"} | {name: ([0] * 7 + [1]) * 10}
    assert kinds(config) == {Keeps.ALL: 10, Keeps.NOTHING: 70}
    shape = read_shape(config)
    assert cost(shape, "bfloat16").per_token == 40 * 1024
    assert "70 of 80 layers keep a state of fixed size" in shape.notes[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"no_rope_layers": []}, {"no_rope_layers": None, "no_rope_layer_interval": 4},
     {"no_rope_layers": None, "layer_types": (["chunked_attention"] * 3 + ["full_attention"]) * 12}],
)  # fmt: skip
def test_llama_4s_chunked_layers_keep_their_last_chunk_and_nope_layers_all(changes: dict[str, Any]) -> None:
    """12 layers x 131,072 tokens x 4 KiB are 6 GiB, 36 x 8,192 x 4 KiB are 1.125 GiB."""
    config = LLAMA4 | {"text_config": LLAMA4["text_config"] | changes}
    assert kinds(config) == {Keeps.ALL: 12, Keeps.CHUNK: 36}
    found = cost(read_shape(config), "bfloat16")
    assert found.request(131_072, 16) == 7.125 * 1024**3
    assert found.request(100, 16) == 112 * 48 * 4096
    assert found.per_token == 48 * 4096
    assert not found.uniform
    assert "last chunk" in " ".join(read_shape(config).notes)


def test_layers_without_rotary_positions_and_without_chunks_keep_all() -> None:
    """SmolLM3 has the same list, and no chunks."""
    assert kinds(QWEN | {"no_rope_layers": [1, 1, 1, 0] * 7}) == {Keeps.ALL: 28}


def test_a_window_that_is_not_used_is_none() -> None:
    assert kinds(QWEN) == {Keeps.ALL: 28}


def test_deepseek_keeps_one_latent_vector_a_layer() -> None:
    """(512 + 64) x 2 B x 61 layers; 128 heads of 192 elements, twice, would be 85 times as much."""
    found = cost(read_shape(DEEPSEEK), "bfloat16")
    assert found.per_token == 576 * 2 * 61 == 70_272
    assert found.exaggeration == pytest.approx(2 * 128 * 192 / 576)
    assert cost(read_shape(DEEPSEEK), "bfloat16", 8).per_token == found.per_token, "every GPU keeps it whole"


def test_sparse_attention_adds_its_index() -> None:
    config = DEEPSEEK | {"model_type": "deepseek_v32", "index_head_dim": 128}
    assert cost(read_shape(config), "bfloat16").per_token == (576 * 2 + 132) * 61


def test_a_latent_model_that_vllm_does_not_keep_latent() -> None:
    config = DEEPSEEK | {"model_type": "minicpm3", "num_attention_heads": 40, "num_key_value_heads": 40}
    shape = read_shape(config)
    assert {(layer.keeps, layer.heads, layer.head_dim) for layer in shape.layers} == {(Keeps.ALL, 40, 192)}
    assert "minicpm3" in shape.notes[0]


def test_gemma_slides_in_five_layers_of_six() -> None:
    assert kinds(GEMMA3) == {Keeps.ALL: 10, Keeps.WINDOW: 52}


def test_gpt_oss_slides_in_every_other_layer() -> None:
    assert kinds(GPT_OSS) == {Keeps.ALL: 12, Keeps.WINDOW: 12}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, {Keeps.ALL: 1, Keeps.NOTHING: 3}),
        ({"full_attention_interval": 4}, {Keeps.ALL: 1, Keeps.NOTHING: 3}),
        ({"attn_layer_period": 4, "attn_layer_offset": 2}, {Keeps.ALL: 1, Keeps.NOTHING: 3}),
        ({"hybrid_override_pattern": "M-M*"}, {Keeps.ALL: 1, Keeps.NOTHING: 3}),
        ({"linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3]}}, {Keeps.ALL: 1, Keeps.NOTHING: 3}),
        ({"sliding_window": 4096}, {Keeps.WINDOW: 4}),
        ({"sliding_window": None}, {Keeps.ALL: 4}),
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, {Keeps.ALL: 3, Keeps.WINDOW: 1}),
        ({"model_type": "gemma2", "sliding_window": 4096}, {Keeps.ALL: 2, Keeps.WINDOW: 2}),
        ({"num_kv_shared_layers": 1}, {Keeps.ALL: 3}),
    ],
)
def test_which_layers_keep_what(config: dict[str, Any], expected: dict[Keeps, int]) -> None:
    base = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}
    assert kinds(base | config) == expected


@pytest.mark.parametrize(
    ("config", "heads", "head_dim"),
    [
        ({"n_layer": 2, "n_head": 16, "n_embd": 1024}, 16, 64),
        ({"n_layers": 2, "n_heads": 16, "d_model": 1024, "attn_config": {"kv_n_heads": 4}}, 4, 64),
        ({"num_hidden_layers": 2, "num_attention_heads": 71, "hidden_size": 4544, "multi_query": True}, 1, 64),
        ({"num_hidden_layers": 2, "num_attention_heads": 32, "hidden_size": 4096, "multi_query_group_num": 2}, 2, 128),
        ({"num_hidden_layers": 2, "num_attention_heads": 16, "hidden_size": 3072, "head_dim": 256}, 16, 256),
    ],
)
def test_older_names_of_the_fields(config: dict[str, Any], heads: int, head_dim: int) -> None:
    layer = read_shape(config).layers[0]
    assert (layer.heads, layer.head_dim) == (heads, head_dim)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "one JSON object"),
        ([QWEN], "one JSON object"),
        (None, "one JSON object"),
        ({}, "num_hidden_layers is missing"),
        (QWEN | {"num_key_value_heads": 0}, "num_key_value_heads is 0; a whole number from 1"),
        (QWEN | {"num_key_value_heads": -2}, "num_key_value_heads is -2"),
        (QWEN | {"num_key_value_heads": "2"}, "num_key_value_heads is '2'"),
        (QWEN | {"num_key_value_heads": 2.0}, "num_key_value_heads is 2.0"),
        (QWEN | {"num_key_value_heads": float("nan")}, "num_key_value_heads is nan"),
        (QWEN | {"num_key_value_heads": [2] * 28}, r"num_key_value_heads is \[2, 2"),
        (QWEN | {"num_key_value_heads": 24}, "does not divide"),
        (QWEN | {"num_key_value_heads_per_layer": [2] * 28}, "differ from layer to layer"),
        (QWEN | {"attn_config": {"kv_n_heads": 0}}, "attn_config.kv_n_heads is 0"),
        (QWEN | {"attn_config": [1]}, "attn_config is .*an object"),
        (QWEN | {"text_config": [1]}, r"text_config is \[1\]; an object"),
        (QWEN | {"text_config": {"num_hidden_layers": 4}}, "text_config.num_attention_heads is missing"),
        (QWEN | {"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        (QWEN | {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        (QWEN | {"num_attention_heads": 10**30}, "num_attention_heads is"),
        (QWEN | {"head_dim": 0}, "head_dim is 0"),
        (QWEN | {"use_sliding_window": "false"}, "use_sliding_window is 'false'; true or false"),
        (QWEN | {"is_encoder_decoder": "no"}, "is_encoder_decoder is 'no'"),
        (QWEN | {"torch_dtype": 5}, "torch_dtype is 5; a text"),
        (QWEN | {"layer_types": []}, "0 entries for 28"),
        (QWEN | {"layer_types": 7}, "layer_types is 7"),
        (QWEN | {"layer_types": [["x"]] * 28}, "a list of texts"),
        (QWEN | {"layer_types": ["linear_attention"] * 28}, "no layer has attention"),
        (QWEN | {"full_attention_interval": 29}, "no layer has attention"),
        (QWEN | {"linear_attn_config": {"full_attn_layers": [[1]]}}, "full_attn_layers is"),
        (QWEN | {"linear_attn_config": {"full_attn_layers": [29]}}, "full_attn_layers is"),
        (QWEN | {"attn_layer_period": 8, "attn_layer_offset": 9}, "attn_layer_offset is 9; a whole number from 0 to 7"),
        (QWEN | {"num_kv_shared_layers": 28}, "num_kv_shared_layers is 28"),
        (QWEN | {"model_type": "mamba2"}, "no attention"),
        (QWEN | {"global_head_dim": 512}, "other heads"),
        (DEEPSEEK | {"qk_rope_head_dim": None}, "qk_rope_head_dim is missing"),
        (DEEPSEEK | {"kv_lora_rank": 0}, "kv_lora_rank is 0"),
        (DEEPSEEK | {"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"num_hidden_layers": 2}, "num_attention_heads is missing"),
        (QWEN | {"num_key_value_heads": 5}, "does not divide"),
        (QWEN | {"num_hidden_layers": "28"}, "whole number"),
        (QWEN | {"num_hidden_layers": True}, "whole number"),
        (QWEN | {"hidden_size": 1537}, "no multiple"),
        (QWEN | {"layer_types": ["full_attention"]}, "1 entries for 28"),
        (QWEN | {"layer_types": ["new_attention"] * 28}, "new_attention"),
        (QWEN | {"layer_types": ["sliding_attention"] * 28, "sliding_window": None}, "sliding_window is not given"),
        (QWEN | {"compress_ratios": [1]}, "not understood"),
        (MINIMAX | {"attn_type_list": [1] * 79}, "0 and 1 for 80 layers"),
        (MINIMAX | {"attn_type_list": [True] * 80}, "0 and 1 for 80 layers"),
        (MINIMAX | {"attn_type_list": [2] * 80}, "0 and 1 for 80 layers"),
        (MINIMAX | {"attn_type_list": "01" * 40}, "0 and 1 for 80 layers"),
        (MINIMAX | {"attn_type_list": [[1]] * 80}, "0 and 1 for 80 layers"),
        (MINIMAX | {"attn_type_list": [0] * 80}, "no layer has attention"),
        (QWEN | {"layer_types": ["chunked_attention"] * 28}, "attention_chunk_size is not given"),
    ],
)
def test_a_config_that_cannot_be_is_refused(config: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        read_shape(config)


_NAMES = [
    *QWEN, *DEEPSEEK, *GPT_OSS, "attn_type_list", "no_rope_layers", "attention_chunk_size",
    "attn_config", "linear_attn_config", "text_config", "full_attn_layers", "kv_n_heads",
    "architectures", "quantization_config", "num_kv_shared_layers", "full_attention_interval", "attn_layer_period",
    "attn_layer_offset", "multi_query", "use_sliding_window", "hybrid_override_pattern",
]  # fmt: skip
_FIELDS = st.sampled_from(_NAMES)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70) | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([QWEN, DEEPSEEK, GPT_OSS, MINIMAX]), st.dictionaries(_FIELDS, _JSON, max_size=4))
def test_whatever_the_file_holds_it_is_a_cost_or_our_error_in_one_line(
    base: dict[str, Any], changes: dict[str, Any]
) -> None:
    message, found = "", 0.0
    try:
        shape = read_shape(base | changes)
        found = cost(shape, resolve_dtype("auto", shape)).per_token
    except ShapeError as error:
        message = str(error)
    assert bool(message) != (found > 0)
    assert "\n" not in message
    assert len(message) < 400


def test_what_is_assumed_is_said() -> None:
    multi_head = {name: value for name, value in QWEN.items() if name not in ("num_key_value_heads", "torch_dtype")}
    notes = "; ".join(read_shape(multi_head).notes)
    assert "as many as attention heads are assumed" in notes
    assert "no data type: 16 bits are assumed" in notes
    assert not read_shape(QWEN).notes


def test_a_hybrid_is_called_an_estimate() -> None:
    """Qwen3-Next: 12 of 48 layers have attention; the others keep a state that no token makes larger."""
    config = {
        "model_type": "qwen3_next", "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
        "head_dim": 256, "hidden_size": 2048, "full_attention_interval": 4, "torch_dtype": "bfloat16",
    }  # fmt: skip
    shape = read_shape(config)
    assert cost(shape, "bfloat16").per_token == 12 * 2 * 2 * 256 * 2 == 24_576
    assert "an estimate: 36 of 48 layers" in shape.notes[0]


def test_the_language_models_own_part_counts() -> None:
    """Multimodal configs may repeat some of its fields on top, and have those of the eyes beside it."""
    config = {"dtype": "float16", "num_hidden_layers": 3, "vision_config": {"num_hidden_layers": 99}}
    inner = {name: value for name, value in QWEN.items() if name != "torch_dtype"}
    for nested in ({"text_config": inner}, {"thinker_config": {"text_config": inner}}):
        shape = read_shape(config | nested)
        assert (len(shape.layers), shape.dtype) == (28, "float16")


def test_an_fp8_cache_of_the_checkpoint_is_said() -> None:
    (note,) = read_shape(QWEN | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}).notes
    assert "--dtype fp8" in note


@pytest.mark.parametrize("name", ["complex64", "float8_e4m3fn", "bf16 "])
def test_an_unknown_data_type_is_refused_unless_one_is_given(name: str) -> None:
    shape = read_shape(QWEN | {"torch_dtype": name})
    with pytest.raises(ShapeError, match=r"known are bfloat16, .*--dtype"):
        resolve_dtype("auto", shape)
    assert resolve_dtype("fp8", shape) == "fp8"


def test_a_float32_model_has_a_16_bit_cache() -> None:
    assert resolve_dtype("auto", read_shape(QWEN | {"torch_dtype": "float32"})) == "bfloat16"
    assert resolve_dtype("fp8", read_shape(QWEN)) == "fp8"
