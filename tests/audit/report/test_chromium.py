"""The HTML report in a real browser: nothing sticks out on a phone, dark is dark, and paper gets pages."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from obs_audit.matrix import page as matrix_page
from obs_audit.report import rendered
from obs_audit.verdict import Report

CHROMIUM = shutil.which("chromium")

# Where CI says so, a missing Chromium is a failure, not a skip.
pytestmark = pytest.mark.skipif(
    not CHROMIUM and not os.environ.get("CI"), reason="no chromium here; Debian's package has it"
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
MEASURE = (
    "<script>addEventListener('load', () => parent.postMessage("
    "[document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor].join(';'), '*'))"
    "</script>"
)
FRAME = (
    "<!doctype html><body><script>addEventListener('message', e => document.body.dataset.seen = e.data)</script>"
    '<iframe width="{width}" height="900" style="border:0" srcdoc="{page}"></iframe>'
)


def chromium(tmp_path: Path, *flags: str) -> str:
    assert CHROMIUM, "chromium is missing"
    profile = tmp_path / "profile"
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags], capture_output=True, text=True, timeout=90, check=True
    )
    shutil.rmtree(profile, ignore_errors=True)
    return done.stdout


def measured(tmp_path: Path, text: str, width: int, *, dark: bool = False) -> tuple[int, int, str]:
    """The page's scroll width, its window's width and its background, in a frame of a width."""
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME.format(width=width, page=html.escape(text + MEASURE)), encoding="utf-8")
    scheme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    dom = chromium(
        tmp_path, *scheme, "--window-size=1400,1000", "--virtual-time-budget=3000", "--dump-dom", outer.as_uri()
    )
    match = re.search(r'data-seen="(\d+);(\d+);([^"]*)"', dom)
    assert match, dom[:500]
    return int(match[1]), int(match[2]), match[3]


@pytest.mark.parametrize("report", ["baseline"], indirect=True)
@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_sticks_out(width: int, report: Report, tmp_path: Path) -> None:
    scroll, window, _ = measured(tmp_path, rendered(report, "html"), width)
    assert window == width
    assert scroll <= window


def test_the_matrix_scrolls_inside_itself_on_a_phone(tmp_path: Path) -> None:
    scroll, window, _ = measured(tmp_path, matrix_page(["vllm", "ray-serve"]), 360)
    assert scroll <= window


@pytest.mark.parametrize("report", ["dark"], indirect=True)
def test_dark_is_dark_and_light_is_light(report: Report, tmp_path: Path) -> None:
    text = rendered(report, "html")
    light, dark = (measured(tmp_path, text, 800, dark=mode)[2] for mode in (False, True))
    assert light == "rgb(255, 255, 255)"
    assert max(int(part) for part in re.findall(r"\d+", dark)) < 60


@pytest.mark.parametrize("report", ["baseline"], indirect=True)
def test_it_prints_and_can_be_looked_at(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(rendered(report, "html"), encoding="utf-8")
    chromium(tmp_path, f"--print-to-pdf={tmp_path / 'report.pdf'}", page.as_uri())
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 2
    chromium(tmp_path, f"--screenshot={tmp_path / 'report.png'}", "--window-size=1200,2000", page.as_uri())
    picture = (tmp_path / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000
