"""The tables as a whole: no stack may stay silent about a signal, at any version; and they agree with their sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_exporter.exposition import parse
from obs_exporter.options import STACK_NAMES
from obs_exporter.schema import BY_ID, SIGNALS, State
from obs_exporter.stacks import STACKS, Claims, Known, read_page, read_paper
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.catalogue import Engine, catalogue

EVERY_RELEASE = [(name, release) for name, stack in STACKS.items() for release in stack.releases]


@pytest.mark.parametrize(("name", "release"), EVERY_RELEASE)
def test_every_stack_answers_for_every_signal_at_every_release(name: str, release: str) -> None:
    reading = read_paper(STACKS[name], Claims(Known((release,), "given")))
    assert [answer.signal for answer in reading.answers] == list(SIGNALS)
    for answer in reading.answers:
        assert answer.state is not State.UNREACHABLE
        if not answer.state.publishes:
            assert answer.reason
        else:
            assert answer.native_name
        if answer.state is State.HIDDEN:
            assert answer.remedy
    assert reading.engine_version.candidates or (name, release) in NO_ENGINE


NO_ENGINE = {("kserve", release) for release in ("0.11.0", "0.11.1", "0.11.2")}
"""KServe had no runtime for LLMs before 0.12."""


def test_the_command_line_knows_the_stacks_without_loading_them() -> None:
    assert tuple(STACKS) == STACK_NAMES


def test_rows_name_signals_of_the_schema_and_families_of_the_catalogue() -> None:
    for row in vllm.ROWS:
        assert BY_ID[row.signal].kind is row.kind or row.product
        assert catalogue().types[row.family] == str(row.kind)
    for stack in STACKS.values():
        for row in stack.rows:
            assert row.signal in BY_ID
            assert row.kind is BY_ID[row.signal].kind or row.count


@pytest.mark.parametrize(
    ("family", "generation", "first", "last"),
    [
        ("kv_cache_usage_perc", "V1", "0.9.2", "0.33.0"),
        ("gpu_cache_usage_perc", "V1", "0.7.1", "0.11.2"),
        ("gpu_cache_usage_perc", "V0", "0.2.7", "0.10.2"),
        ("num_preemptions_total", "V1", "0.8.0", "0.33.0"),
        ("num_preemptions_total", "V0", "0.4.3", "0.10.2"),
        ("request_queue_time_seconds", "V0", "0.6.4", "0.10.2"),
        ("request_queue_time_seconds", "V1", "0.7.3", "0.33.0"),
        ("time_per_output_token_seconds", "V1", "0.7.1", "0.14.1"),
        ("inter_token_latency_seconds", "V1", "0.10.2", "0.33.0"),
        ("request_time_per_output_token_seconds", "V1", "0.11.0", "0.33.0"),
        ("prefix_cache_queries_total", "V1", "0.9.2", "0.33.0"),
        ("num_requests_waiting_by_reason", "V1", "0.20.0", "0.33.0"),
    ],
)
def test_lifetimes_are_those_read_in_the_releases(family: str, generation: str, first: str, last: str) -> None:
    having = catalogue().having(family, generation)
    assert (having[0], having[-1]) == (first, last)


def test_what_0_11_and_0_12_hide() -> None:
    def status(family: str, release: str) -> str:
        entry = catalogue().registration(family, Engine(release, "V1"))
        return entry.status if entry else ""

    assert status("gpu_cache_usage_perc", "0.10.2") == "registered"
    assert status("gpu_cache_usage_perc", "0.11.0") == "hidden"
    assert status("gpu_cache_usage_perc", "0.12.0") == ""
    assert status("time_per_output_token_seconds", "0.14.1") == "hidden"
    assert vllm.hidden_switch("0.12.0") == "--show-hidden-metrics-for-version=0.11"


def test_every_engine_page_fits_its_own_release(engine_page: str, page: Callable[[str], bytes]) -> None:
    folder, name = engine_page.split("/")[1:]
    stack = STACKS["vllm"]
    reading = read_page(stack, parse(page(engine_page), stack.wanted()), Claims())
    assert folder.split("-")[0] in reading.engine_version.candidates
    assert reading.generation in ({"v0": "V0", "v1": "V1"}.get(name.split("-")[0], "V1"), "")


def test_no_signal_is_zero_because_it_was_not_there() -> None:
    for name, stack in STACKS.items():
        marker = {"triton": "nv_inference_count", "ray-serve": "ray_node_mem"}.get(name, "vllm:lora_requests_info")
        body = f'# TYPE {marker} gauge\n{marker}{{Version="2.60.0",SessionName="s"}} 1\n'.encode()
        reading = read_page(stack, parse(body, stack.wanted()), Claims())
        assert reading.reachable
        assert [answer.signal.id for answer in reading.answers if answer.series] == []
