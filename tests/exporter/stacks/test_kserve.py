"""KServe: the engine's page arrives whole, unless Knative's aggregator was in between."""

from __future__ import annotations

import re
from collections.abc import Callable

from obs_exporter.schema import Histogram, State
from obs_exporter.stacks import STACKS, Claims, Known, Reading, read_paper

Read = Callable[..., Reading]
ENGINE = "vllm/0.32.0-real/during"
LABELS = b',service_name="s",configuration_name="c",revision_name="r"}'


def test_standard_mode_is_the_engines_page(read: Read) -> None:
    reading = read("kserve", ENGINE)
    assert reading.answer("kv_cache_usage").state is State.NATIVE
    assert reading.answer("layer_queue_wait").state is State.NOT_APPLICABLE


def test_each_release_carries_its_engine_on_paper() -> None:
    engines = {}
    for release in ("0.15.2", "0.16.0", "0.19.0", "0.20.0"):
        reading = read_paper(STACKS["kserve"], Claims(Known((release,), "given")))
        engines[release] = str(reading.engine_version)
    assert engines == {"0.15.2": "0.8.5", "0.16.0": "0.9.2", "0.19.0": "0.20.0", "0.20.0": "0.20.0 to 0.24.0"}


def test_two_runtimes_of_one_release_may_differ() -> None:
    reading = read_paper(STACKS["kserve"], Claims(Known(("0.20.0",), "given")))
    assert "kserve-vllmserver 0.20.0" in reading.engine_version.source
    answer = reading.answer("kv_cache_max_concurrency")
    assert answer.state is State.NATIVE
    assert "log for vLLM 0.20.0" in answer.reason


def test_the_page_is_surer_than_the_pin(read: Read) -> None:
    reading = read("kserve", ENGINE, stack_version="0.20.0")
    assert "0.32.0" in reading.engine_version.candidates


def _through_qpext(body: bytes) -> bytes:
    """What the aggregator makes of a page that a Prometheus 2 asked for: only counters, as gauges, with its labels."""
    kept: list[bytes] = []
    for line in body.splitlines(keepends=True):
        if re.match(rb"vllm:\S+_total\{", line):
            name = line.split(b"{")[0].replace(b":", b"_")
            kept += [b"# TYPE " + name + b" gauge\n"] if not any(name in old for old in kept) else []
            kept.append(line.replace(b"vllm:", b"vllm_").replace(b"}", LABELS))
    return b"".join(kept)


def test_what_the_aggregator_dropped_is_lost_with_its_name(read: Read, page: Callable[[str], bytes]) -> None:
    reading = read("kserve", _through_qpext(page(ENGINE)))
    assert reading.answer("generation_tokens").series == read("kserve", ENGINE).answer("generation_tokens").series
    for signal in ("kv_cache_usage", "queue_wait", "requests_running"):
        assert reading.answer(signal).state is State.LOST
        assert "qpext" in reading.answer(signal).reason
    assert {"retyped", "renamed_by_negotiation"} <= {oddity.code for oddity in reading.oddities}


def test_queue_proxy_alone_is_not_a_healthy_engine(read: Read) -> None:
    body = b"# TYPE revision_request_count counter\nrevision_request_count{revision_name=\"r\"} 3\n"  # fmt: skip
    assert "queue-proxy" in read("kserve", body).problem


def test_queue_proxy_names_of_both_generations(read: Read, page: Callable[[str], bytes]) -> None:
    old = (
        b"# TYPE revision_request_latencies histogram\n"
        b'revision_request_latencies_bucket{le="500"} 1\nrevision_request_latencies_bucket{le="+Inf"} 2\n'
        b"revision_request_latencies_sum 1500\nrevision_request_latencies_count 2\n"
    )
    new = (
        b"# TYPE kn_serving_invocation_duration_seconds histogram\n"
        b'kn_serving_invocation_duration_seconds_bucket{le="0.5"} 1\n'
        b'kn_serving_invocation_duration_seconds_bucket{le="+Inf"} 2\n'
        b"kn_serving_invocation_duration_seconds_sum 1.5\nkn_serving_invocation_duration_seconds_count 2\n"
    )
    found = [read("kserve", page(ENGINE) + extra).answer("layer_request_duration").series for extra in (old, new)]
    assert found[0] == found[1]
    (series,) = found[0]
    assert isinstance(series, Histogram)
    assert series.buckets[0] == (0.5, 1.0)
    assert series.sum == 1.5
