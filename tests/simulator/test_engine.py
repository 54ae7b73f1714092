"""The engine's laws: nothing is lost, nothing is counted twice, and queueing theory holds to the nanosecond."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obs_exporter.simulator import (
    LAYERS,
    Abandon,
    Bursts,
    Closed,
    Config,
    Engine,
    Idle,
    Layer,
    Lengths,
    Ramp,
    Restart,
    Run,
    Steady,
    simulate,
)
from obs_exporter.simulator.truth import RequestTruth, integral, value_at

phase = st.one_of(
    st.builds(Closed, st.floats(1, 6), st.integers(1, 12), st.floats(0, 0.5)),
    st.builds(Bursts, st.floats(1, 6), st.integers(1, 10), st.floats(0.5, 3)),
    st.builds(Steady, st.floats(2, 8), st.floats(1, 6), st.booleans()),
    st.builds(Ramp, st.floats(2, 8), st.floats(0, 6), st.floats(1, 6)),
    st.builds(Idle, st.floats(0, 5)),
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    block_size = draw(st.sampled_from((1, 4, 16, 128)))
    max_model_len = draw(st.integers(8, 400))
    fewest = -(-max_model_len // block_size) + 1
    engine = Engine(
        max_num_seqs=draw(st.integers(1, 8)),
        num_blocks=fewest + draw(st.sampled_from((0, 1, 5, 40))),
        block_size=block_size,
        max_model_len=max_model_len,
        max_num_batched_tokens=draw(st.integers(1, 500)),
        step_s=draw(st.floats(0.005, 0.2)),
        jitter=draw(st.floats(0, 0.9)),
    )
    layer = draw(
        st.one_of(
            st.sampled_from(tuple(LAYERS.values())),
            st.builds(Layer, st.just("any"), st.floats(0, 0.3), st.floats(0, 0.1), st.integers(0, 6), st.booleans()),
        )
    )
    return Config(
        engine=engine,
        layer=layer,
        phases=tuple(draw(st.lists(phase, min_size=1, max_size=3))),
        prompt_tokens=Lengths(draw(st.sampled_from((1, max_model_len / 4, max_model_len))), draw(st.floats(0, 2))),
        output_tokens=Lengths(draw(st.sampled_from((1, max_model_len / 8, 30))), draw(st.floats(0, 2))),
        cached_prefix_tokens=draw(st.integers(0, 64)),
        abandon=draw(st.none() | st.builds(Abandon, st.floats(0, 1), st.floats(0.05, 3))),
        restarts=tuple(draw(st.lists(st.builds(Restart, st.floats(0, 10), st.floats(0.001, 4)), max_size=1))),
    )


def _in_order(request: RequestTruth) -> bool:
    moments = [request.arrived, request.dispatched, request.admitted, request.queued, request.scheduled]
    # The core hears of a client that hung up at its next step, and may take the request into its queue until then.
    moments += request.token_times if request.outcome == "aborted" else [*request.token_times, request.ended]
    known = [moment for moment in moments if moment is not None]
    return known == sorted(known)


@settings(max_examples=60, deadline=None)
@given(configs(), st.integers(0, 1000))
def test_every_request_is_accounted_for_once_and_littles_law_holds_exactly(config: Config, seed: int) -> None:
    run = simulate(config, seed)
    truth = run.truth()
    outcomes = {"ok", "aborted", "lost", "refused"}
    for request in truth.requests:
        assert request.outcome in outcomes
        assert request.outcome != "ok" or len(request.token_times) == request.request.output_tokens
        assert request.outcome != "refused" or request.admitted is None
        assert request.outcome == "ok" or len(request.token_times) < request.request.output_tokens
        assert _in_order(request)
    assert len({request.request.id for request in truth.requests}) == len(truth.requests)
    waits = sum(request.queue_wait_ns + request.requeue_wait_ns for request in truth.requests)
    assert integral(truth.waiting, truth.t_ns) == waits
    held = 0
    for request in truth.requests:
        left = request.ended if request.admitted is None else request.admitted
        assert left is not None
        held += left - request.arrived
    assert integral(truth.layer_waiting, truth.t_ns) == held
    assert truth.preemptions >= sum(request.preemptions for request in truth.finished)
    for series in (truth.waiting, truth.running, truth.used_blocks, truth.layer_waiting):
        assert series[-1][1] == 0
        assert min(value for _, value in series) == 0
    assert max(value for _, value in truth.used_blocks) <= config.engine.usable_blocks
    assert max(value for _, value in truth.running) <= config.engine.max_num_seqs


@settings(max_examples=15, deadline=None)
@given(configs(), st.integers(0, 1000))
def test_the_same_seed_gives_the_same_bytes(config: Config, seed: int) -> None:
    first, second = simulate(config, seed), simulate(config, seed)
    assert first.end == second.end
    assert first.log("vllm-v0", first.end) == second.log("vllm-v0", second.end)
    assert first.page("ray-serve", first.end + 30) == second.page("ray-serve", second.end + 30)


def test_another_seed_gives_another_run() -> None:
    config = Config(phases=(Steady(20.0, 4.0),))
    assert simulate(config, 1).truth().requests[0].arrived != simulate(config, 2).truth().requests[0].arrived


def test_blocks_held_are_those_that_the_tokens_need() -> None:
    # One request of 20 prompt tokens and blocks of 8: 3 blocks until the 5th output token is computed on, then 4.
    engine = Engine(block_size=8, num_blocks=100, max_model_len=64, step_s=0.1, prefill_token_s=0.0, decode_seq_s=0.0)
    config = Config(
        engine=engine, phases=(Bursts(1.0, 1, 5.0),), prompt_tokens=Lengths(20.0), output_tokens=Lengths(8.0)
    )
    truth = simulate(config).truth()
    assert truth.used_blocks == ((0, 3), (500_000_000, 4), (800_000_000, 0))
    assert truth.kv_usage_seconds() == pytest.approx((3 * 0.5 + 4 * 0.3) / 99)


def test_slots_bound_the_batch_and_the_rest_waits_its_turn() -> None:
    # Two slots, three requests at once, two tokens each: the third starts when the first two are done.
    engine = Engine(max_num_seqs=2, step_s=0.1, prefill_token_s=0.0, decode_seq_s=0.0)
    config = Config(engine=engine, phases=(Bursts(1.0, 3, 5.0),), output_tokens=Lengths(2.0))
    requests = simulate(config).truth().requests
    # The first wakes the idle core; the other two come in during its first step.
    assert [request.scheduled for request in requests] == [0, 100_000_000, 200_000_000]
    assert requests[2].queue_wait == pytest.approx(0.1)
    assert requests[2].queue_wait_v0 == pytest.approx(0.2)
    assert requests[2].ttft == pytest.approx(0.3)
    assert requests[2].e2e == pytest.approx(0.4)


def test_preemption_takes_the_newest_and_recomputes_it() -> None:
    # Two requests of 8 tokens fill 2 of 3 blocks of 8; the first then needs a second block, the second a third:
    # the second is pushed out, waits for the end of the first, and its prompt and tokens are computed again.
    engine = Engine(
        max_num_seqs=2, block_size=8, num_blocks=4, max_model_len=24, step_s=0.1, prefill_token_s=0.01,
        decode_seq_s=0.0,
    )  # fmt: skip
    config = Config(
        engine=engine, phases=(Bursts(1.0, 2, 5.0),), prompt_tokens=Lengths(8.0), output_tokens=Lengths(4.0)
    )
    truth = simulate(config).truth()
    first, second = truth.requests
    assert (first.preemptions, second.preemptions, truth.preemptions) == (0, 1, 1)
    assert second.requeue_wait > 0
    assert second.queue_wait is not None
    assert truth.waiting_seconds() == pytest.approx(second.queue_wait + second.requeue_wait)
    gaps = second.inter_token_latencies
    assert max(gaps) > second.requeue_wait, "the wait after a preemption falls between two tokens"


def test_a_prefix_in_the_cache_is_not_computed_again() -> None:
    engine = Engine(step_s=0.01, prefill_token_s=0.001, decode_seq_s=0.0)
    config = Config(engine=engine, phases=(Bursts(4.0, 1, 2.0),), prompt_tokens=Lengths(100.0),
                    output_tokens=Lengths(1.0), cached_prefix_tokens=70)  # fmt: skip
    cold, warm = simulate(config).truth().requests
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 64)
    assert cold.ttft == pytest.approx(0.110)
    assert warm.ttft == pytest.approx(0.046)


def test_a_limited_layer_holds_requests_back_and_the_engine_never_sees_more() -> None:
    layer = Layer("narrow", overhead_s=0.01, max_ongoing=3)
    truth = simulate(Config(layer=layer, phases=(Closed(20.0, 10),)), 1).truth()
    assert max(running + value_at(truth.waiting, t) for t, running in truth.running) <= 3
    waits = [request.layer_wait for request in truth.finished if request.layer_wait is not None]
    assert min(waits) == pytest.approx(0.01)
    assert max(waits) > 0.5
    assert sum(waits) == pytest.approx(truth.layer_waiting_seconds())


def test_one_request_at_a_time_is_handed_over() -> None:
    layer = dataclasses.replace(LAYERS["triton"], handover_s=0.002)
    truth = simulate(Config(layer=layer, phases=(Bursts(1.0, 5, 2.0),))).truth()
    assert [request.layer_wait for request in truth.requests] == pytest.approx([0.002, 0.004, 0.006, 0.008, 0.010])


def test_a_restart_loses_what_is_inside_and_a_plain_server_refuses_while_down() -> None:
    config = Config(phases=(Steady(20.0, 5.0),), restarts=(Restart(8.0, 4.0),))
    truth = simulate(config, 5).truth()
    lost = [request for request in truth.requests if request.outcome == "lost"]
    refused = [request for request in truth.requests if request.outcome == "refused"]
    assert lost
    assert refused
    assert all(request.ended == 8_000_000_000 for request in lost)
    assert all(8_000_000_000 <= request.arrived < 12_000_000_000 for request in refused)


def test_a_layer_of_its_own_keeps_requests_through_a_restart() -> None:
    config = Config(layer=LAYERS["ray"], phases=(Steady(20.0, 5.0),), restarts=(Restart(8.0, 4.0),))
    truth = simulate(config, 5).truth()
    assert not [request for request in truth.requests if request.outcome == "refused"]
    assert max(value for _, value in truth.layer_waiting) > 10


def test_clients_that_hang_up_leave_no_trace_in_the_engine() -> None:
    engine = Engine(max_num_seqs=2)
    config = Config(engine=engine, phases=(Closed(20.0, 10),), abandon=Abandon(0.5, 1.0))
    truth = simulate(config, 2).truth()
    aborted = [request for request in truth.requests if request.outcome == "aborted"]
    assert aborted
    assert truth.used_blocks[-1][1] == 0


def test_an_earlier_truth_is_a_part_of_a_later_one(busy: Run) -> None:
    late = busy.truth()
    early = busy.truth(10.0)
    assert late.preemptions > 0
    assert early.waiting == tuple(step for step in late.waiting if step[0] <= 10_000_000_000)
    assert early.preemptions < late.preemptions
    assert early.output_tokens == sum(
        sum(1 for moment in request.token_times if moment <= 10_000_000_000) for request in late.requests
    )


def test_a_starved_server_answers_at_the_least_busy_moment(busy: Run) -> None:
    waiting = busy.truth().waiting
    for t in (5.0, 12.0, 31.0):
        answered = busy.starved_scrape_time(t, 2.0)
        assert t <= answered <= t + 2.0
        assert value_at(waiting, round(answered * 1e9)) <= value_at(waiting, round(t * 1e9))
