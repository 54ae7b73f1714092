"""The bounds of a histogram's sum: what the buckets allow, and no false alarm on real pages."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obs_audit.checks import impossible_sum
from obs_audit.checks.base import Example
from obs_audit.verdict import Report

DATA = Path(__file__).parents[2] / "data"
EDGES = (0.1, 0.5, 1.0, 5.0)
STACKS = {"vllm": "vllm", "ray": "ray-serve", "triton": "triton"}


def page(values: list[float], factor: float = 1.0) -> str:
    name, label = "vllm:time_to_first_token_seconds", 'engine="0",model_name="m"'
    rows = [f'{name}_bucket{{{label},le="{edge}"}} {sum(value <= edge for value in values)}' for edge in EDGES]
    rows += [f'{name}_bucket{{{label},le="+Inf"}} {len(values)}', f"{name}_sum{{{label}}} {sum(values) * factor}"]
    return "\n".join([f"# TYPE {name} histogram", *rows, f"{name}_count{{{label}}} {len(values)}", ""])


def found(text: str) -> bool:
    return any(impossible_sum.CHECK.find(Example(text).case()))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=1, max_size=20))
def test_true_sums_pass(values: list[float]) -> None:
    assert not found(page(values))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.11, 4.9), min_size=3, max_size=20))
def test_sums_in_milliseconds_are_found(values: list[float]) -> None:
    assert found(page(values, 1000.0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.51, 1.0), min_size=3, max_size=20))
def test_sums_a_thousand_times_too_small_are_found(values: list[float]) -> None:
    assert found(page(values, 0.001))


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*/*.txt*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_real_page_is_accused(path: Path, verdict: Callable[..., Report]) -> None:
    stack = STACKS.get(path.parent.parent.name)
    if stack is not None:
        body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        report = verdict(stack, body)
        assert not [finding for finding in report.findings if finding.check == "impossible_sum"]
