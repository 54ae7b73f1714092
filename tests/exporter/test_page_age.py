"""A page that may not be asked as often as we are: what it showed goes on with its age, and not beyond its bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from obs_exporter.config import Target
from obs_exporter.derive.carried import aged
from obs_exporter.derive.model import AGE, LOWER, UPPER, Extra, Settings
from obs_exporter.look import Looker, read_body
from obs_exporter.schema import State
from obs_exporter.sources.scrape import Access
from obs_exporter.stacks import Claims


def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Send a page."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.parametrize(("bound", "fresh"), [(30.0, (True, True, True, True)), (5.0, (True, True, False, True))])
def test_what_a_page_that_waits_shows_ages_to_the_bound(
    bound: float, fresh: tuple[bool, ...], serve: Callable[..., Any], page: Callable[[str], bytes]
) -> None:
    """The page is asked at 0 and at 10 s, and shows its gauges each time."""
    body = page("ray/2.60.0-llm-vllm0.29.0/during").replace(b'Version="2.60.0"', b'Version="2.55.1"')
    target = Target(
        "r", "ray-serve", Access(serve(lambda handler: answer(handler, body)).url), settings=Settings(stale_after=bound)
    )
    now = [100.0]
    with closing(Looker(target, lambda: now[0])) as looker:
        states = []
        for now[0] in (100.0, 104.9, 109.2, 110.5):
            look = looker.look()
            states.append(look.reading.answer("requests_running").state.publishes)
            assert look.reading.answer("generation_tokens").state.publishes
    assert tuple(states) == fresh


def test_a_gauge_that_is_carried_on_is_stale_by_its_own_age(
    serve: Callable[..., Any], page: Callable[[str], bytes]
) -> None:
    """Its gauges were on the page at 0 s only; at 28 s the page is 7 s old and the value 28, at 30.5 too old."""
    body = page("ray/2.60.0-llm-vllm0.29.0/during").replace(b'Version="2.60.0"', b'Version="2.55.1"')
    gone = b"\n".join(line for line in body.split(b"\n") if not line.startswith(b"ray_vllm_num_requests_running"))
    now, shown = [100.0], [body]
    target = Target("r", "ray-serve", Access(serve(lambda handler: answer(handler, shown[0])).url))
    with closing(Looker(target, lambda: now[0])) as looker:
        found = []
        for now[0], shown[0] in ((100.0, body), (111.0, gone), (121.0, gone), (128.0, gone), (130.5, gone)):
            look = looker.look()
            running = look.reading.answer("requests_running")
            ages = [one.value for one in look.extras if (one.signal, one.kind) == ("requests_running", AGE)]
            found.append((ages, running.state.publishes, bool(running.series)))
    assert [one for one in found if one[1] != one[2]] == []
    assert found[3:] == [([28.0], True, True), ([30.5], False, False)]


def test_what_a_value_that_is_stale_had_for_bounds_goes_with_it(page: Callable[[str], bytes]) -> None:
    reading = read_body("vllm", page("vllm/0.32.0-real/during"), Claims())
    extras = [Extra("kv_cache_usage", kind, 0.5) for kind in (LOWER, UPPER)] + [Extra("kv_cache_usage", AGE, 1.0)]
    same, kept = aged(reading, extras, 29.0, 30.0)
    assert (same, [one.value for one in kept]) == (reading, [0.5, 0.5, 30.0])
    later, kept = aged(reading, extras, 29.5, 30.0)
    assert [(one.kind, one.value) for one in kept] == [(AGE, 30.5)]
    assert later.answer("kv_cache_usage").state is State.STALE
    assert later.answer("requests_running") == reading.answer("requests_running")


def test_what_an_engine_sets_at_its_start_does_not_age(page: Callable[[str], bytes]) -> None:
    reading = read_body("vllm", page("vllm/0.32.0-real/during"), Claims())
    later, _ = aged(reading, [], 3600.0, 30.0)
    assert later.answer("kv_cache_capacity") == reading.answer("kv_cache_capacity")
    assert reading.answer("kv_cache_capacity").state.publishes
    assert later.answer("requests_running").series == ()
