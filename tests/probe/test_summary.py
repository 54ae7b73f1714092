"""A level's numbers from records whose truth is made by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.lag import EDGES_S, LagHistogram
from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.quantiles import LogBins, describe, quantile
from obs_exporter.probe.summary import Accumulator, LevelKey

USAGE = "usage"


def record(
    index: int, start: float, length: float, outcome: Outcome = Outcome.OK, good: bool = True, tokens: int = 10
) -> Record:
    return Record("short", 4, None, 0, index, str(index), outcome, good, start, ttft_s=length / 10, last_s=length,
                  e2e_s=length, tokens=tokens, token_source=USAGE, events=tokens)  # fmt: skip


def summary(records: Sequence[Record], slots: int = 4) -> dict[str, object]:
    accumulator = Accumulator(LevelKey("short", slots, 0.0, 0))
    for one in records:
        accumulator.add(one)
    return accumulator.summary()


def test_failures_are_in_the_denominator_and_in_no_histogram() -> None:
    records = [record(0, 0, 1), record(1, 0, 1, good=False), record(2, 0, 9, Outcome.TIMEOUT, False),
               record(3, 0, 5, Outcome.TRUNCATED, False), record(4, 0, 5, Outcome.CANCELLED, False)]  # fmt: skip
    found = summary(records)
    assert (found["requests"], found["good"], found["cancelled"]) == (4, 1, 1)
    assert found["goodput"] == 0.25
    assert found["errors"] == {"timeout": 1, "truncated": 1}
    assert found["output_tokens"] == 20
    e2e = found["e2e_s"]
    assert isinstance(e2e, dict)
    assert (e2e["n"], e2e["p99"]) == (2, 1.0)


def test_ends_of_a_closed_loop() -> None:
    # 100 requests on 64 slots of one second each: a full wave, then 36.
    records = [record(i, 0.0, 1.0) for i in range(64)] + [record(64 + i, 1.0, 1.0) for i in range(36)]
    found = summary(records, slots=64)
    shape = found["shape"]
    assert isinstance(shape, dict)
    assert shape["waves"] == pytest.approx(1.562, abs=1e-3)
    assert shape["ceiling"] == pytest.approx(0.7812, abs=1e-4)
    assert found["output_tokens_per_s"] == pytest.approx(500.0)
    steady = shape["steady"]
    # In the first second all 64 slots are busy: each has its ten tokens from 0.1 s to 1 s.
    assert steady["duration_s"] == pytest.approx(1.0)
    assert steady["output_tokens_per_s"] == pytest.approx(640.0, rel=0.02)


def test_nothing_is_no_zero() -> None:
    found = summary([])
    assert found["goodput"] is None
    assert found["output_tokens_per_s"] is None
    assert found["ttft_s"] == {"n": 0, "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "curve": []}


def test_the_order_of_records_does_not_matter() -> None:
    rng = random.Random(1)
    records = [record(i, i * 0.3, rng.uniform(0.5, 2)) for i in range(50)]
    mixed = records[:]
    rng.shuffle(mixed)
    one, other = summary(records), summary(mixed)
    for key in ("requests", "goodput", "ttft_s", "e2e_s", "duration_s", "output_tokens_per_s"):
        assert one[key] == other[key]


@given(st.lists(st.floats(1e-6, 100), min_size=1, max_size=200))
def test_log_bins_are_close(values: list[float]) -> None:
    bins = LogBins()
    bins.add(values)
    ordered = sorted(values)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        exact = ordered[max(0, math.ceil(share * len(values)) - 1)]
        assert bins.describe()[name] == pytest.approx(exact, rel=0.0026, abs=1e-9)


@given(st.lists(st.floats(0, 1e3), min_size=1))
def test_quantiles_stay_inside_and_rise(values: list[float]) -> None:
    found = describe(values)
    assert min(values) - 1e-8 <= found["p50"] <= found["p90"] <= found["p95"] <= found["p99"] <= max(values) + 1e-8
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


@given(st.lists(st.integers(0, 3_000_000_000)))
def test_lag_histogram(lags: list[int]) -> None:
    whole, first, second = LagHistogram(), LagHistogram(), LagHistogram()
    for i, lag in enumerate(lags):
        whole.add(lag)
        (first if i % 2 else second).add(lag)
    first.merge(second)
    assert first.to_json() == whole.to_json()
    assert LagHistogram.from_json(whole.to_json()).counts == whole.counts
    bound = whole.bound(1.0)
    if lags:
        assert bound is not None
        assert bound * 1e9 >= max(lags)
        assert bound in (*EDGES_S, math.inf)
    else:
        assert bound is None
