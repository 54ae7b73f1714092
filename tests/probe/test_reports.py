"""Reports: what they must say, in every format, and that nothing in them is loaded or taken for markup."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from obs_exporter.probe.cli import main
from obs_exporter.probe.report import FORMATS, render, render_document
from obs_exporter.probe.report.charts import nice_step, svg
from obs_exporter.probe.report.document import Chart, Document, Line, Table, Text
from obs_exporter.probe.versions import engine_generation

CHROMIUM = shutil.which("chromium")
DATA = Path(__file__).parents[1] / "data" / "reference-study"


def level(slots: int, repeat: int = 0, **changes: Any) -> dict[str, Any]:
    numbers = {"n": 100, "mean": 0.1, "p50": 0.1, "p90": 0.2, "p95": 0.3, "p99": 0.4}
    return {
        "scenario": "short",
        "concurrency": slots,
        "rate": None,
        "repeat": repeat,
        "requests": 100,
        "good": 90,
        "goodput": 0.9,
        "errors": {"timeout": 2},
        "cancelled": 0,
        "output_tokens_per_s": 100.0 * slots,
        "token_source": {"usage": 100},
        "ttft_s": numbers | {"curve": [0.05, 0.1, 0.6]},
        "tpot_s": numbers,
        "itl_s": numbers,
        "e2e_s": numbers,
        "ambiguous_first_tokens": 0,
        "not_streamed": 0,
        "schedule": None,
        "server": None,
        "client_limited": False,
        "client": {"ttft_error_p99_s": 0.001, "limited": ""},
        "shape": {"waves": 1.56, "ceiling": 0.78, "steady": None},
        **changes,
    }


def result(*levels: dict[str, Any], name: str = "ray <b>", **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "target": {"name": name, "settings": {}},
        "slo": {"ttft_s": 0.5, "e2e_s": 10.0},
        "levels": list(levels),
        "notes": ["a | b"],
        "partial": False,
        **changes,
    }


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format_says_the_same(output_format: str) -> None:
    text = render(result(level(1), level(64), level(64, 1)), output_format)
    for words in ("90.0%", "6400.0", "0.3000", "1.56 waves", "78%", "timeout"):
        assert words in text
    assert text == render(result(level(64, 1), level(64), level(1)), output_format)


def test_a_limited_level_shows_no_number_of_the_server() -> None:
    limited = level(
        64, client_limited=True, client={"ttft_error_p99_s": 0.2, "limited": "the probe used 99% of a core"}
    )
    text = render(result(level(1), limited), "text")
    row = next(line for line in text.splitlines() if line.startswith("short c=64"))
    assert "6400" not in row
    assert "client-limited" in row
    assert "99% of a core" in text


def test_a_calibration_without_a_number_is_not_called_none() -> None:
    failed = level(8, client={"calibrated": True, "ttft_error_p99_s": None, "limited": "8 of 8 failed"})
    text = render(result(failed, level(64, client={"calibrated": False, "ttft_error_p99_s": None})), "text")
    rows = [line for line in text.splitlines() if line.startswith("short c=")]
    assert rows[0].endswith("calibration failed")
    assert rows[1].endswith("not calibrated")


def test_a_limited_level_is_marked_in_the_ttft_chart() -> None:
    limited = level(64, client_limited=True, client={"ttft_error_p99_s": 0.2, "limited": "slow"})
    text = render(result(level(1), limited), "html")
    assert "short c=64 (client-limited)" in text
    assert "short c=1 (client-limited)" not in text


def test_a_partial_result_says_so_first() -> None:
    lines = render(result(level(1), partial=True, partial_reason="stopped by a signal"), "text").splitlines()
    assert lines[3] == "PARTIAL RESULT: stopped by a signal"


def test_remarks() -> None:
    strange = level(2, ambiguous_first_tokens=3, not_streamed=4, token_source={"chunks": 5})
    text = render(result(strange), "text")
    assert "3 first tokens came merged" in text
    assert "4 answers were not streamed" in text
    assert "counted from chunks" in text
    assert "~0.4000" in text


def test_an_open_loop_is_shown_from_its_schedule() -> None:
    numbers = {"n": 400, "p50": 7.5, "p95": 8.5, "p99": 9.5}
    schedule = {
        "late_s": {"p99": 0.001},
        "ttft_from_schedule_s": numbers | {"curve": [7.0, 7.5, 9.9]},
        "e2e_from_schedule_s": numbers | {"p95": 12.25},
    }
    found = result(level(1, concurrency=None, rate=4.0, schedule=schedule))
    row = next(line for line in render(found, "text").splitlines() if line.startswith("short 4/s"))
    assert row.split()[6:9] == ["7.5000", "8.5000", "9.5000"]
    assert row.split()[10] == "12.250"
    assert "8" in re.findall(r'text-anchor="middle">([\d.]+)</text>', render(found, "html"))


def test_what_the_servers_page_does_not_tell_has_its_reason() -> None:
    signals = {
        "ttft": {"value": 0.4, "count": 900}, "queue_wait": {"value": None, "reason": "the page does not have it"},
        "kv_cache_usage": {"value": 0.5}, "preemptions": {"value": 0},
    }  # fmt: skip
    lost = {"value": None, "reason": "the engine's mean is higher", "warning": "others use it too"}
    side = {"signals": signals, "lost_s": lost, "samples": 3, "failed_samples": 1, "error": "timed out"}
    for output_format in FORMATS:
        text = render(result(level(1, server=side)), output_format).replace("&#x27;", "'")
        assert "engine queue wait not seen: the page does not have it" in text
        assert "time lost between not told: the engine's mean is higher" in text
        assert "others use it too" in text
        assert "1 of 4 looks at the page failed: timed out" in text


def test_a_result_with_nothing_is_no_zero() -> None:
    empty = level(
        2, goodput=None, good=0, requests=0, output_tokens_per_s=None, ttft_s={}, tpot_s={}, e2e_s={}, errors={}
    )
    text = render(result(empty), "text")
    row = next(line for line in text.splitlines() if line.startswith("short c=2"))
    assert row.split()[4:8] == ["-", "-", "-", "-"]


def test_the_servers_side() -> None:
    server = {
        "signals": {
            "ttft": {"value": 0.04},
            "queue_wait": {"value": None, "reason": "x"},
            "kv_cache_usage": {"value": 0.5},
            "preemptions": {"value": 0.0},
        },
        "lost_s": {"value": 0.06},
    }
    text = render(result(level(2, server=server)), "text")
    row = next(line for line in text.splitlines() if "not seen" in line)
    assert row.split()[2:] == ["0.1000", "0.0400", "0.0600", "not", "seen", "50.0%", "0"]


def test_html_is_one_file_of_sound_markup() -> None:
    page = render(result(level(1), level(64)), "html", result(level(1), level(64), name="bare"))
    assert "<b>" not in page
    assert "ray &lt;b&gt;" in page
    assert not re.search(r"(src|href|url\(|@import|<script)", page)
    for drawing in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(drawing)  # noqa: S314 - our own text
    assert page.count("<svg") == 4
    assert "bare, short" in page


def test_markdown_keeps_cells_apart() -> None:
    text = render_document(Document("t", (Table("x", ("a", "b"), (("p|q", "*r*"),)), Text(("<i>",)))), "markdown")
    assert r"| p\|q | \*r\* |" in text
    assert r"\<i\>" in text


def test_charts() -> None:
    drawing = svg(Chart("c", "x", "y", (Line("l", ((1.0, 0.0), (64.0, 10.0)), ((64.0, 9.0, 11.0),)),), log_x=True))
    assert "64" in drawing
    assert svg(Chart("c", "x", "y", (Line("l", ()),))) == "<p>nothing to draw</p>"
    assert "nan" not in svg(Chart("c", "x", "y", (Line("l", ((8.0, 0.0),)),)))
    assert [nice_step(span, 6) for span in (6, 7, 0.5, 1234)] == [1, 2, 0.1, 500]


def test_an_slo_far_from_every_ttft_leaves_the_curves_their_width() -> None:
    fast = level(1, ttft_s={"n": 3, "curve": [0.01, 0.02, 0.03]})
    page = render(result(fast), "html")
    assert "the SLO of 0.5 s is further right" in page
    assert 'class="mark"' not in page
    xs = [float(point.split(",")[0]) for point in re.findall(r'points="([^"]+)"', page)[-1].split()]
    assert max(xs) - min(xs) > 250
    near = render(result(level(1, ttft_s={"n": 3, "curve": [0.1, 0.2, 0.3]})), "html")
    assert 'class="mark"' in near
    assert "further right" not in near


def test_a_long_name_in_a_legend_is_cut_in_the_middle() -> None:
    name = "begin" + "x" * 200 + "end"
    drawing = ET.fromstring(svg(Chart("c", "x", "y", (Line(name, ((1.0, 1.0), (2.0, 2.0))),))))  # noqa: S314
    shown = [text for text in drawing.iter("text") if list(text)]
    assert [(text[0].text, len(text[0].tail or "")) for text in shown] == [(name, 63)]
    assert (shown[0][0].tail or "").startswith("beginx")
    assert (shown[0][0].tail or "").endswith("xend")


@pytest.mark.parametrize(
    ("stack", "stack_version", "engine", "generation"),
    [
        ("triton", "24.12", "0.5.5", "V0"),
        ("triton", "25.04", "0.8.1", "V0"),
        ("triton", "25.09", "0.10.1.1", "V0"),
        ("triton", "25.10", "0.11.0", "V1"),
        ("ray-serve", "2.44.1", "0.7.2", "V0"),
        ("kserve", "0.20.0", "0.20.0", "V1"),
        (None, None, "0.9.2", None),
        (None, None, None, None),
        (None, None, "0.11.0rc1", "V1"),
        (None, None, "0.7.3.post1", "V0"),
    ],
)
def test_engine_generations(
    stack: str | None, stack_version: str | None, engine: str | None, generation: str | None
) -> None:
    found, why = engine_generation(stack, stack_version, engine)
    assert found == generation
    assert why


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def study(folder: Path, stack: str, side: str) -> str:
    output = str(folder / f"{stack}-{side}.json")
    done = invoke(
        "import",
        str(DATA / "throughput.csv"),
        "--where",
        f"stack={stack}",
        "--map",
        "concurrency=concurrency",
        "--map",
        f"output_tokens_per_s={side}_tokens_per_s",
        "--map",
        "engine_version=engine_version",
        "--set",
        f"name={side}",
        "--output",
        output,
    )
    assert done.exit_code == 0, done.output
    return output


def test_compare_command(tmp_path: Path) -> None:
    sides = study(tmp_path, "ray-serve", "bare"), study(tmp_path, "ray-serve", "stack")
    done = invoke("compare", *sides, "--noise", "64:0.10,32:0.013")
    assert done.exit_code == 0
    assert "-70.0%" in done.output
    assert "grows with load" in done.output
    assert "one measurement: no interval" in done.output
    assert invoke("compare", *sides, "--noise", "64:0.10", "--fail-on", "slower").exit_code == 1
    assert invoke("compare", *sides, "--fail-on", "slower").exit_code == 0
    assert invoke("compare", *sides, "--fail-on", "undecided").exit_code == 1
    found = json.loads(invoke("compare", *sides, "--noise", "64:0.10", "--format", "json").output)
    assert found["findings"][-1]["verdict"] == "slower"
    page = tmp_path / "compare.html"
    assert invoke("compare", *sides, "--format", "html", "--output", str(page)).exit_code == 0
    assert "<svg" in page.read_text()


def test_compare_refuses_other_versions(tmp_path: Path) -> None:
    sides = study(tmp_path, "triton", "bare"), study(tmp_path, "kserve", "stack")
    done = invoke("compare", *sides)
    assert done.exit_code == 2
    assert "engine version: baseline 0.5.5, stack 0.20.0" in done.output
    assert "--allow-version-mismatch" in done.output
    allowed = invoke("compare", *sides, "--allow-version-mismatch")
    assert allowed.exit_code == 0
    assert "cannot be said" in allowed.output


def test_diagnose_command(tmp_path: Path) -> None:
    bare, stack = study(tmp_path, "ray-serve", "bare"), study(tmp_path, "ray-serve", "stack")
    picks = ["--bare", f"{bare}@32", f"{bare}@64", "--stack", f"{stack}@32", f"{stack}@64"]
    done = invoke("diagnose", *picks)
    assert done.exit_code == 0
    assert "layer-bound" in done.output
    assert invoke("diagnose", *picks, "--fail-on", "layer-bound").exit_code == 1
    assert json.loads(invoke("diagnose", *picks, "--format", "json").output)["levels"][0]["where"] == "layer-bound"
    assert invoke("diagnose", "--bare", f"{bare}@5", bare, "--stack", stack, stack).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "{d}/nope.json", "{d}/nope.json"], "cannot be read"),
        (["compare", "{d}", "{d}"], "no result file"),
        (["compare", "{bare}", "{bare}", "--noise", "x"], "CONCURRENCY:SHARE"),
        (["compare", "{bare}", "{bare}", "--noise", "8:2"], "between 0 and 1"),
        (["compare", "{bare}", "{bare}", "--noise", "speed=8:0.1"], "unknown number"),
        (["report", "{d}/bad.txt"], "not a result"),
        (["import", "{csv}", "--map", "speed=x", "--output", "{d}/o.json"], "unknown field"),
        (["import", "{csv}", "--map", "concurrency=x", "--output", "{d}/o.json"], "no column x"),
        (["import", "{csv}", "--map", "concurrency", "--output", "{d}/o.json"], "NAME=VALUE"),
        (["import", "{csv}", "--map", "concurrency=stack", "--output", "{d}/o.json"], "not a number"),
        (["import", "{csv}", "--where", "stack=x", "--output", "{d}/o.json"], "no row"),
        (
            ["import", "{csv}", "--map", "name=stack", "--map", "concurrency=concurrency", "--output", "{d}/o.json"],
            "narrow the rows",
        ),
        (
            ["import", "{csv}", "--map", "name=stack", "--where", "stack=triton", "--output", "{d}/o.json"],
            "neither concurrency",
        ),
    ],
)
def test_wrong_input_is_told(tmp_path: Path, arguments: list[str], words: str) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "bad.txt").write_text("[]")
    places = {"d": str(folder), "csv": str(DATA / "throughput.csv"), "bare": study(tmp_path, "triton", "bare")}
    done = invoke(*(argument.format(**places) for argument in arguments))
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_scenarios_command() -> None:
    assert "shared-prefix" in invoke("scenarios").output


@pytest.mark.skipif(not CHROMIUM and not os.environ.get("CI"), reason="no chromium here; Debian's package has it")
def test_a_wide_table_fits_a_laptops_window(tmp_path: Path) -> None:
    assert CHROMIUM, "chromium is missing"
    side = {"signals": {"ttft": {"value": 0.0912}}, "lost_s": {"value": 0.0088}}
    repeats = [level(256, n, output_tokens_per_s=12345.6 + 1111.1 * n, server=side) for n in range(3)]
    limited = level(64, client_limited=True, client={"ttft_error_p99_s": 0.2, "limited": "slow"})
    found = result(*repeats, limited)
    for one in found["levels"]:
        one["scenario"] = "shared-prefix"
    widths = "[...document.querySelectorAll('.wide')].map(e => e.scrollWidth - e.clientWidth)"
    seen = in_browser(tmp_path, render(found, "html"), 1200, f"Math.max(...{widths})")
    assert int(seen[0]) <= 0


@pytest.mark.skipif(not CHROMIUM and not os.environ.get("CI"), reason="no chromium here; Debian's package has it")
@pytest.mark.parametrize("width", [390, 1300])
def test_nothing_sticks_out_in_a_browser(tmp_path: Path, width: int) -> None:
    assert CHROMIUM, "chromium is missing"
    page = render(result(level(1), level(8), level(64)), "html", result(level(1), level(64), name="bare"))
    seen = in_browser(
        tmp_path,
        page,
        width,
        "document.documentElement.scrollWidth",
        "document.querySelectorAll('svg polyline').length",
    )
    assert int(seen[0]) <= width
    assert int(seen[1]) == 9


def in_browser(folder: Path, page: str, width: int, *expressions: str) -> list[str]:
    """Show a page in a window of this width; return what the expressions are there."""
    script = (
        "<script>addEventListener('load', () => parent.postMessage("
        f"[{', '.join(expressions)}].join(' '), '*'))</script>"
    )
    outer = folder / "outer.html"
    outer.write_text(
        "<!doctype html><body><script>addEventListener('message', e => document.body.dataset.seen = e.data)</script>"
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{html.escape(page + script)}"></iframe>'
    )
    assert CHROMIUM
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run([CHROMIUM, *flags, profile, outer.as_uri()], capture_output=True, text=True, timeout=60)
    seen = re.search(r'data-seen="([^"]+)"', done.stdout)
    assert seen, done.stdout[-500:] + done.stderr[-500:]
    return seen[1].split()
