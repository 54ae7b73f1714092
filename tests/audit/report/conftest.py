"""Reports of every kind of verdict, for the tests of the formats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from obs_audit.evidence import Bundle, Given, Piece, Role, interpret
from obs_audit.profiles import profile
from obs_audit.verdict import Asked, Report, judge
from obs_audit.waivers import Waiver

NASTY = (
    '# TYPE vllm:num_requests_running gauge\n'
    'vllm:num_requests_running{model_name="<script>alert(1)</script> | `x` ]]>"} 1\n'
    '# TYPE vllm:<b>x</b> gauge\nvllm:<b>x</b> 1\n'
    '# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 7\n'
)  # fmt: skip
WAIVER = Waiver("side port <i>next</i> month & later", date(2030, 1, 1), signal="preemptions")

CASES = ("healthy", "paper", "dark", "unreadable", "nasty", "waived", "profile", "baseline")


@pytest.fixture
def report(request: pytest.FixtureRequest, page_of: Callable[[str], bytes]) -> Report:
    """The report of the case that a test names by indirect parameter."""
    case = request.param
    pieces: list[Piece] = []
    given, asked = Given("vllm"), Asked(today=date(2026, 12, 1))
    if case == "healthy":
        pieces = [Piece(Role.PAGE, "a b&<c>.txt", page_of("vllm/0.32.0-real-preempting/after.txt"))]
    elif case == "paper":
        given = Given("triton", "24.12")
    elif case == "dark":
        given = Given("ray-serve", "2.50.1")
    elif case == "unreadable":
        pieces = [Piece(Role.PAGE, "http://h/metrics", error="http://h/metrics refused the connection")]
    elif case == "nasty":
        pieces = [Piece(Role.PAGE, "page\x07.txt", NASTY.encode())]
    elif case == "waived":
        given = Given("triton", "24.12")
        asked = Asked(fail_on="any", waivers=(WAIVER,), today=date(2026, 12, 1))
    elif case == "profile":
        given, asked = Given("ray-serve", "2.60.0"), Asked(profile=profile("gateway"), today=date(2026, 12, 1))
    elif case == "baseline":
        given = Given("ray-serve")
        pieces = [
            Piece(Role.PAGE, "ray.txt", page_of("ray/2.60.0-llm-vllm0.29.0/during.txt")),
            Piece(Role.BASELINE, "bare.txt", page_of("ray/2.60.0-llm-direct-streaming-metrics-off/port8000.txt")),
        ]
    return judge(interpret(Bundle(given, tuple(pieces))), asked)
