"""Simulated pages have the families, types, labels and buckets of the real pages of the same stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from obs_exporter.simulator import (
    FACES,
    LAYERS,
    Closed,
    Config,
    Engine,
    Idle,
    Outage,
    PageUnavailableError,
    Restart,
    Run,
    Steady,
    simulate,
)

Real = Callable[[str], Any]
Scraper = Callable[[bytes | str], Any]

VLLM = "vllm/0.32.0-real"
RAY = "ray/2.60.0-llm-vllm0.29.0/during.txt.gz"
RAY_244 = "ray/2.44.1-llm-standin-engine/during.txt.gz"
TRITON = "triton/24.10-vllm0.32.0-custom-metrics/during.txt"


def same(ours: Any, theirs: Any, name: str) -> None:
    """One family looks alike on both pages, as far as both have series."""
    mine, real = ours.shapes[name], theirs.shapes[name]
    assert mine.kind == real.kind, name
    if mine.labels and real.labels:
        assert mine.labels == real.labels, name
    if mine.edges and real.edges:
        assert mine.edges == real.edges, name


@pytest.mark.parametrize(("t", "page"), [(0.001, "idle.txt"), (150.0, "after.txt")])
def test_vllm_has_exactly_the_real_families(busy: Run, scrape: Scraper, real: Real, t: float, page: str) -> None:
    ours, theirs = scrape(busy.page("vllm", t)), real(f"{VLLM}/{page}")
    assert list(ours.shapes) == list(theirs.shapes)
    for name in theirs.shapes:
        same(ours, theirs, name)
    # Two histograms in the real page know a second route or none; every other sample is there too.
    assert {key[0] for key in ours.values} == {key[0] for key in theirs.values}


@pytest.mark.parametrize(("t", "page"), [(0.001, "v0-idle.txt"), (150.0, "v0-load.txt")])
def test_vllm_v0_hides_empty_families_like_the_real_one(
    busy: Run, scrape: Scraper, real: Real, t: float, page: str
) -> None:
    ours, theirs = scrape(busy.page("vllm-v0", t)), real(f"vllm/0.7.2-rendered/{page}")
    assert set(ours.shapes) == set(theirs.shapes)
    for name in theirs.shapes:
        same(ours, theirs, name)


def test_kserve_is_vllm_without_its_own_server(busy: Run, scrape: Scraper) -> None:
    ours, bare = scrape(busy.page("kserve", 30.0)), scrape(busy.page("vllm", 30.0))
    assert set(ours.shapes) == {name for name in bare.shapes if not name.startswith("http_")}
    assert {key: value for key, value in bare.values.items() if not key[0].startswith("http_")} == ours.values


def test_the_knative_merge_adds_its_labels_and_shuffles(busy: Run, scrape: Scraper) -> None:
    one, two = scrape(busy.page("kserve-knative", 30.0)), scrape(busy.page("kserve-knative", 31.0))
    assert list(one.shapes) != list(two.shapes)
    assert set(one.shapes) == set(two.shapes)
    assert "revision_queue_depth" in one
    for name, labels in one.values:
        if name.startswith("vllm:"):
            assert {"service_name", "configuration_name", "revision_name"} <= dict(labels).keys()


def test_triton_has_exactly_the_real_families(busy: Run, scrape: Scraper, real: Real) -> None:
    ours, theirs = scrape(busy.page("triton", 30.0)), real(TRITON)
    assert list(ours.shapes) == list(theirs.shapes)
    for name in theirs.shapes:
        same(ours, theirs, name)
    assert {key[0] for key in ours.values} == {key[0] for key in theirs.values}


def test_triton_without_the_switch_has_no_engine_family(busy: Run, scrape: Scraper, real: Real) -> None:
    ours, theirs = scrape(busy.page("triton-metrics-off", 30.0)), real(TRITON)
    assert list(ours.shapes) == [name for name in theirs.shapes if not name.startswith("vllm:")]


@pytest.mark.parametrize(
    ("face", "page", "own"),
    [
        ("ray-serve", RAY, ("ray_vllm_",)),
        ("ray-serve-2.44", RAY_244, ("ray_vllm_", "ray_rayllm_")),
    ],
)
def test_ray_has_the_real_engine_families_and_serve_families_of_the_real_shape(
    scrape: Scraper, real: Real, face: str, page: str, own: tuple[str, ...]
) -> None:
    engine = Engine(max_model_len=1024, max_num_seqs=4)
    run = simulate(Config(engine=engine, layer=LAYERS["ray-2.44"], phases=(Closed(40.0, 16),)), 1)
    ours, theirs = scrape(run.page(face, 38.0)), real(page)
    mine = {name for name in ours.shapes if name.startswith(own)}
    assert mine == {name for name in theirs.shapes if name.startswith(own)}
    serve = {name for name in ours.shapes if name.startswith("ray_serve_")}
    assert serve >= {
        "ray_serve_http_request_latency_ms",
        "ray_serve_deployment_processing_latency_ms",
        "ray_serve_deployment_queued_queries",
        "ray_serve_num_ongoing_http_requests",
        "ray_serve_num_http_requests_total",
    }
    assert serve <= set(theirs.shapes)
    for name in mine | serve:
        same(ours, theirs, name)


@pytest.mark.parametrize("face", sorted(FACES))
@pytest.mark.parametrize("t", [0.0, 0.5, 9.0, 33.3, 80.0, 500.0])
def test_every_page_parses_at_any_time(busy: Run, scrape: Scraper, face: str, t: float) -> None:
    page = scrape(busy.page(face, t))
    assert t < 10 or page.shapes


@pytest.mark.parametrize("face", sorted(FACES))
def test_counters_and_buckets_only_grow_and_reset_only_with_the_process(scrape: Scraper, face: str) -> None:
    config = Config(engine=Engine(max_num_seqs=2), phases=(Steady(60.0, 2.0),), restarts=(Restart(30.0, 5.0),))
    run = simulate(config, 4)
    last: dict[Any, float] = {}
    fell: set[float] = set()
    for t in range(0, 80, 3):
        try:
            page = scrape(run.page(face, float(t)))
        except PageUnavailableError:
            assert 30 <= t < 35
            continue
        before, last = last, {}
        for key, value in page.values.items():
            base = key[0].removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            shape = page.shapes.get(base) or page.shapes.get(key[0])
            # Ray's gauge twins of counters are typed as gauges.
            if shape is None or shape.kind not in ("counter", "histogram"):
                continue
            if value < before.get(key, 0.0):
                fell.add(float(t))
            last[key] = value
    assert fell == (set() if face.startswith("ray-serve") else {36.0}), "only the restarted process starts again"


def test_the_page_is_out_when_it_is_said_to_be() -> None:
    run = simulate(Config(phases=(Steady(10.0, 1.0),), outages=(Outage(2.0, 4.0),), restarts=(Restart(6.0, 1.0),)))
    for t in (2.0, 3.9, 6.5):
        with pytest.raises(PageUnavailableError):
            run.page("vllm", t)
    for t in (1.9, 4.0, 7.0):
        assert run.page("vllm", t)
    with pytest.raises(PageUnavailableError):
        run.page("ray-serve", 3.0)
    assert run.page("ray-serve", 6.5), "Ray's agent answers while the engine is down"


def test_an_idle_engine_says_zero_where_the_real_one_does(scrape: Scraper) -> None:
    page = scrape(simulate(Config(phases=(Idle(10.0),))).page("vllm", 5.0))
    for reason in ("stop", "length", "abort", "error", "repetition"):
        assert page.get("vllm:request_success_total", finished_reason=reason) == 0
    assert page.get("vllm:num_requests_waiting") == 0
