"""The command as a person runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from obs_audit.cli import main

CONFIG = {
    "model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    "hidden_size": 1536, "torch_dtype": "bfloat16",
}  # fmt: skip
LOG = (
    "INFO 11-29 10:00:00 [gpu_worker.py:276] Available KV cache memory: 6.60 GiB\n"
    "INFO 11-29 10:00:00 [kv_cache_utils.py:716] GPU KV cache size: 247,024 tokens\n"
    "INFO 11-29 10:00:00 [kv_cache_utils.py:720] Maximum concurrency for 4,096 tokens per request: 60.31x\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.write_text(LOG)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["kv", *map(str, arguments)])


def test_it_says_the_bytes_and_what_the_other_formula_would_have_said(config: Path) -> None:
    result = run("--config", config)
    assert result.exit_code == 0
    assert "28,672 B a token (28.0 KiB)" in result.output
    assert "168.0 KiB: 6 times too much" in result.output


def test_it_checks_itself_against_the_engines_lines(config: Path, log: Path) -> None:
    result = run("--config", config, "--engine-log", log)
    assert result.exit_code == 0
    assert result.output.count("agrees: ") == 3
    assert "60.31x" in result.output


def test_a_wrong_data_type_is_found_out(config: Path, log: Path) -> None:
    result = run("--config", config, "--engine-log", log, "--dtype", "fp8")
    assert result.exit_code == 1
    assert "DIFFERS: 247,024 tokens take 3.30 GiB; the engine had 6.60 GiB" in result.output


def test_json_has_every_number(config: Path, log: Path) -> None:
    document = json.loads(run("--config", config, "--engine-log", log, "--format", "json").output)
    assert document["bytes_per_token"] == 28_672
    assert document["attention_heads_factor"] == 6
    assert document["capacity"]["tokens"] == 247_024
    assert [one["agrees"] for one in document["checks"]] == [True] * 3


def test_bytes_in_place_of_blocks(config: Path) -> None:
    result = run("--config", config, "--kv-bytes", 15_326 * 16 * 28_672, "--max-model-len", 4096)
    assert "15,326 blocks of 16 tokens: 245,216 tokens" in result.output
    assert "59.87x" in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "no JSON"), ("{}", "num_hidden_layers is missing"), ("\xff", "no JSON")],
)
def test_a_bad_config_is_an_input_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content.encode("latin-1"))
    result = run("--config", path)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_missing_file_and_a_log_without_lines(config: Path, tmp_path: Path) -> None:
    assert run("--config", tmp_path / "none.json").exit_code == 2
    assert run("--config", config, "--engine-log", tmp_path / "none.log").exit_code == 2
    (tmp_path / "empty.log").write_text("hello\n")
    result = run("--config", config, "--engine-log", tmp_path / "empty.log")
    assert result.exit_code == 2
    assert "no start-up line" in result.output


def test_blocks_and_bytes_together_are_refused(config: Path) -> None:
    assert run("--config", config, "--num-blocks", 1, "--kv-bytes", 1).exit_code == 2


def test_heads_that_cannot_be_split_are_refused(config: Path) -> None:
    result = run("--config", config, "--tensor-parallel-size", 3)
    assert result.exit_code == 2
    assert "cannot be split over 3" in result.output


BLOCKS_LINE = "INFO [core.py:9] vllm cache_config_info with initialization after num_gpu_blocks is: {}\n"
ARGUMENTS = "INFO [api.py:2] non-default args: {{'model': 'm', 'block_size': {}}}\n"


def test_another_number_of_blocks_than_the_logs_differs(config: Path, log: Path) -> None:
    right = run("--config", config, "--engine-log", log, "--num-blocks", 15_439)
    wrong = run("--config", config, "--engine-log", log, "--num-blocks", 15_326)
    assert (right.exit_code, wrong.exit_code) == (0, 1)
    assert "DIFFERS: 15,326 blocks were given; the engine's log says 15,439" in wrong.output


@pytest.mark.parametrize(
    ("lines", "flags", "code", "said"),
    [
        (BLOCKS_LINE.format(15_439), (), 0, "agrees: the engine's log is of blocks of 16 tokens"),
        (BLOCKS_LINE.format(15_438), (), 1, "DIFFERS: 15,438 blocks of 16 tokens hold 247,008 tokens"),
        (BLOCKS_LINE.format(15_439), ("--block-size", 32), 1, "32 were given (--block-size)"),
        (ARGUMENTS.format(32), (), 1, "7,719.50 blocks of 32 tokens"),
        (ARGUMENTS.format(16), ("--block-size", 8), 1, "DIFFERS: the engine's log is of blocks of 16 tokens; 8 were"),
        (ARGUMENTS.format(16), (), 0, "agrees: 247,024 tokens are 15,439 blocks of 16"),
    ],
)
def test_block_size_and_blocks_are_held_against_the_log(
    lines: str, flags: tuple[object, ...], code: int, said: str, config: Path, log: Path
) -> None:
    log.write_text(lines + LOG)
    result = run("--config", config, "--engine-log", log, *flags)
    assert said in result.output
    assert result.exit_code == code


def test_bytes_for_less_than_one_block_are_an_input_error(config: Path) -> None:
    result = run("--config", config, "--kv-bytes", "1e3")
    assert result.exit_code == 2
    assert "--kv-bytes 1,000 is less than one block: 16 tokens of 28,672 B are 458,752 B" in result.output
    assert run("--config", config, "--kv-bytes", 458_752).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "bert", "architectures": ["BertModel"]}, "model_type 'bert'"),
        ({"model_type": "bert"}, "an encoder keeps no KV cache"),
        ({"model_type": "x", "architectures": ["XForMaskedLM"]}, "'XForMaskedLM' is no causal language model"),
        ({"model_type": "x", "architectures": ["XModel"], "is_decoder": False}, "is_decoder is false"),
        ({"model_type": "bert", "architectures": ["BertLMHeadModel"], "is_decoder": True}, ""),
        ({"architectures": ["Qwen2ForCausalLM"], "is_decoder": False}, ""),
        ({"architectures": ["Qwen2Model"]}, ""),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True, "is_decoder": False}, ""),
    ],
)
def test_a_model_without_a_kv_cache_is_refused(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | changes))
    result = run("--config", path)
    assert result.exit_code == (2 if said else 0)
    assert said in result.output


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "this is no JSON"),
        (b"[" * 100_000, "this is no JSON"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "this is no JSON"),
        (b"\xff\xfe\x00", "this is no JSON"),
        (b"NaN", "one JSON object"),
        (json.dumps(CONFIG | {"num_key_value_heads": 0}).encode(), "num_key_value_heads is 0"),
        (json.dumps(CONFIG | {"torch_dtype": "complex64"}).encode(), "torch_dtype is 'complex64'; known are bfloat16"),
    ],
)
def test_rubbish_is_an_error_in_one_line(body: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(body)
    result = run("--config", path)
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert f"{path}: " in line
    assert message in line


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(CONFIG).encode())
    assert "28,672 B a token" in run("--config", path).output


def test_what_has_no_end_is_no_config() -> None:
    result = run("--config", "/dev/zero")
    assert result.exit_code == 2
    assert "this is no model's config.json" in result.output


@pytest.mark.parametrize(
    "flags", [("--num-blocks", "1" + "0" * 400), ("--kv-bytes", "1e300"), ("--max-model-len", "1" + "0" * 50)]
)
def test_numbers_beyond_any_machine_are_usage_errors(flags: tuple[str, str], config: Path) -> None:
    assert run("--config", config, *flags).exit_code == 2


LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "heads", "size"),
    [
        (1, "8 key/value heads x", 4096), (4, "8 key/value heads x", 1024), (8, "8 key/value heads x", 512),
        (16, "1 key/value head (of 8, each copied to 2 of 16 GPUs) x", 512),
        (32, "1 key/value head (of 8, each copied to 4 of 32 GPUs) x", 512),
    ],
)  # fmt: skip
def test_the_printed_equation_adds_up(tmp_path: Path, gpus: int, heads: str, size: int) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    result = run("--config", path, "--tensor-parallel-size", gpus)
    assert heads in result.stdout
    equation = result.stdout.splitlines()[0].partition(": ")[2]
    left, _, right = equation.partition(" = ")
    factors = re.sub(r"\([^)]*\)|key/value heads?|GPUs| B", "", left).replace("x", "*")
    product, _, divisor = factors.partition("/")
    found = 1.0
    for factor in product.split("*"):
        found *= float(factor)
    assert found / float(divisor or 1) == size
    assert right.startswith(f"{size:,} B a token and layer")


def test_chunked_layers_are_said(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    chunks = {"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 8}
    path.write_text(json.dumps(LLAMA | chunks))
    result = run("--config", path, "--num-blocks", 100)
    assert "24 layers of chunked attention: " in result.stdout
    assert "of the last 8,192 tokens at most" in result.stdout
    assert "since chunked layers give blocks back" in result.stdout
    document = json.loads(run("--config", path, "--format", "json").stdout)
    assert [(layer["count"], layer["keeps"], layer["window"]) for layer in document["layers"]] == [
        (24, "chunk", 8192), (8, "all", None),
    ]  # fmt: skip
