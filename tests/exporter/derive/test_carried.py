"""Gauges that come and go: carried on with their age, then stale; and other states are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from obs_exporter.derive.model import AGE, Settings
from obs_exporter.schema import State

VERSION = b'Version="2.55.1"'


@pytest.fixture
def ray_255(data: Callable[[str], bytes]) -> bytes:
    """A page of Ray 2.60 as 2.55.1 would sign it."""
    return data("ray/2.60.0-llm-vllm0.29.0/during.txt").replace(b'Version="2.60.0"', VERSION)


def cleared(page: bytes) -> bytes:
    """The same page after somebody else's scrape: the engine's gauges are gone."""
    gauges = (b"ray_vllm_num_requests", b"ray_vllm_kv_cache_usage_perc")
    return b"\n".join(line for line in page.split(b"\n") if not line.startswith(gauges))


def test_a_cleared_gauge_goes_on_with_its_age(ray_255: bytes, watch: Callable[..., Any]) -> None:
    target = watch("ray-serve")
    seen = target.see(ray_255, 100.0).reading.answer("requests_waiting")
    outcome = target.see(cleared(ray_255), 112.0)
    assert outcome.reading.answer("requests_waiting") == seen
    assert seen.state.publishes
    ages = {extra.signal: extra.value for extra in outcome.extras if extra.kind == AGE}
    assert ages["requests_waiting"] == 12.0


def test_too_old_a_gauge_is_stale(ray_255: bytes, watch: Callable[..., Any]) -> None:
    target = watch("ray-serve", settings=Settings(stale_after=30))
    target.see(ray_255, 100.0)
    answer = target.see(cleared(ray_255), 131.0).reading.answer("requests_waiting")
    assert (answer.state, answer.series) == (State.STALE, ())


@pytest.mark.parametrize("jump", [-50.0, 5000.0])
def test_a_clock_that_jumps_makes_it_stale_not_wrong(ray_255: bytes, watch: Callable[..., Any], jump: float) -> None:
    target = watch("ray-serve")
    target.see(ray_255, 100.0)
    assert target.see(cleared(ray_255), 100.0 + jump).reading.answer("requests_waiting").state is State.STALE


def test_from_2_57_on_a_gauge_that_vanishes_is_idle(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    page = data("ray/2.60.0-llm-vllm0.29.0/during.txt")
    target = watch("ray-serve")
    target.see(page, 100.0)
    answer = target.see(cleared(page), 112.0).reading.answer("requests_waiting")
    assert (answer.state, answer.series) == (State.IDLE, ())


def test_the_page_itself_says_that_a_scrape_takes_values_away(ray_255: bytes, watch: Callable[..., Any]) -> None:
    codes = [oddity.code for oddity in watch("ray-serve").see(ray_255, 0.0).reading.oddities]
    assert "destructive_scrape" in codes
