"""Collector and server over real HTTP: what Prometheus sees, whatever the targets do."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.schema import SIGNALS
from obs_exporter.server import App
from obs_exporter.sources.scrape import Access
from obs_exporter.stacks import UNKNOWN, Claims, Known
from obs_exporter.wsgi import bind, run_in_thread

Samples = dict[str, list[tuple[dict[str, str], float]]]
PREEMPTING = "vllm/0.32.0-real-preempting/after"


def _get(url: str, accept: str = "text/plain") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - http on 127.0.0.1
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        body: bytes = response.read()
    return body.decode()


def _samples(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture
def exporter() -> Iterator[Callable[..., str]]:
    """Run exporters over targets; yields their base URL."""
    closing: list[Callable[[], None]] = []

    def start(*targets: Target, deadline: float = 9.0) -> str:
        collector = TargetCollector(targets, deadline)
        server = bind(App(collector), ("127.0.0.1", 0))
        run_in_thread(server)
        closing.extend([server.shutdown, server.server_close, collector.close])
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for close in closing:
        close()


def _target(name: str, stack: str, url: str, **more: Any) -> Target:
    return Target(name, stack, Access(url, timeout=more.pop("timeout", 8.0)), **more)


def test_four_stacks_on_one_page(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    pages = {
        "vllm": PREEMPTING,
        "kserve": "vllm/0.32.0-real/during",
        "triton": "triton/24.10-vllm0.32.0-custom-metrics/during",
        "ray-serve": "ray/2.60.0-llm-vllm0.29.0/during",
    }
    targets = [_target(f"t-{stack}", stack, serve(fixed(page(name))).url) for stack, name in pages.items()]
    samples = _samples(_get(exporter(*targets) + "/metrics"))
    assert [value for _, value in samples["obs_exporter_target_up"]] == [1.0] * 4
    assert samples["llm_preemptions_total"] == [
        ({"stack": "vllm", "target": "t-vllm", "model": "tiny", "engine": "0"}, 19.0),
        ({"stack": "kserve", "target": "t-kserve", "model": "tiny", "engine": "0"}, 0.0),
    ]
    queue = {labels["stack"]: value for labels, value in samples["llm_request_queue_seconds_count"]}
    assert set(queue) == {"vllm", "kserve", "ray-serve"}
    assert {labels["stack"] for labels, _ in samples["llm_layer_queue_seconds_sum"]} == {"triton"}
    info = [labels for labels, _ in samples["llm_signal_info"]]
    assert len(info) == 4 * len(SIGNALS)
    states = {(labels["stack"], labels["signal"]): labels["state"] for labels in info}
    assert states["triton", "preemptions"] == "lost"
    assert states["ray-serve", "preemptions"] == "idle"


def test_a_broken_target_hurts_no_other(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    done = threading.Event()
    targets = [
        _target("good", "vllm", serve(fixed(page(PREEMPTING))).url),
        _target("html", "vllm", serve(fixed(b"<html>\n", "text/html")).url),
        _target("empty", "triton", serve(fixed(b"")).url),
        _target("dead", "vllm", "http://127.0.0.1:9"),
        _target("slow", "vllm", serve(lambda _: done.wait(30)).url, timeout=0.4),
        _target("cut", "vllm", serve(fixed(page(PREEMPTING)[:20_000])).url),
        _target("other", "vllm", serve(fixed(page("ray/2.60.0-serve/after"))).url),
    ]
    base = exporter(*targets)
    samples = _samples(_get(base + "/metrics"))
    done.set()
    up = {labels["target"]: value for labels, value in samples["obs_exporter_target_up"]}
    assert up == {"good": 1, "html": 0, "empty": 0, "dead": 0, "slow": 0, "cut": 0, "other": 0}
    values = {name for name in samples if name.startswith("llm_") and name != "llm_signal_info"}
    assert {labels["target"] for name in values for labels, _ in samples[name]} == {"good"}
    reasons = {labels["target"]: labels["reason"] for labels, _ in samples["obs_exporter_scrape_errors_total"]}
    assert reasons["dead"] == "connect"
    assert reasons["slow"] == "timeout"
    assert reasons["empty"] == "not_metrics"
    why = {labels["target"]: labels["reason"] for labels, _ in samples["llm_signal_info"]
           if labels["state"] == "unreachable"}  # fmt: skip
    assert "refused" in why["dead"]
    assert "--stack ray-serve" in why["other"]
    assert "middle of a line" in why["cut"]
    again = _samples(_get(base + "/metrics"))
    errors = {labels["target"]: value for labels, value in again["obs_exporter_scrape_errors_total"]}
    assert errors["dead"] == 2


def test_the_deadline_holds_for_the_whole_page(serve: Callable[..., Any], exporter: Callable[..., str]) -> None:
    done = threading.Event()
    base = exporter(_target("slow", "vllm", serve(lambda _: done.wait(30)).url), deadline=0.5)
    samples = _samples(_get(base + "/metrics"))
    done.set()
    assert samples["obs_exporter_target_up"][0][1] == 0
    assert samples["obs_exporter_scrape_duration_seconds"][0][1] < 8


def test_versions_are_asked_for_where_the_page_does_not_tell(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    def answer(handler: Any) -> None:
        version = handler.path == "/version"
        fixed(b'{"version":"0.32.0"}' if version else page(PREEMPTING))(handler)

    def triton(handler: Any) -> None:
        fixed(b'{"name":"triton","version":"2.51.0"}')(handler)

    engine = serve(answer)
    layer = serve(fixed(page("triton/24.10-python-model/after")))
    api = serve(triton)
    base = exporter(
        _target("a", "vllm", engine.url), _target("b", "triton", layer.url, api_url=api.url),
        _target("c", "vllm", engine.url, claims=Claims(UNKNOWN, Known(("0.31.0",), "given"))),
    )  # fmt: skip
    for _ in range(2):
        samples = _samples(_get(base + "/metrics"))
    info = {labels["target"]: labels for labels, _ in samples["obs_exporter_target_info"]}
    assert info["a"]["engine_version"] == "0.32.0"
    assert info["b"]["stack_version"] == "24.10"
    assert info["c"]["engine_version"] == "0.31.0"
    assert [path for path, _ in engine.requests].count("/version") == 1


def test_probe_takes_names_only(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    other = serve(fixed(page(PREEMPTING)))
    base = exporter(_target("a", "vllm", serve(fixed(page(PREEMPTING))).url), _target("b", "vllm", other.url))
    samples = _samples(_get(base + "/probe?target=a"))
    assert [labels["target"] for labels, _ in samples["obs_exporter_target_up"]] == ["a"]
    assert other.requests == []
    for query in ("", "?target=c", f"?target={other.url}", "?target=a&target=b"):
        with pytest.raises(HTTPError) as caught:
            _get(f"{base}/probe{query}")
        assert caught.value.code == 400
        caught.value.close()


def test_pages_for_machines_and_people(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    base = exporter(_target("<b>a</b>", "vllm", serve(fixed(page(PREEMPTING))).url))
    assert _get(f"{base}/-/healthy") == "ok\n"
    assert _get(f"{base}/-/ready") == "ok\n"
    assert "Nothing has asked" in _get(f"{base}/")
    openmetrics = _get(f"{base}/metrics", "application/openmetrics-text;version=1.0.0")
    assert openmetrics.endswith("# EOF\n")
    assert "llm_preemptions_total" in openmetrics
    index = _get(f"{base}/")
    assert "&lt;b&gt;a&lt;/b&gt;" in index
    assert "<b>a</b>" not in index
    with pytest.raises(HTTPError) as caught:
        _get(f"{base}/nothing")
    assert caught.value.code == 404
    caught.value.close()


def test_a_family_that_nobody_has_is_not_on_the_page(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    text = _get(
        exporter(_target("t", "triton", serve(fixed(page("triton/24.10-python-model/after"))).url)) + "/metrics"
    )
    assert "llm_preemptions" not in text.replace('signal="preemptions"', "")
    assert "llm_kv_cache" not in text


def test_a_target_that_hangs_takes_no_other_down_however_often_it_is_asked(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    done = threading.Event()
    base = exporter(
        _target("hangs", "vllm", serve(lambda _: done.wait(60)).url),
        _target("good", "vllm", serve(fixed(page(PREEMPTING))).url),
        deadline=1.0,
    )
    seen: list[Samples] = []
    threads = [threading.Thread(target=lambda: seen.append(_samples(_get(base + "/metrics")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    assert len(seen) == 8
    for samples in seen:
        up = {labels["target"]: value for labels, value in samples["obs_exporter_target_up"]}
        assert up == {"hangs": 0, "good": 1}


def test_a_selection_by_name_does_not_empty_the_page(
    serve: Callable[..., Any], fixed: Callable[..., Any], page: Callable[[str], bytes], exporter: Callable[..., str]
) -> None:
    base = exporter(_target("t", "vllm", serve(fixed(page(PREEMPTING))).url))
    assert "llm_preemptions_total" in _get(base + "/metrics?name[]=llm_requests_running")
