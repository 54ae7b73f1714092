"""Derived values against the truth of a simulated engine, stack by stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from obs_exporter.derive import Context, Evidence, Memory, Outcome, Settings, apply
from obs_exporter.derive.from_logs import LogView, read
from obs_exporter.derive.model import SUM_UPPER
from obs_exporter.look import parse_body
from obs_exporter.schema import Histogram, Precision, Scalar, State
from obs_exporter.simulator import (
    LAYERS,
    USUAL_LAYERS,
    Abandon,
    Bursts,
    Closed,
    Config,
    Engine,
    Idle,
    Lengths,
    Outage,
    PageUnavailableError,
    Restart,
    Run,
    Steady,
    simulate,
)
from obs_exporter.stacks import STACKS, Claims, Known, read_nothing, read_page

OWN_WAIT = tuple(
    f"{prefix}request_{what}" for prefix in ("vllm:", "ray_vllm_") for what in ("queue_time", "prefill_time")
)
ROOMY = Engine(max_num_seqs=16, num_blocks=4001)
TIGHT = Engine(max_num_seqs=16, num_blocks=200, max_model_len=1024)
LONG = {"prompt_tokens": Lengths(64.0, 0.3), "output_tokens": Lengths(256.0, 0.5)}
"""With these, requests outgrow the tight engine's cache and are preempted."""
SLOTS = Settings(max_num_seqs=16)
OLD = Claims(engine_version=Known(("0.7.2",), "given"))
"""Of a version whose V1 engine has no queue time, which is what the pages are made to look like."""


@cache
def played(phase: Any, engine: Engine = ROOMY, layer: str = "direct", starved: float = 0.0, **more: Any) -> Run:
    before = replace(LAYERS[layer], starved_s=starved)
    return simulate(Config(engine=engine, layer=before, phases=(phase, Idle(30.0)), **more), 5)


@dataclass
class Watch:
    """Scrapes one face of a run again and again."""

    run: Run
    face: str
    drop: Callable[..., bytes]
    settings: Settings = SLOTS

    def __post_init__(self) -> None:
        self.stack = STACKS["ray-serve" if self.face.startswith("ray") else self.face.split("-")[0]]
        self.claims = OLD if self.stack.is_engine and self.face != "vllm-v0" else Claims()
        self.memory = Memory()
        self.answered: list[float] = []

    def look(self, t: float, evidence: Evidence | None = None) -> Outcome:
        at = self.run.scrape_time(t)
        self.answered.append(at)
        try:
            body = self.drop(self.run.page(self.face, at), *OWN_WAIT)
        except PageUnavailableError as error:
            reading, page = read_nothing(self.stack, self.claims, str(error)), parse_body(self.stack.name, b"")
        else:
            page = parse_body(self.stack.name, body)
            reading = read_page(self.stack, page, self.claims)
        context = Context(self.stack, page, self.memory, evidence or Evidence(), self.settings, at, at - t)
        return apply(reading, context)

    def looks(self, times: Iterable[float]) -> list[Outcome]:
        return [self.look(t) for t in times]


def every(step: float, end: float) -> list[float]:
    return [step * index for index in range(int(end / step) + 1)]


def wait_of(outcome: Outcome) -> Histogram:
    (series,) = outcome.reading.answer("queue_wait").series
    assert isinstance(series, Histogram)
    return series


def true_wait(run: Run, since: float = 0.0) -> tuple[float, int]:
    """The sum of the waits of all requests that got their first token after ``since`` seconds, and their number."""
    began = [one for one in run.truth().requests if one.token_times and one.token_times[0] > since * 1e9]
    return sum(one.queue_wait or 0.0 for one in began), len(began)


@pytest.mark.parametrize("face", ["vllm", "vllm-v0", "kserve"])
@pytest.mark.parametrize("phase", [Closed(100.0, 40), Steady(100.0, 7.5)], ids=["closed", "open"])
def test_steady_load_sampled_every_second_is_right_within_5_percent(face: str, phase: Any, drop: Any) -> None:
    run = played(phase)
    outcome = Watch(run, face, drop).looks(every(1.0, 130.0))[-1]
    answer = outcome.reading.answer("queue_wait")
    assert (answer.state, answer.precision) == (State.DERIVED, Precision.SAMPLED)
    total, count = true_wait(run)
    found = wait_of(outcome)
    assert found.sum / found.count == pytest.approx(total / count, rel=0.05)


def bounds(outcome: Outcome) -> dict[str, float]:
    return {extra.kind: extra.value for extra in outcome.extras if extra.signal == "queue_wait"}


def test_bursts_between_scrapes_stay_inside_the_bounds(drop: Any) -> None:
    """Sixty at once every 20 s, seen every 15 s: the samples miss most of it, and the bounds say so."""
    run = played(Bursts(200.0, 60, 20.0))
    watch = Watch(run, "vllm", drop)
    first, *_, last = watch.looks(every(15.0, 225.0))
    assert not first.reading.answer("queue_wait").state.publishes
    found = wait_of(last)
    truth, count = true_wait(run)
    mean = truth / count
    assert mean <= bounds(last)[SUM_UPPER] / found.count
    assert found.sum <= bounds(last)[SUM_UPPER]


@pytest.mark.parametrize("settings", [SLOTS, Settings()], ids=["slots given", "slots not given"])
@pytest.mark.parametrize("starved", [1.0, 3.0])
def test_a_starved_servers_samples_lie_low_and_are_corrected(starved: float, settings: Settings, drop: Any) -> None:
    """A front end that gets the CPU when the engine is idle, and else every few seconds, answers scrapes then, too."""
    run = played(Closed(100.0, 40), starved=starved)
    watch = Watch(run, "vllm", drop, settings)
    outcomes = watch.looks(every(1.0, 125.0))
    last, state = outcomes[-1], watch.memory.queue
    found = wait_of(last)
    # The integral begins with the look before the first one that publishes it.
    first = next(index for index, one in enumerate(outcomes) if one.reading.answer("queue_wait").series)
    truth, count = true_wait(run, since=watch.answered[first - 1])
    assert found.count == count
    mean = truth / count
    assert state.plain / state.count < 0.9 * mean, "the case is biased at all"
    assert found.sum / found.count == pytest.approx(mean, rel=0.05)
    assert mean <= bounds(last)[SUM_UPPER] / found.count


def test_a_starved_server_under_bursts_keeps_its_bounds(drop: Any) -> None:
    run = played(Bursts(120.0, 60, 20.0), starved=3.0)
    watch = Watch(run, "vllm", drop)
    last = watch.looks(every(1.0, 145.0))[-1]
    found, state = wait_of(last), watch.memory.queue
    truth, count = true_wait(run)
    mean = truth / count
    assert state.plain / state.count < mean, "the case is biased at all"
    assert abs(found.sum / found.count - mean) < abs(state.plain / state.count - mean)
    assert mean <= bounds(last)[SUM_UPPER] / found.count


def test_five_minutes_without_a_page_make_no_false_numbers(drop: Any) -> None:
    run = played(Closed(420.0, 40), outages=(Outage(60.0, 360.0),))
    watch = Watch(run, "vllm", drop)
    before = watch.looks(every(2.0, 58.0))[-1]
    down = watch.looks([60.0, 200.0, 358.0])
    assert {outcome.reading.answer("queue_wait").state for outcome in down} == {State.UNREACHABLE}
    first, *_, last = watch.looks([360.0 + 2 * index for index in range(30)])
    assert wait_of(first).count == wait_of(before).count
    total, count = true_wait(run)
    found = wait_of(last)
    assert found.count < 0.4 * count
    assert found.sum / found.count == pytest.approx(total / count, rel=0.08)


def test_a_restart_of_the_engine_never_lowers_what_is_published(drop: Any) -> None:
    run = played(Closed(110.0, 40), restarts=(Restart(70.0, 5.0),))
    published = [
        outcome for outcome in Watch(run, "vllm", drop).looks(every(1.0, 110.0))
        if outcome.reading.answer("queue_wait").series
    ]  # fmt: skip
    sums = [wait_of(outcome).sum for outcome in published]
    counts = [wait_of(outcome).count for outcome in published]
    assert sums == sorted(sums)
    assert counts == sorted(counts)
    total, count = true_wait(run)
    assert sums[-1] / counts[-1] == pytest.approx(total / count, rel=0.1)


def value(outcome: Outcome, signal: str) -> float:
    (series,) = outcome.reading.answer(signal).series
    assert isinstance(series, Scalar)
    return series.value


def at(series: Iterable[tuple[int, int]], t: float) -> int:
    return [found for moment, found in series if moment <= t * 1e9][-1]


@pytest.mark.parametrize("phase", [Closed(40.0, 40), Bursts(40.0, 50, 20.0)], ids=["closed", "bursts"])
def test_triton_requests_inside_and_a_lower_bound_of_those_that_wait(phase: Any, drop: Any) -> None:
    run = played(phase, layer=USUAL_LAYERS["triton"])
    watch, truth = Watch(run, "triton", drop), run.truth()
    open_at = [(one.admitted, one.ended) for one in truth.requests if one.admitted is not None]
    for t in every(1.0, 60.0):
        outcome = watch.look(t)
        inside = sum(1 for admitted, ended in open_at if admitted <= t * 1e9 < (ended or 1e18))
        assert value(outcome, "layer_requests_ongoing") == inside
        answer = outcome.reading.answer("requests_waiting")
        assert answer.precision is Precision.LOWER_BOUND
        # What the core has not taken into its queue yet is inside, too, and waits as well.
        handed_over = inside - at(truth.running, t) - at(truth.waiting, t)
        assert value(outcome, "requests_waiting") <= at(truth.waiting, t) + handed_over
    found = wait_of(outcome)
    waits = [one.queue_wait_v0 or 0.0 for one in truth.finished]
    assert outcome.reading.answer("queue_wait").precision is Precision.LOWER_BOUND
    assert 0 < found.sum / found.count <= sum(waits) / len(waits)


def test_triton_drops_clients_that_left_as_soon_as_the_engine_rests(drop: Any) -> None:
    run = played(Closed(40.0, 40), layer=USUAL_LAYERS["triton"], abandon=Abandon(0.3, 1.0))
    watch = Watch(run, "triton", drop)
    outcomes = watch.looks(every(1.0, 70.0))
    assert max(value(outcome, "layer_requests_ongoing") for outcome in outcomes) > 16
    assert value(outcomes[-1], "layer_requests_ongoing") == 0
    assert value(outcomes[-1], "requests_waiting") == 0


def logged(run: Run, face: str, until: float) -> LogView:
    view = LogView()
    for line in run.log_lines(face, until):
        for text in line.text.split("\n"):
            view = read(view, line.file, text, line.t)
    return view


@pytest.mark.parametrize("face", ["ray-serve-2.44", "vllm-v0", "vllm"])
def test_the_logs_kv_usage_is_the_engines(face: str) -> None:
    """Three requests of 20 s each: seldom does one end in the very step that a line is about."""
    lengths = {"prompt_tokens": Lengths(64.0), "output_tokens": Lengths(800.0)}
    run = played(Closed(60.0, 3), engine=TIGHT, layer=USUAL_LAYERS[face], **lengths)
    seen = 0
    for t in (15.0, 31.0, 47.0):
        view = logged(run, face, t)
        for engine in view.engines.values():
            if engine.gauges:
                usage, time = engine.gauges["kv_cache_usage"]
                # The line tells what the last step left: any moment of the step before it may be meant.
                blocks, usable = run.truth().used_blocks, run.truth().usable_blocks
                lately = {at(blocks, time - 0.3)} | {used for t0, used in blocks if time - 0.3 <= t0 / 1e9 <= time}
                assert min(abs(usage - used / usable) for used in lately) <= 0.0006
                assert 0 <= t - time <= 10
                seen += 1
    assert seen == 3


@pytest.mark.parametrize("face", ["ray-serve-2.44", "vllm-v0"])
def test_the_logs_preemptions_are_a_lower_bound(face: str) -> None:
    run = played(Closed(90.0, 24), engine=TIGHT, **LONG, layer=USUAL_LAYERS[face])
    assert run.truth().preemptions > 100
    for t in every(10.0, 90.0):
        truth = run.truth(t).preemptions
        found = logged(run, face, t).preemptions
        assert truth - 50 <= found <= truth or found == truth == 0


def test_waiting_again_after_a_preemption_is_named(drop: Any) -> None:
    run = played(Closed(90.0, 24), engine=TIGHT, **LONG)
    outcome = Watch(run, "vllm", drop).looks(every(1.0, 120.0))[-1]
    total, _ = true_wait(run)
    assert run.truth().preemptions > 100
    assert total <= bounds(outcome)[SUM_UPPER]
    assert "preemptions meanwhile: waiting again is in it" in outcome.reading.answer("queue_wait").reason


def test_rays_request_lines_are_exact() -> None:
    run = played(Closed(60.0, 40), layer=USUAL_LAYERS["ray-serve-2.44"])
    total, count = logged(run, "ray-serve-2.44", 90.0).waits
    waits = [one.queue_wait_v0 or 0.0 for one in run.truth().finished]
    assert count == len(waits)
    assert total == pytest.approx(sum(waits), rel=1e-6)


def test_rays_layer_queue_is_the_layers_wait(drop: Any) -> None:
    """128 clients before a layer that lets 64 in."""
    run = played(Closed(60.0, 128), layer=USUAL_LAYERS["ray-serve-2.44"])
    outcome = Watch(run, "ray-serve-2.44", drop).looks(every(10.0, 120.0))[-1]
    answer = outcome.reading.answer("layer_queue_wait")
    (series,) = answer.series
    assert isinstance(series, Histogram)
    assert (answer.state, answer.precision) == (State.DERIVED, Precision.EXACT)
    waits = [one.layer_wait or 0.0 for one in run.truth().finished]
    assert series.count == len(waits)
    assert series.sum / series.count == pytest.approx(sum(waits) / len(waits), rel=0.02, abs=0.01)
