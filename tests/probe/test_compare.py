"""Verdicts on constructed runs, and on a published study's numbers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from obs_exporter.probe.cli import main
from obs_exporter.probe.compare import Comparison, Finding, Verdict, compare
from obs_exporter.probe.diagnose import Where, diagnose
from obs_exporter.probe.importer import import_csv
from obs_exporter.probe.report import render_document
from obs_exporter.probe.report.comparison import comparison_document, comparison_json

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


def test_one_model_under_two_names() -> None:
    bare, stack = targeting("model", "Qwen/Qwen2.5-1.5B-Instruct"), targeting("model", "vllm_model")
    (refused,) = compare([bare], [stack]).refused
    assert "--weights" in refused.text
    stack["target"]["weights"] = "Qwen/Qwen2.5-1.5B-Instruct"
    assert not compare([bare], [stack]).refused
    bare["target"]["weights"] = "Qwen/Qwen2.5-7B-Instruct"
    assert compare([bare], [stack]).refused


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
    if "client_limited" in change:
        assert found.baseline == pytest.approx(100.0)
        assert (found.stack, found.effect) == (None, None)


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


def test_a_level_that_cannot_be_compared_is_in_no_trend() -> None:
    """Three levels of a flat ratio, and a fourth at which the client, not the stack, is slow."""
    base, stack = ({slots: [speed * slots] for slots in (1, 2, 4, 8)} for speed in (100.0, 90.0))
    stack[2] = [90.1 * 2]
    behind = result(stack | {8: [90.0]})
    (trend,) = compare([result(base)], [behind]).trends
    assert trend.per_doubling < -0.2
    behind["levels"][-1] |= {"client_limited": True, "client": {"limited": "busy"}}
    (trend,) = compare([result(base)], [behind]).trends
    assert trend.per_doubling == pytest.approx(0.0, abs=1e-3)
    assert "no trend" in trend.words


def test_nothing_is_shown_as_minus_nothing() -> None:
    found = compare([result({8: [100.0, 100.001]})], [result({8: [100.0, 100.0]})])
    text = render_document(comparison_document(found, "a", "b", {}), "text")
    assert "+0.0%" in text
    assert "-0.0" not in text


def open_loop(waits: list[float], scheduled: bool = True, rate: float = 4.0, **target: Any) -> dict[str, Any]:
    """Return a result at one rate: TTFT is 0.1 s from the send in every run, and 0.1 s plus these waits when due."""
    found = result({8: [40.0 + i / 100 for i in range(len(waits))]}, **target)
    for level, wait in zip(found["levels"], waits, strict=True):
        level |= {"concurrency": None, "rate": rate, "ttft_s": {"p50": 0.1, "p95": 0.1}, "e2e_s": {"p95": 1.0}}
        due = {
            "ttft_from_schedule_s": {"p50": 0.1 + wait, "p95": 0.1 + wait},
            "e2e_from_schedule_s": {"p95": 1.0 + wait},
        }
        level["schedule"] = due if scheduled else None
    return found


def at_rate(comparison: Comparison, metric: str, rate: float = 4.0) -> Finding:
    (found,) = [one for one in comparison.findings if one.metric.id == metric and one.load[2] == rate]
    return found


@pytest.mark.parametrize("metric", ["ttft_p50", "ttft_p95", "e2e_p95"])
def test_open_loops_count_from_the_schedule(metric: str) -> None:
    found = compare([open_loop([0.0, 0.001, 0.002])], [open_loop([3.0, 3.1, 3.2])])
    one = at_rate(found, metric)
    whole = 1.0 if metric == "e2e_p95" else 0.1
    assert one.effect == pytest.approx((whole + 3.1) / (whole + 0.001) - 1, rel=1e-3)
    assert (one.verdict, one.counted_from) == (Verdict.SLOWER, "schedule")
    assert any("scheduled time" in remark for remark in found.remarks)
    for output_format in ("text", "markdown", "html"):
        page = render_document(comparison_document(found, "a", "b", {}), output_format)
        assert "TTFT p95, from the schedule" in page
        assert "output tokens/s, from the schedule" not in page
    told = {row["metric"]: row["counted_from"] for row in comparison_json(found)["findings"]}
    assert (told[metric], told["throughput"]) == ("schedule", None)


def test_closed_loops_count_from_the_send() -> None:
    sides = [result({8: [100.0, 101.0]}), result({8: [100.0, 102.0]})]
    for side in sides:
        for level in side["levels"]:
            level["ttft_s"] = {"p50": 0.1 + level["repeat"] / 100}
    found = compare([sides[0]], [sides[1]])
    assert only(found, "ttft_p50").counted_from == "send"
    assert not any("schedule" in remark for remark in found.remarks)


def test_times_from_the_send_are_not_held_against_times_from_the_schedule() -> None:
    found = compare([open_loop([0.0, 0.1], scheduled=False)], [open_loop([3.0, 3.1])])
    one = at_rate(found, "ttft_p95")
    assert (one.verdict, one.effect) == (Verdict.NOT_COMPARABLE, None)
    assert one.reason == "the baseline has no value from the schedule"
    plain = open_loop([0.0, 0.1], scheduled=False)
    neither = compare([plain], [plain])
    assert at_rate(neither, "ttft_p95").effect == 0
    assert any("is not known" in remark for remark in neither.remarks)


def test_closed_and_open_loops_are_not_mixed(tmp_path: Path) -> None:
    closed, opened = result({8: [100.0, 101.0]}), open_loop([0.0, 0.1])
    for sides in (([closed], [opened]), ([closed, opened], [closed, closed])):
        found = compare(*sides)
        assert [one.what for one in found.refused] == ["kind of load"]
        assert {one.verdict for one in found.findings} <= {Verdict.NOT_COMPARABLE}
    files = [tmp_path / "closed.json", tmp_path / "open.json"]
    for file, one in zip(files, (closed, opened), strict=True):
        file.write_text(json.dumps(one))
    a, b = map(str, files)
    for arguments in (["compare", a, b], ["diagnose", "--bare", a, a, "--stack", b, b]):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2
        assert "closed loop" in done.output
    done = CliRunner().invoke(main, ["diagnose", "--bare", a, b, "--stack", a, b])
    assert (done.exit_code, "closed and open loops are mixed" in done.output) == (2, True)


@pytest.mark.parametrize("side", ["baseline", "stack"])
@pytest.mark.parametrize(
    ("key", "version"), [("engine_version", True), ("engine_generation", True), ("model", False), ("gpu", False)]
)
def test_every_result_of_a_side_is_checked(side: str, key: str, version: bool) -> None:
    """One of several results differs, also where the first of the side does not say."""
    runs = [targeting(key, value) for value in ("a", "a", "b")]
    runs[0]["target"][key] = None
    sides = {"baseline": [targeting(key, "a")] * 3, "stack": [targeting(key, "a")] * 3} | {side: runs}
    found = compare(sides["baseline"], sides["stack"])
    (one,) = found.refused
    assert (one.baseline, one.stack) == (("a/b", "a") if side == "baseline" else ("a", "a/b"))
    assert bool(compare(sides["baseline"], sides["stack"], allow_version_mismatch=True).refused) is not version


@pytest.mark.parametrize(
    ("key", "a", "b"),
    [("max_tokens", 128, None), ("ignore_eos", True, False), ("api", "chat", "completions"), ("temperature", 0.0, 1.0),
     ("unique_prefix", True, False), ("stream", True, False), ("http2", False, True),
     ("fresh_connections", False, True), ("proxied", False, True), ("continuous_usage", False, True),
     ("min_tokens", None, 64)],
)  # fmt: skip
def test_the_same_must_have_been_asked(key: str, a: object, b: object) -> None:
    sides = [result({8: [1.0]}) | {"load": {key: value}} for value in (a, b)]
    found = compare([sides[0]], [sides[1]], allow_version_mismatch=True)
    assert [one.what for one in found.refused] == [f"load: {key}"]
    assert not compare([sides[0]], [sides[0]]).refused


def test_runs_pair_in_the_order_of_time_whatever_their_files_are_called() -> None:
    rng = random.Random(6)
    baseline, stack = [], []
    for i, drift in enumerate((1.0, 1.3, 0.8, 1.1, 0.9)):
        baseline.append(result({8: [100 * drift * rng.gauss(1, 0.002)]}, started=10.0 * i))
        stack.append(result({8: [90 * drift * rng.gauss(1, 0.002)]}, started=10.0 * i + (4 if i % 2 else -4)))
    rng.shuffle(baseline)
    rng.shuffle(stack)
    found = compare(baseline, stack)
    assert "paired" in found.design
    assert only(found).verdict is Verdict.SLOWER


def test_a_run_that_lacks_a_number_breaks_the_pairs() -> None:
    runs = {side: [result({8: [100.0 + i]}, started=10.0 * i + later) for i in range(4)]
            for side, later in (("baseline", 0.0), ("stack", 5.0))}  # fmt: skip
    runs["baseline"][0]["levels"][0]["output_tokens_per_s"] = None
    runs["stack"][3]["levels"][0]["output_tokens_per_s"] = None
    found = only(compare(runs["baseline"], runs["stack"]))
    assert found.reason.startswith("Welch t")


@pytest.mark.parametrize("count", range(2, 9))
def test_copies_are_no_runs_whatever_rounding_makes_of_them(count: int) -> None:
    found = only(compare([result({8: [104.6] * count})], [result({8: [97.61] * count})]))
    assert found.verdict is Verdict.NO_VARIATION


def test_the_margin_is_as_wide_upwards_as_it_is_said() -> None:
    """+5.13 % is outside of +-5 %, though its logarithm is nearer to 0 than that of -5 %."""
    base = [100.0 * factor for factor in (0.9999, 1.0, 1.0001)]
    found = only(compare([result({8: base})], [result({8: [one * 1.0513 for one in base]})]))
    assert found.verdict is Verdict.FASTER
    assert "smaller than the margin" not in found.reason


def test_a_run_counts_once_and_a_shard_not_at_all(tmp_path: Path) -> None:
    path, other, shard = tmp_path / "x.json", tmp_path / "y.json", tmp_path / "s.json"
    path.write_text(json.dumps(result({8: [100.0]}) | {"run_id": "r"}))
    other.write_text(json.dumps(result({8: [90.0]}) | {"run_id": "s"}))
    shard.write_text(json.dumps(result({8: [100.0]}) | {"run_id": "q", "shard": "0/2"}))
    assert CliRunner().invoke(main, ["compare", str(path), str(other)]).exit_code == 0
    twice = CliRunner().invoke(main, ["compare", f"{path},{path}", str(other)])
    assert (twice.exit_code, "counts once" in twice.output) == (2, True)
    part = CliRunner().invoke(main, ["compare", str(path), str(shard)])
    assert (part.exit_code, "obs-probe merge" in part.output) == (2, True)


@pytest.mark.parametrize("key", ["engine_version", "engine_generation", "model", "gpu"])
def test_diagnose_holds_only_like_against_like(tmp_path: Path, key: str) -> None:
    files = []
    for name, speed, value in (("b1", 100.0, "a"), ("b2", 200.0, "b"), ("s1", 60.0, "a"), ("s2", 62.0, "c")):
        files.append(tmp_path / f"{name}.json")
        found = result({8: [speed]})
        found["target"][key] = value
        files[-1].write_text(json.dumps(found))
    done = CliRunner().invoke(main, ["diagnose", "--bare", *map(str, files[:2]), "--stack", *map(str, files[2:])])
    assert done.exit_code == 2
    assert "knob high" in done.output
    assert "bare b, stack c" in done.output
    assert "knob low" not in done.output


def test_diagnose_takes_no_cap_of_the_probe_for_the_layers() -> None:
    stack = result({8: [60.0]}), result({8: [62.0]})
    stack[1]["levels"][0] |= {"client_limited": True, "client": {"limited": "busy"}}
    (found,) = diagnose((result({8: [100.0]}), result({8: [200.0]})), stack)
    assert found.where is Where.UNDECIDED
    assert "limited by the client: busy" in found.why
