"""What the pages say is the truth, as far as the stack lets it through."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from obs_exporter.simulator import (
    LAYERS,
    Bursts,
    Closed,
    Config,
    Engine,
    Idle,
    Layer,
    Lengths,
    Restart,
    Run,
    Steady,
    simulate,
)
from obs_exporter.simulator.ledger import Buckets
from obs_exporter.simulator.truth import RequestTruth

Scraper = Callable[[bytes | str], Any]


def total(run: Run, value: Callable[[RequestTruth], float | None]) -> float:
    return sum(value(request) or 0.0 for request in run.truth().finished)


def test_vllm_says_the_truth_after_the_load(busy: Run, scrape: Scraper) -> None:
    page, truth = scrape(busy.page("vllm", busy.end + 1)), busy.truth()
    count = len(truth.finished)
    for name, value in (
        ("request_queue_time_seconds", lambda one: one.queue_wait),
        ("time_to_first_token_seconds", lambda one: one.ttft),
        ("e2e_request_latency_seconds", lambda one: one.e2e),
    ):
        assert page.get(f"vllm:{name}_count") == count
        assert page.get(f"vllm:{name}_sum") == pytest.approx(total(busy, value))
    gaps = [gap for request in truth.finished for gap in request.inter_token_latencies]
    assert page.get("vllm:inter_token_latency_seconds_count") == len(gaps)
    assert page.get("vllm:inter_token_latency_seconds_sum") == pytest.approx(sum(gaps))
    assert page.get("vllm:num_preemptions_total") == truth.preemptions > 0
    assert page.get("vllm:request_num_preemptions_sum") == truth.preemptions
    assert page.get("vllm:prompt_tokens_total") == truth.prompt_tokens
    assert page.get("vllm:generation_tokens_total") == truth.output_tokens
    assert page.get("vllm:iteration_tokens_total_sum") == truth.prompt_tokens + truth.output_tokens
    decode = page.get("vllm:request_decode_time_seconds_sum") + page.get("vllm:request_prefill_time_seconds_sum")
    assert page.get("vllm:request_inference_time_seconds_sum") == pytest.approx(decode)


def test_buckets_hold_what_the_requests_say(busy: Run, scrape: Scraper) -> None:
    page, finished = scrape(busy.page("vllm", busy.end)), busy.truth().finished
    for edge in ("0.3", "1.0", "2.5", "10.0"):
        within = sum(1 for request in finished if request.queue_wait is not None and request.queue_wait <= float(edge))
        assert page.get("vllm:request_queue_time_seconds_bucket", le=edge) == within


def test_gauges_are_those_of_the_end_of_the_last_step(scrape: Scraper) -> None:
    # Two slots, three requests at once, two tokens each, steps of 0.1 s: the first runs alone at first; at 0.2 s it is
    # done, and the third is still counted as waiting, although the next step has already taken it in.
    engine = Engine(max_num_seqs=2, step_s=0.1, prefill_token_s=0.0, decode_seq_s=0.0, block_size=16)
    config = Config(
        engine=engine, phases=(Bursts(1.0, 3, 5.0),), prompt_tokens=Lengths(10.0), output_tokens=Lengths(2.0)
    )
    run = simulate(config)
    expected = {0.05: (0, 0, 0), 0.15: (1, 0, 1), 0.25: (1, 1, 1), 0.35: (1, 0, 1), 0.45: (0, 0, 0)}
    for t, (running, waiting, blocks) in expected.items():
        page = scrape(run.page("vllm", t))
        assert page.get("vllm:num_requests_running") == running, t
        assert page.get("vllm:num_requests_waiting") == waiting, t
        assert page.get("vllm:kv_cache_usage_perc") == blocks / engine.usable_blocks, t


def test_capacity_is_told_alike_by_labels_and_log(busy: Run, scrape: Scraper) -> None:
    labels = next(dict(key[1]) for key in scrape(busy.page("vllm", 1.0)).values if key[0] == "vllm:cache_config_info")
    assert labels["kv_cache_size_tokens"] == str(129 * 16)
    assert labels["num_gpu_blocks"] == "129"
    assert f"GPU KV cache size: {129 * 16:,} tokens" in busy.log("vllm", 0.0)[0]
    assert "# CUDA blocks: 128, # CPU blocks: 0" in busy.log("vllm-v0", 0.0)[0]


def test_v0_counts_the_queue_from_the_arrival(busy: Run, scrape: Scraper) -> None:
    page = scrape(busy.page("vllm-v0", busy.end))
    v0 = total(busy, lambda one: one.queue_wait_v0)
    assert page.get("vllm:request_queue_time_seconds_sum") == pytest.approx(v0)
    assert page.get("vllm:time_in_queue_requests_sum") == pytest.approx(v0)
    assert v0 > total(busy, lambda one: one.queue_wait)


def test_triton_counts_admissions_and_its_own_queue_only(scrape: Scraper) -> None:
    engine = Engine(max_num_seqs=4)
    run = simulate(Config(engine=engine, layer=LAYERS["triton"], phases=(Closed(30.0, 16),)), 1)
    page, truth = scrape(run.page("triton", 20.0)), run.truth(20.0)
    inside = page.get("nv_inference_request_success") - page.get("vllm:e2e_request_latency_seconds_count")
    assert inside == 16, "running and waiting"
    waited = [request for request in truth.requests if request.admitted is not None]
    assert page.get("nv_inference_request_success") == len(waited)
    mean_us = page.get("nv_inference_queue_duration_us") / len(waited)
    engine_wait = truth.mean_queue_wait()
    assert engine_wait is not None
    assert mean_us / 1e6 < 0.01 * engine_wait, "the layer's queue is not the engine's"
    duration = page.get("nv_inference_request_duration_us") / 1e6
    assert duration == pytest.approx(truth.layer_waiting_seconds(), abs=len(waited) * 1e-6 + 0.001)


def test_ray_244_holds_seconds_under_a_name_of_milliseconds(scrape: Scraper) -> None:
    engine = Engine(max_num_seqs=4)
    run = simulate(Config(engine=engine, layer=LAYERS["ray-2.44"], phases=(Closed(30.0, 16),)), 1)
    page = scrape(run.page("ray-serve-2.44", run.end + 20))
    name = "ray_vllm_engine_stats_time_in_queue_ms"
    assert page.get(f"{name}_sum") == pytest.approx(total(run, lambda one: one.queue_wait_v0))
    assert page.get(f"{name}_bucket", le="10.0") == page.get(f"{name}_count") == len(run.truth().finished)
    assert page.get("ray_vllm_engine_stats_total_requests_finished") == page.get(
        "ray_vllm_engine_stats_total_requests_finished_total"
    )
    bursts = page.get("ray_rayllm_router_get_response_stream_per_token_latency_ms_count")
    assert 0 < bursts < page.get("ray_rayllm_tokens_generated_total"), "tokens leave in bursts of 50 ms"
    http = page.get("ray_serve_http_request_latency_ms_sum")
    inside = page.get("ray_serve_deployment_processing_latency_ms_sum", deployment="LLMRouter")
    layer = total(run, lambda one: one.layer_wait)
    assert (http - inside) / 1000 == pytest.approx(layer), "before 2.52 Serve's own wait is exact"


def test_ray_244_pending_and_running_are_what_the_engine_has(scrape: Scraper) -> None:
    config = Config(engine=Engine(max_num_seqs=4), layer=LAYERS["ray-2.44"], phases=(Closed(60.0, 16),))
    page = scrape(simulate(config, 1).page("ray-serve-2.44", 47.0))
    pending = page.get("ray_vllm_engine_stats_num_current_pending_requests")
    running = page.get("ray_vllm_engine_stats_num_current_running_requests")
    assert (pending + running, running <= 4) == (16, True)


def test_ray_shows_numbers_only_as_they_are_pushed(scrape: Scraper) -> None:
    run = simulate(Config(engine=Engine(max_num_seqs=2), layer=LAYERS["ray"], phases=(Closed(60.0, 4),)), 1)
    seen = [scrape(run.page("ray-serve", float(t))).all("ray_vllm_generation_tokens_total") for t in range(0, 56, 2)]
    values = [one[0] for one in seen if one]
    assert not seen[0]
    assert len(set(values)) == 5, "once in 10 s"
    page = scrape(run.page("ray-serve", 30.0))
    proxy = page.get("ray_serve_num_router_requests_total", deployment="OpenAiIngress")
    replica = page.get("ray_serve_num_router_requests_total", deployment="LLMServer:tiny")
    assert replica > proxy, "the ingress pushed at 24.2 s, the proxy at 21.7 s"


def test_ray_gauges_vanish_and_counters_come_with_their_first_event(scrape: Scraper) -> None:
    config = Config(layer=LAYERS["ray"], phases=(Steady(40.0, 3.0), Idle(60.0)))
    run = simulate(config, 1)
    loaded = scrape(run.page("ray-serve", 30.0))
    assert "ray_vllm_kv_cache_usage_perc" in loaded
    assert "ray_vllm_num_preemptions_total" not in loaded
    assert not loaded.all("ray_vllm_request_success_total", finished_reason="stop")
    assert "ray_vllm_cache_config_info" not in loaded
    assert "ray_vllm_cache_config_info" in scrape(run.page("ray-serve", 15.0))
    last_step = max(request.ended or 0 for request in run.truth().requests) / 1e9
    assert "ray_vllm_num_requests_running" in scrape(run.page("ray-serve", last_step + 19.5))
    idle = scrape(run.page("ray-serve", last_step + 20.5))
    assert "ray_vllm_num_requests_running" not in idle
    assert "ray_vllm_e2e_request_latency_seconds_count" in idle


def test_ray_rebuilds_sums_from_bucket_midpoints(scrape: Scraper) -> None:
    run = simulate(Config(layer=LAYERS["ray"], phases=(Steady(30.0, 3.0),)), 1)
    page = scrape(run.page("ray-serve", run.end + 20))
    truth = total(run, lambda one: one.client_e2e) * 1000
    said = page.get("ray_serve_http_request_latency_ms_sum")
    assert said != pytest.approx(truth, rel=0.01)
    edges = ("500.0", "1000.0", "2000.0", "5000.0")
    counts = [page.get("ray_serve_http_request_latency_ms_bucket", le=edge) for edge in edges]
    in_bucket = [b - a for a, b in pairwise(counts)]
    assert counts[0] == 0
    assert sum(in_bucket) == len(run.truth().finished)
    assert said == sum(n * middle for n, middle in zip(in_bucket, (750, 1500, 3500), strict=True))


def test_the_midpoints_of_the_outer_buckets() -> None:
    buckets = Buckets((10.0, 20.0))
    for value in (1.0, 10.0, 15.0, 1000.0):
        buckets.observe(value)
    assert buckets.counts == [2, 1, 1]
    assert buckets.midpoint_sum == 5 + 5 + 15 + 40


def test_ray_counts_an_attempt_for_every_refusal(scrape: Scraper) -> None:
    layer = Layer("ray", overhead_s=0.004, max_ongoing=2, holds_when_down=True)
    run = simulate(Config(layer=layer, phases=(Closed(30.0, 8),)), 1)
    page = scrape(run.page("ray-serve", run.end + 20))
    attempts = page.get("ray_serve_request_router_fulfillment_time_ms_count", handle_source="PROXY")
    assert attempts > 2 * len(run.truth().finished)


def test_a_dead_ray_replica_stays_on_the_page_as_it_was(scrape: Scraper) -> None:
    config = Config(layer=LAYERS["ray"], phases=(Steady(60.0, 3.0),), restarts=(Restart(30.0, 5.0),))
    run = simulate(config, 1)
    name = "ray_vllm_e2e_request_latency_seconds_count"
    early, late = (scrape(run.page("ray-serve", t)) for t in (50.0, run.end + 20))
    assert len(early.all(name)) == len(late.all(name)) == 2
    assert early.all(name)[0] == late.all(name)[0]
    assert early.all(name)[1] < late.all(name)[1]
    assert sum(late.all(name)) <= len(run.truth().finished)
    assert len(late.all("ray_serve_http_request_latency_ms_count")) == 1, "the proxy did not die"


def test_a_hit_in_the_prefix_cache_is_counted_in_tokens(scrape: Scraper) -> None:
    config = Config(phases=(Steady(20.0, 3.0, even=True),), prompt_tokens=Lengths(100.0), cached_prefix_tokens=70)
    page = scrape(simulate(config).page("vllm", 40.0))
    assert page.get("vllm:prefix_cache_queries_total") == 60 * 100
    assert page.get("vllm:prefix_cache_hits_total") == 59 * 64
    assert page.get("vllm:prompt_tokens_cached_total") == 59 * 64
    assert page.get("vllm:request_prefill_kv_computed_tokens_sum") == 60 * 100 - 59 * 64
