"""The pictures in the docs, and the drawing behind them."""

from __future__ import annotations

import gzip
import json
import math
import re
import struct
from pathlib import Path

import pytest
from dashboards.pictures import draw, history
from dashboards.pictures.answers import Series, Span

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SPAN = Span(0, 60, 15, {})


@pytest.mark.parametrize("name", ["layer", "overview", "probe", "provenance"])
def test_every_board_has_a_small_picture(name: str) -> None:
    data = (PICTURES / f"{name}.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(data) < 300_000
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height > 900) == (1440, True)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "percentunit", "25 %"),
        (0.0123, "s", "12.3 ms"),
        (2.5, "s", "2.5 s"),
        (12_500, "suffix: tok/s", "12.5 k tok/s"),
        (0.5, "reqps", "0.5 req/s"),
        (math.nan, "s", ""),
    ],
)
def test_numbers(value: float, unit: str, text: str) -> None:
    assert draw.number(value, unit) == text


def test_a_target_without_a_value_is_named_and_not_drawn() -> None:
    lines = [
        draw.Line("with", ((0, 1.0), (15, math.nan), (30, 2.0), (45, 3.0)), gone=False),
        draw.Line("triton has no preemptions: lost, why", ((60, math.nan),), gone=True),
    ]
    text = draw.graph(lines, "none", draw.Box(400, 200), SPAN, {"min": 0})
    assert text.count("<polyline") == 2  # one line with a gap in it
    assert "triton has no preemptions: lost, why" in text
    assert "nan" not in text.lower().replace("nanny", "")


def test_names_from_the_world_are_escaped() -> None:
    series = [Series({"target": "<b>x</b>", "state": "lost"}, ((0, 1.0),))]
    given = {"transformations": [{"id": "organize", "options": {"indexByName": {"target": 0}}}]}
    text = draw.table(given, series)
    assert "<b>x" not in text
    assert "&lt;b&gt;x" in text


def test_a_page_becomes_stamped_samples() -> None:
    page = '# HELP a b\na{b="c"} 1.0\nd 2.0\n'
    assert list(history.stamped(page, 7.5, "j")) == [
        'a{b="c",job="j",instance="j"} 1.0 7.500\n',
        'd{job="j",instance="j"} 2.0 7.500\n',
    ]


def test_the_captures_have_the_engines_view_of_both_probed_targets() -> None:
    """The probe's board draws client against engine: one without the other is half a picture."""
    seen: dict[str, set[str]] = {"client": set(), "engine": set()}
    for name in history.CAPTURED:
        with gzip.open(ROOT / "tests" / "dashboards" / "pages" / f"{name}.jsonl.gz", "rt") as handle:
            page = json.loads(handle.readlines()[-1])["page"]
        for side, family in (("client", "llm_probe_time_to_first_token"), ("engine", "llm_time_to_first_token")):
            counted = re.findall(rf'^{family}_seconds_count{{.*target="([^"]+)".*}} ([0-9.]+)$', page, re.MULTILINE)
            seen[side] |= {target for target, value in counted if float(value) > 0}
    assert seen["client"] == seen["engine"] == {"bare-vllm", "ray-serve"}
