"""Bytes, requests and capacities; the figures of the start-up lines are those that engines printed."""

from __future__ import annotations

import pytest

from obs_audit.kv.arithmetic import Cost, blocks_in, capacity, cost
from obs_audit.kv.checks import GIB, check
from obs_audit.kv.kinds import Keeps
from obs_audit.kv.shape import Layer, Shape
from obs_exporter.stacks.log_lines import BLOCKS, CONTEXT, MEMORY

QWEN = Shape("qwen2", (Layer(Keeps.ALL, 2, 128),) * 28, 12, 128, "bfloat16", 32768)


def test_an_8_bit_cache_is_half_of_a_16_bit_one() -> None:
    assert cost(QWEN, "fp8").per_token * 2 == cost(QWEN, "bfloat16").per_token


@pytest.mark.parametrize(("gpus", "bytes_a_token"), [(1, 28_672), (2, 14_336), (4, 14_336), (8, 14_336)])
def test_heads_are_shared_and_then_copied(gpus: int, bytes_a_token: int) -> None:
    """Two heads over four GPUs: each keeps one, twice over."""
    assert cost(QWEN, "bfloat16", gpus).per_token == bytes_a_token


def test_a_sliding_layer_stops_growing() -> None:
    shape = Shape("x", (Layer(Keeps.ALL, 1, 64), Layer(Keeps.WINDOW, 1, 64, 128)), 1, 64, "bfloat16", 0)
    found = cost(shape, "bfloat16")
    per_layer = 2 * 64 * 2
    assert found.request(128, 16) == 2 * 128 * per_layer
    assert found.request(10_000, 16) == (10_000 + 128 + 16) * per_layer


def test_a_request_takes_whole_blocks() -> None:
    assert Cost(100.0, (), 0.0).request(17, 16) == 3200


def test_capacity_in_tokens_and_full_requests() -> None:
    found = capacity(cost(QWEN, "bfloat16"), 16, 15_439, 4096)
    assert (found.tokens, f"{found.max_concurrency:.2f}") == (247_024, "60.31")
    assert capacity(cost(QWEN, "bfloat16"), 16, 15_326).tokens == 245_216


def test_blocks_that_fit_into_bytes() -> None:
    found = cost(QWEN, "bfloat16")
    assert blocks_in(found, 16, 28_672 * 16 * 10) == 10
    assert blocks_in(found, 16, 28_672 * 16 * 10 - 1) == 9


START = {"kv_cache_capacity": 247_024.0, CONTEXT: 4096.0, "kv_cache_max_concurrency": 60.31}


def agreement(start: dict[str, float], block_size: int = 16) -> dict[str, bool]:
    return {one.name: one.agrees for one in check(start, cost(QWEN, "bfloat16"), block_size)}


def test_the_start_up_lines_agree() -> None:
    memory = 247_024 * 28_672
    assert agreement(START | {MEMORY: round(memory / GIB, 2) * GIB}) == {
        "whole blocks": True, "concurrency": True, "memory": True,
    }  # fmt: skip


def test_blocks_of_the_v0_engine_agree() -> None:
    start = {BLOCKS: 15_326.0, CONTEXT: 4096.0, "kv_cache_max_concurrency": 59.87}
    assert agreement(start) == {"block size": True, "blocks": True, "concurrency": True}


def test_another_data_type_shows_in_the_memory() -> None:
    assert agreement(START | {MEMORY: 247_024 * 14_336.0})["memory"] is False


def test_another_block_size_shows_in_the_tokens() -> None:
    assert agreement(START, 32)["whole blocks"] is False


def test_another_concurrency_shows() -> None:
    assert agreement(START | {"kv_cache_max_concurrency": 61.0})["concurrency"] is False
