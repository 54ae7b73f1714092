"""Verdicts on constructed runs, and on a published study's numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from obs_exporter.probe.compare import Comparison, Finding, Verdict, compare
from obs_exporter.probe.diagnose import Where, diagnose
from obs_exporter.probe.importer import import_csv

DATA = Path(__file__).parents[1] / "data" / "reference-study"
NOISE = {"throughput": {64: 0.10, 32: 0.013}}


def study(stack: str, side: str) -> dict[str, Any]:
    columns = {
        "concurrency": "concurrency",
        "output_tokens_per_s": f"{side}_tokens_per_s",
        "engine_version": "engine_version",
    }
    return import_csv(
        DATA / "throughput.csv", columns, {"stack": stack}, {"name": f"{stack}-{side}", "requests": "100"}, {}
    )


def result(speeds: dict[int, list[float]], name: str = "x", started: float = 0.0, **target: Any) -> dict[str, Any]:
    """Return a result with these throughputs by concurrency, one a repeat."""
    levels: list[dict[str, Any]] = [
        {"scenario": "short", "concurrency": slots, "rate": None, "repeat": repeat, "requests": 100, "errors": {},
         "output_tokens_per_s": speed, "goodput": 1.0, "ttft_s": {}, "tpot_s": {}, "e2e_s": {}, "itl_s": {}}
        for slots, values in speeds.items()
        for repeat, speed in enumerate(values)
    ]  # fmt: skip
    return {"schema_version": 1, "target": {"name": name, "engine_version": "0.7.2", **target}, "levels": levels,
            "slo": {"ttft_s": 0.5, "e2e_s": 10.0, "tpot_s": None}, "partial": False, "started_at": started}  # fmt: skip


def targeting(key: str, value: str) -> dict[str, Any]:
    found = result({8: [1.0]})
    found["target"][key] = value
    return found


def only(comparison: Comparison, metric: str = "throughput", slots: int = 8) -> Finding:
    (found,) = [one for one in comparison.findings if one.metric.id == metric and one.load[1] == slots]
    return found


def test_the_study_ray() -> None:
    found = compare([study("ray-serve", "bare")], [study("ray-serve", "stack")], noise=NOISE)
    at64 = only(found, slots=64)
    assert at64.effect is not None
    assert f"{at64.effect:+.1%}" == "-70.0%"
    assert at64.verdict is Verdict.SLOWER
    assert "one measurement: no interval" in at64.reason
    assert (at64.low, at64.high) == (None, None)
    (trend,) = found.trends
    assert "grows with load" in trend.words
    assert trend.high < 0


@pytest.mark.parametrize(("stack", "effect"), [("triton", "-12.6%"), ("kserve", "-2.2%")])
def test_the_study_triton_and_kserve(stack: str, effect: str) -> None:
    found = compare([study(stack, "bare")], [study(stack, "stack")], noise=NOISE)
    at64 = only(found, slots=64)
    assert at64.effect is not None
    assert f"{at64.effect:+.1%}" == effect
    assert at64.verdict is Verdict.NOISE
    assert "the given noise of 10.0%" in at64.reason
    (trend,) = found.trends
    assert "no trend" in trend.words


def test_one_run_without_noise_has_no_verdict() -> None:
    found = compare([study("ray-serve", "bare")], [study("ray-serve", "stack")])
    assert {one.verdict for one in found.findings} == {Verdict.NO_INTERVAL}


def test_noise_does_not_reach_above_its_level() -> None:
    found = compare(
        [result({8: [100.0], 16: [100.0]})], [result({8: [50.0], 16: [50.0]})], noise={"throughput": {8: 0.1}}
    )
    assert only(found, slots=8).verdict is Verdict.SLOWER
    assert only(found, slots=16).verdict is Verdict.NO_INTERVAL


def repeats(rng: random.Random, middle: float, deviation: float, count: int = 5) -> list[float]:
    return [middle * (1 + rng.gauss(0, deviation)) for _ in range(count)]


def test_four_verdicts_from_repeats() -> None:
    rng = random.Random(1)
    base = {
        8: repeats(rng, 100, 0.01),
        16: repeats(rng, 100, 0.01),
        32: repeats(rng, 100, 0.08),
        64: repeats(rng, 100, 0.01),
    }
    other = {
        8: repeats(rng, 80, 0.01),
        16: repeats(rng, 100, 0.01),
        32: repeats(rng, 98, 0.08),
        64: repeats(rng, 130, 0.01),
    }
    found = compare([result(base)], [result(other)])
    verdicts = {slots: only(found, slots=slots).verdict for slots in base}
    assert verdicts == {8: Verdict.SLOWER, 16: Verdict.EQUIVALENT, 32: Verdict.NOISE, 64: Verdict.FASTER}
    slower = only(found, slots=8)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < -0.2 < slower.high
    assert "too narrow" in found.design
    assert "runs a side" in only(found, slots=32).reason


def test_false_alarms_over_seven_levels_are_rare() -> None:
    rng = random.Random(2)
    levels = (1, 2, 4, 8, 16, 32, 64)
    alarms = 0
    for _ in range(150):
        sides = [result({slots: repeats(rng, 100, 0.05) for slots in levels}) for _ in range(2)]
        found = compare([sides[0]], [sides[1]])
        alarms += any(one.verdict in (Verdict.SLOWER, Verdict.FASTER) for one in found.findings)
    assert alarms / 150 < 0.1  # uncorrected it is about 0.25


def test_server_lives_are_the_unit_and_pair_when_interleaved() -> None:
    rng = random.Random(3)
    drift = [1.0, 1.3, 0.8, 1.1, 0.9]
    baseline, stack = [], []
    for i, level in enumerate(drift):
        first, second = (10.0 * i, 10.0 * i + 5) if i % 2 else (10.0 * i + 5, 10.0 * i)
        baseline.append(result({8: repeats(rng, 100 * level, 0.01)}, started=first))
        stack.append(result({8: repeats(rng, 90 * level, 0.01)}, started=second))
    found = compare(baseline, stack)
    assert "paired" in found.design
    assert only(found).verdict is Verdict.SLOWER
    apart = compare(baseline, [one | {"started_at": one["started_at"] + 1000} for one in stack])
    assert "paired" not in apart.design
    assert only(apart).verdict is Verdict.NOISE


def test_versions_must_match() -> None:
    sides = [result({8: [100.0]}, engine_version="0.23.0")], [result({8: [60.0]}, engine_version="0.7.2")]
    found = compare(*sides, noise=NOISE)
    assert [one.what for one in found.refused] == ["engine version"]
    assert {one.verdict for one in found.findings} == {Verdict.NOT_COMPARABLE}
    allowed = compare(*sides, noise=NOISE, allow_version_mismatch=True)
    assert only(allowed).verdict is Verdict.SLOWER
    assert any("cannot be said" in remark for remark in allowed.remarks)


@pytest.mark.parametrize("key", ["model", "gpu"])
def test_allowing_versions_allows_nothing_else(key: str) -> None:
    found = compare([targeting(key, "a")], [targeting(key, "b")], allow_version_mismatch=True)
    assert len(found.refused) == 1
    unknown = compare([targeting(key, "a")], [result({8: [1.0]})])
    assert not unknown.refused
    assert any("not checked" in remark for remark in unknown.remarks)


def test_settings_must_match() -> None:
    found = compare(
        [result({8: [1.0]}, settings={"max_num_seqs": "16"})], [result({8: [1.0]}, settings={"max_num_seqs": "64"})]
    )
    assert [one.what for one in found.refused] == ["setting max_num_seqs"]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"client_limited": True, "client": {"limited": "busy"}}, "limited by the client"),
     ({"requests": 50}, "requests a run differ"),
     ({"errors": {"timeout": 20}}, "failed requests differ")],
)  # fmt: skip
def test_levels_that_cannot_be_compared(change: dict[str, Any], words: str) -> None:
    stack = result({8: [100.0]})
    stack["levels"][0] |= change
    found = only(compare([result({8: [100.0]})], [stack]))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert words in found.reason


def test_goodput_that_never_varies_gets_exact_bounds() -> None:
    base, stack = result({8: [1.0] * 3}), result({8: [1.0] * 3})
    found = only(compare([base], [stack]), "goodput")
    assert found.verdict is Verdict.EQUIVALENT
    assert "Clopper-Pearson" in found.reason
    for level in stack["levels"]:
        level["goodput"] = 0.19
    assert only(compare([base], [stack]), "goodput").verdict is Verdict.SLOWER


def test_runs_that_do_not_vary_are_not_called_one_measurement() -> None:
    found = only(compare([result({8: [100.0] * 3})], [result({8: [90.0] * 3})]))
    assert found.verdict is Verdict.NO_VARIATION
    assert "one measurement" not in f"{found.verdict} {found.reason}"
    assert (found.low, found.high) == (None, None)


def test_other_limits_spoil_goodput_alone() -> None:
    stack = result({8: [100.0]})
    stack["slo"]["ttft_s"] = 1.0
    found = compare([result({8: [100.0]})], [stack], noise=NOISE)
    assert only(found, "goodput").verdict is Verdict.NOT_COMPARABLE
    assert "SLO ttft_s" in only(found, "goodput").reason
    assert only(found).verdict is Verdict.NOISE
    assert not found.refused


def knob(where: str, setting: str) -> dict[str, Any]:
    columns = {
        "concurrency": "concurrency",
        "output_tokens_per_s": "tokens_per_s",
        "goodput_percent": "goodput_percent",
    }
    return import_csv(DATA / "knobs.csv", columns, {"where": where, "setting": setting}, {}, {})


@pytest.mark.parametrize("noise", [None, NOISE])
def test_diagnose_the_studys_knob(noise: dict[str, dict[int, float]] | None) -> None:
    low, high = "max_num_seqs=16", "max_num_seqs=64"
    bare, stack = (knob("bare", low), knob("bare", high)), (knob("ray-serve", low), knob("ray-serve", high))
    (found,) = diagnose(bare, stack, noise)
    assert found.bare is not None
    assert found.stack is not None
    assert (f"{found.bare.change:+.1%}", f"{found.stack.change:+.1%}") == ("+139.2%", "+3.7%")
    assert found.where is Where.LAYER
    assert "above the engine" in found.why


def at(found: dict[str, Any], slots: int) -> dict[str, Any]:
    return found | {"levels": [level for level in found["levels"] if level["concurrency"] == slots]}


@pytest.mark.parametrize(
    ("stack", "noise", "where"),
    [("ray-serve", NOISE, Where.LAYER), ("triton", None, Where.ENGINE), ("kserve", None, Where.ENGINE),
     ("triton", NOISE, Where.UNDECIDED), ("kserve", NOISE, Where.UNDECIDED)],
)  # fmt: skip
def test_diagnose_the_study_with_concurrency_as_the_knob(
    stack: str, noise: dict[str, dict[int, float]] | None, where: Where
) -> None:
    bare, behind = study(stack, "bare"), study(stack, "stack")
    (found,) = diagnose((at(bare, 32), at(bare, 64)), (at(behind, 32), at(behind, 64)), noise)
    assert found.where is where


def test_diagnose_says_nothing_when_the_knob_does_nothing_bare() -> None:
    flat = result({8: [100.0]}), result({8: [99.0]})
    (found,) = diagnose(flat, (result({8: [50.0]}), result({8: [80.0]})))
    assert found.where is Where.UNDECIDED
    assert "says nothing" in found.why


def test_diagnose_with_repeats_uses_their_spread() -> None:
    rng = random.Random(4)
    sides = [result({8: repeats(rng, middle, 0.01)}) for middle in (100, 200, 60, 118)]
    (found,) = diagnose((sides[0], sides[1]), (sides[2], sides[3]))
    assert found.where is Where.ENGINE
    assert found.stack is not None
    assert found.stack.low is not None
