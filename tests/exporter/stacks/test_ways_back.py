"""What the tables say of signals that a page lacks and the exporter can know all the same."""

from __future__ import annotations

import pytest

from obs_exporter.schema import Precision, State
from obs_exporter.stacks import STACKS, Claims, Known, read_paper
from obs_exporter.stacks.model import Answer


def paper(stack: str, version: str, signal: str) -> Answer:
    return read_paper(STACKS[stack], Claims(Known((version,), "given"))).answer(signal)


@pytest.mark.parametrize(
    ("stack", "version", "signal", "precision"),
    [
        ("vllm", "0.6.3", "queue_wait", Precision.SAMPLED),
        ("kserve", "0.13.1", "queue_wait", Precision.SAMPLED),
        ("ray-serve", "2.44.1", "layer_queue_wait", Precision.EXACT),
        ("ray-serve", "2.51.1", "layer_queue_wait", Precision.EXACT),
    ],
)
def test_what_needs_nothing_is_derived(stack: str, version: str, signal: str, precision: Precision) -> None:
    answer = paper(stack, version, signal)
    assert (answer.state, answer.precision) == (State.DERIVED, precision)


@pytest.mark.parametrize(
    ("stack", "version", "signal", "state", "needs"),
    [
        ("ray-serve", "2.44.1", "kv_cache_usage", State.LOST, "--engine-log"),
        ("ray-serve", "2.44.1", "preemptions", State.LOST, "--engine-log"),
        ("ray-serve", "2.60.0", "kv_cache_capacity", State.LOST, "--engine-log"),
        ("triton", "24.12", "kv_cache_usage", State.LOST, "--engine-log"),
        ("triton", "24.12", "kv_cache_capacity", State.LOST, "--block-size"),
        ("triton", "26.01", "requests_waiting", State.LOST, "--max-num-seqs"),
        ("triton", "26.01", "layer_requests_ongoing", State.NEVER, "REPORT_CUSTOM_METRICS"),
    ],
)
def test_what_needs_a_log_or_a_flag_names_it(stack: str, version: str, signal: str, state: State, needs: str) -> None:
    answer = paper(stack, version, signal)
    assert answer.state is state
    assert needs in answer.remedies


@pytest.mark.parametrize(
    ("stack", "version", "signal"),
    [
        ("ray-serve", "2.60.0", "layer_queue_wait"),  # sums are rebuilt from buckets
        ("triton", "26.01", "preemptions"),  # the V1 engine writes no line
        ("triton", "26.01", "kv_cache_usage"),  # nobody asks the V1 engine for its periodic line
        ("triton", "24.07", "requests_waiting"),  # no counter of ends
    ],
)
def test_what_cannot_be_known_has_no_way_back(stack: str, version: str, signal: str) -> None:
    answer = paper(stack, version, signal)
    assert not answer.state.publishes
    assert "give " not in answer.remedies or signal == "requests_waiting"


def test_a_switch_is_better_than_a_log() -> None:
    answer = paper("ray-serve", "2.50.1", "kv_cache_capacity")
    assert answer.state is State.HIDDEN
    assert "--engine-log" not in answer.remedies
