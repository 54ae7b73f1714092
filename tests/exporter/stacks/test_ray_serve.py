"""Ray Serve: renamed, switched off, rebuilt from buckets, or counted by Ray itself in the wrong unit's name."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from obs_exporter.schema import Histogram, Precision, Provenance, Scalar, State
from obs_exporter.stacks import Reading
from obs_exporter.stacks.engine import SIGNALS
from obs_exporter.stacks.ray_serve import models

Read = Callable[..., Reading]
ON, OFF = "ray/2.60.0-llm-vllm0.29.0", "ray/2.60.0-llm-vllm0.29.0-metrics-off"
OLD = "ray/2.44.1-llm-standin-engine"


def test_the_version_is_on_the_page(read: Read) -> None:
    reading = read("ray-serve", f"{ON}/during")
    assert str(reading.stack_version) == "2.60.0"
    assert str(reading.engine_version) == "0.29.0"


def test_engine_metrics_on(read: Read) -> None:
    reading = read("ray-serve", f"{ON}/during")
    states = {answer.signal.id: answer.state for answer in reading.answers if answer.signal.id in SIGNALS}
    lazy = {"preemptions", "prefix_cache_hits"}
    transient = {"kv_cache_capacity", "kv_cache_max_concurrency"}
    assert {signal for signal, state in states.items() if state is State.RENAMED} == SIGNALS - lazy - transient
    assert {states[signal] for signal in lazy} == {State.IDLE}
    assert {states[signal] for signal in transient} == {State.LOST}


def test_sums_are_marked_as_rebuilt_and_counts_are_exact(read: Read) -> None:
    reading = read("ray-serve", f"{ON}/after")
    for answer in reading.answers:
        if any(isinstance(series, Histogram) for series in answer.series):
            assert answer.precision is Precision.BUCKET
        elif answer.series:
            assert answer.precision is Precision.EXACT
    (series,) = reading.answer("request_duration").series
    assert isinstance(series, Histogram)
    assert series.count == 201


def test_engine_metrics_off_are_hidden_by_a_named_switch(read: Read) -> None:
    reading = read("ray-serve", f"{OFF}/during")
    for signal in SIGNALS - {"kv_cache_capacity", "kv_cache_max_concurrency"}:
        answer = reading.answer(signal)
        assert answer.state is State.HIDDEN
        assert "log_engine_metrics: true" in answer.remedy
    assert reading.answer("layer_request_duration").series


def test_a_plain_serve_app_has_no_engine(read: Read) -> None:
    reading = read("ray-serve", "ray/2.60.0-serve/after")
    assert reading.answer("kv_cache_usage").state is State.NOT_APPLICABLE
    assert reading.answer("layer_request_duration").state is State.NATIVE


def test_2_44_queue_wait_is_in_seconds_whatever_its_name_says(read: Read) -> None:
    reading = read("ray-serve", f"{OLD}/after")
    answer = reading.answer("queue_wait")
    (series,) = answer.series
    assert isinstance(series, Histogram)
    assert answer.native_name == "ray_vllm_engine_stats_time_in_queue_ms"
    assert series.sum / series.count == pytest.approx(1.894, abs=0.001)
    assert answer.precision is Precision.EXACT
    assert answer.provenance is Provenance.ENGINE


def test_2_44_loses_kv_usage_and_preemptions_and_says_where_the_log_is(read: Read) -> None:
    reading = read("ray-serve", f"{OLD}/after")
    assert reading.generation == "V0"
    for signal in ("kv_cache_usage", "preemptions"):
        assert reading.answer(signal).state is State.LOST
    assert "_EngineBackgroundProcess" in reading.answer("kv_cache_usage").remedy


def test_2_44_router_times_become_seconds(read: Read) -> None:
    reading = read("ray-serve", f"{OLD}/after")
    answer = reading.answer("ttft")
    (series,) = answer.series
    assert isinstance(series, Histogram)
    assert answer.provenance is Provenance.LAYER
    assert 0.1 < series.sum / series.count < 10
    edges = [edge for edge, _ in series.buckets]
    assert 0.5 in edges
    assert edges[-1] == math.inf


def test_several_replicas_add_up_and_the_fullest_cache_counts(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(f"{ON}/during")
    twin = b"".join(
        line.replace(b'ReplicaId="cusu9wjg"', b'ReplicaId="other"').rsplit(b" ", 1)[0]
        + (b" 0.5\n" if b"kv_cache" in line else b" " + line.rsplit(b" ", 1)[1])
        for line in body.splitlines(keepends=True)
        if line.startswith((b"ray_vllm_num_requests_running{", b"ray_vllm_kv_cache_usage_perc{"))
    )
    reading = read("ray-serve", body + twin)
    (running,) = reading.answer("requests_running").series
    (usage,) = reading.answer("kv_cache_usage").series
    assert isinstance(running, Scalar)
    assert isinstance(usage, Scalar)
    assert running.value == 8.0
    assert usage.value == 0.5


@pytest.mark.parametrize("version", ["2.47.1", "2.48.0", "2.49.2", "2.50.1"])
def test_2_47_to_2_50_hide_by_default(read: Read, page: Callable[[str], bytes], version: str) -> None:
    body = page(f"{OFF}/after").replace(b'Version="2.60.0"', f'Version="{version}"'.encode())
    answer = read("ray-serve", body).answer("kv_cache_usage")
    assert answer.state is State.HIDDEN
    assert "log_engine_metrics" in answer.remedy


def test_colon_names_of_old_vllm_are_read_too(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(f"{ON}/after")
    assert [a.series for a in read("ray-serve", body.replace(b"ray_vllm_", b"ray_vllm:")).answers] == [
        a.series for a in read("ray-serve", body).answers
    ]


def test_direct_streaming_shows_the_engines_own_page(read: Read) -> None:
    reading = read("ray-serve", "ray/2.60.0-llm-direct-streaming-metrics-off/port8000", stack_version="2.60.0")
    assert reading.answer("queue_wait").state is State.NATIVE
    assert reading.answer("queue_wait").precision is Precision.EXACT
    assert reading.answer("preemptions").state is State.NATIVE


def test_the_api_port_of_an_ordinary_cluster_is_no_metrics_page(read: Read) -> None:
    assert "JSON" in read("ray-serve", f"{OFF}/port8000").problem


# -- what Ray leaves out, and what it mixes up -------------------------------------------------------------------


def test_layer_series_carry_no_model_of_the_engines(read: Read) -> None:
    reading = read("ray-serve", f"{ON}/after")
    layer = reading.answer("layer_request_duration").series
    assert {dict(series.labels)["model"] for series in layer} == {""}
    old = read("ray-serve", f"{OLD}/after")
    assert {dict(series.labels)["model"] for series in old.answer("queue_wait").series} == {""}


def test_a_gauge_that_expired_is_not_called_unseen(read: Read) -> None:
    answer = read("ray-serve", f"{ON}/after").answer("layer_requests_ongoing")
    assert answer.state is State.IDLE
    assert "20 s" in answer.reason


def test_a_gauge_that_old_ray_would_have_kept_is_lost(read: Read, page: Callable[[str], bytes]) -> None:
    lines = page(f"{ON}/after").replace(b'Version="2.60.0"', b'Version="2.51.1"').splitlines(keepends=True)
    body = b"".join(line for line in lines if b"ray_vllm_kv_cache_usage_perc" not in line)
    assert read("ray-serve", body).answer("kv_cache_usage").state is State.LOST


def test_an_old_plain_app_has_no_engine_either(read: Read) -> None:
    reading = read("ray-serve", "ray/2.44.1-serve/after")
    for signal in ("kv_cache_usage", "requests_running", "queue_wait", "ttft", "preemptions"):
        assert reading.answer(signal).state is State.NOT_APPLICABLE


def test_the_engines_own_page_has_no_layer(read: Read) -> None:
    reading = read("ray-serve", "ray/2.60.0-llm-direct-streaming-metrics-off/port8000", stack_version="2.60.0")
    answer = reading.answer("layer_request_duration")
    assert answer.state is State.NOT_APPLICABLE
    assert "layer's page" in answer.reason


def test_reasons_that_an_old_wrapper_mixed_up_are_not_told(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(f"{ON}/after").replace(b'finished_reason="length"', b'finished_reason="repetition"')
    (mixed,) = read("ray-serve", body, engine_version="0.19.0").answer("requests_finished").series
    assert dict(mixed.labels)["finished_reason"] == ""
    (kept,) = read("ray-serve", body, engine_version="0.29.0").answer("requests_finished").series
    assert dict(kept.labels)["finished_reason"] == "repetition"
    assert isinstance(mixed, Scalar)
    assert mixed.value == 201


def test_a_newer_engine_than_the_floor_is_no_finding(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(f"{ON}/after").replace(b'Version="2.60.0"', b'Version="2.51.1"')
    reading = read("ray-serve", body)
    assert reading.engine_version.floor
    assert "foreign_version_name" not in {oddity.code for oddity in reading.oddities}


def test_the_page_narrows_the_range_that_the_models_endpoint_tells(read: Read) -> None:
    told = models({"data": [{"id": "m", "metadata": {}}]})
    assert len(told.stack_version.candidates) > 1
    reading = read("ray-serve", f"{ON}/during", told=told)
    assert str(reading.stack_version) == "2.60.0"
    assert not [oddity for oddity in reading.oddities if oddity.code == "version_mismatch"]


def test_a_range_that_leaves_the_page_out_is_noted(read: Read) -> None:
    older = models({"data": [{"id": "m", "rayllm_metadata": {}}]})
    reading = read("ray-serve", f"{ON}/during", told=older)
    assert [oddity.code for oddity in reading.oddities if oddity.code == "version_mismatch"]


def test_direct_streaming_without_the_switch_costs_no_restart(read: Read) -> None:
    answer = read("ray-serve", "ray/2.60.0-llm-direct-streaming-metrics-off/after").answer("kv_cache_usage")
    assert answer.state is State.HIDDEN
    assert "30000" in answer.remedy
    assert not answer.cost


def test_a_ray_that_has_no_fulfilment_time_is_not_blamed_for_it(read: Read) -> None:
    answer = read("ray-serve", f"{OLD}/after").answer("layer_queue_wait")
    assert "fulfilment" not in answer.reason
    assert "obs-exporter derives it (exact)" in answer.remedies
