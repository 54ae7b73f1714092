"""The page for people says what is special about a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from obs_exporter.collector import TargetCollector
from obs_exporter.config import Target
from obs_exporter.server import index_page
from obs_exporter.sources.scrape import Access


@pytest.mark.parametrize(("version", "said"), [("2.55.1", True), ("2.60.0", False)])
def test_it_says_that_a_page_is_asked_seldom_and_why(
    serve: Callable[..., Any], page: Callable[[str], bytes], version: str, said: bool
) -> None:
    body = page("ray/2.60.0-llm-vllm0.29.0/during").replace(b'Version="2.60.0"', f'Version="{version}"'.encode())

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    collector = TargetCollector([Target("r", "ray-serve", Access(serve(answer).url))])
    collector.look(9.0)
    text = index_page(collector)
    collector.close()
    assert ("asked every 10 s at most" in text and "blanks every other scraper" in text) is said
