"""The server's own numbers beside the client's, from pages in the common schema."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from obs_exporter.probe.server_side import (
    SCHEMA,
    HTTPServerSide,
    PageError,
    describe_pages,
    fetch,
    mapper,
    read_schema_page,
)

from .conftest import QuietHandler, serving

SUMMARY = {"ttft_s": {"mean": 0.5}, "requests": 10}


def page(count: int, total: float, preempted: int = 0, usage: float = 0.0, hits: int = 0) -> str:
    tags = 'stack="vllm",target="t",model="m",engine="0"'
    return (
        "# TYPE llm_time_to_first_token_seconds histogram\n"
        f'llm_time_to_first_token_seconds_bucket{{{tags},le="0.1"}} {count // 2}\n'
        f'llm_time_to_first_token_seconds_bucket{{{tags},le="0.2"}} {count}\n'
        f'llm_time_to_first_token_seconds_bucket{{{tags},le="+Inf"}} {count}\n'
        f"llm_time_to_first_token_seconds_sum{{{tags}}} {total}\n"
        f"llm_time_to_first_token_seconds_count{{{tags}}} {count}\n"
        "# TYPE llm_request_queue_seconds histogram\n"
        f'llm_request_queue_seconds_bucket{{{tags},le="+Inf"}} {count}\n'
        f"llm_request_queue_seconds_sum{{{tags}}} {total / 10}\n"
        f"llm_request_queue_seconds_count{{{tags}}} {count}\n"
        "# TYPE llm_preemptions_total counter\n"
        f"llm_preemptions_total{{{tags}}} {preempted}\n"
        "# TYPE llm_kv_cache_usage_ratio gauge\n"
        f"llm_kv_cache_usage_ratio{{{tags}}} {usage}\n"
        f"llm_kv_cache_usage_ratio{{{tags.replace('0', '1')}}} {usage / 2}\n"
        "# TYPE llm_prefix_cache_queries_total counter\n"
        f'llm_prefix_cache_queries_total{{{tags},unit="tokens"}} {count * 100}\n'
        "# TYPE llm_prefix_cache_hits_total counter\n"
        f'llm_prefix_cache_hits_total{{{tags},unit="tokens"}} {hits}\n'
    )


@contextmanager
def serve(pages: list[str]) -> Iterator[str]:
    """Serve the pages one after the other, the last again and again."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name is inherited
            self.reply((pages.pop(0) if len(pages) > 1 else pages[0]).encode())

    with serving(Handler) as url:
        yield f"{url}/metrics"


def test_a_level_from_first_to_last_page() -> None:
    with serve([page(100, 30.0, 2, 0.1), page(105, 31.0, 3, 0.9), page(110, 31.5, 5, 0.3, 20)]) as url:
        side = HTTPServerSide(url, read_schema_page, interval_s=0.05)
        side.begin()
        threading.Event().wait(0.2)
        found = side.end(SUMMARY)
    signals = found["signals"]
    assert signals["ttft"]["value"] == pytest.approx(0.15)
    assert signals["ttft"]["count"] == 10
    assert signals["ttft"]["p95"] == pytest.approx(0.19)
    assert signals["queue_wait"]["value"] == pytest.approx(0.015)
    assert signals["queue_wait"]["p95"] is None
    assert signals["preemptions"]["value"] == 3
    assert signals["kv_cache_usage"]["value"] == 0.9
    assert found["lost_s"]["value"] == pytest.approx(0.35)
    assert found["prefix_cache_hit_ratio"]["value"] == pytest.approx(0.02)
    assert signals["layer_queue_wait"] == {"value": None, "reason": "the page does not have it"}


def describe(*pages: str, target: str | None = None) -> dict[str, Any]:
    found = []
    for text in pages:
        with serve([text]) as url:
            found.append(fetch(url))
    return describe_pages(found, mapper(SCHEMA, target), SUMMARY)


def test_a_restart_is_no_negative_number() -> None:
    found = describe(page(100, 30.0, 5), page(4, 1.0, 0))
    assert "restarted" in found["signals"]["preemptions"]["reason"]
    assert "restarted" in found["signals"]["ttft"]["reason"]
    assert found["lost_s"]["value"] is None


def test_an_idle_engine_is_no_zero() -> None:
    found = describe(page(100, 30.0), page(100, 30.0))
    assert found["signals"]["ttft"] == {"value": None, "reason": "no observation during this level"}


def test_other_users_are_noticed() -> None:
    assert "others use it too" in describe(page(100, 30.0), page(200, 45.0))["lost_s"]["warning"]


def both(count: int, total: float) -> str:
    """A page with two targets, t and u; u has ten times the requests of t."""
    lines = page(count, total).splitlines()
    other = page(10 * count, 10 * total).replace('target="t"', 'target="u"').splitlines()
    mixed = []
    for one, two in zip(lines, other, strict=True):
        mixed += [one] if one.startswith("#") else [one, two]
    return "\n".join(sorted(mixed, key=lambda line: line.replace("# TYPE ", "").split("_seconds")[0])) + "\n"


@pytest.mark.parametrize(("target", "count"), [("t", 10), ("u", 100)])
def test_one_target_of_a_page_is_read(target: str, count: int) -> None:
    found = describe(both(100, 30.0), both(110, 31.5), target=target)
    assert found["signals"]["ttft"]["count"] == count


def test_several_targets_are_never_mixed() -> None:
    found = describe(both(100, 30.0), both(110, 31.5))
    assert found["signals"]["ttft"]["value"] is None
    assert "(t, u)" in found["signals"]["ttft"]["reason"]
    assert "--metrics-target" in found["signals"]["kv_cache_usage"]["reason"]
    assert found["lost_s"]["value"] is None
    assert "it has: t, u" in describe(both(1, 1.0), both(2, 2.0), target="v")["error"]


def test_a_page_of_another_kind_is_told() -> None:
    other = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"
    assert "--metrics-stack" in describe(other, other)["signals"]["ttft"]["reason"]


def test_an_engine_slower_than_its_client_is_no_time_lost() -> None:
    lost = describe(page(100, 30.0), page(110, 40.0))["lost_s"]
    assert lost["value"] is None
    assert "other traffic" in lost["reason"]


def test_pages_that_cannot_be_read_are_counted() -> None:
    found = describe("", "nonsense {")
    assert (found["samples"], found["failed_samples"]) == (0, 2)
    assert found["signals"]["ttft"]["value"] is None
    down = fetch("http://127.0.0.1:1/metrics")
    assert "refused" in down.error
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        gone = fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        thread.join()
    assert gone.error
    with pytest.raises(PageError):
        read_schema_page("a{b 1")
