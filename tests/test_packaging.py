"""The wheel has exactly our two packages, their data, and the three commands; commands start in a blink of imports."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
HEAVY = ("requests", "prometheus_client", "yaml", "packaging", "kubernetes", "pynvml", "jinja2", "rich.table")


def test_the_wheel_holds_our_two_packages_and_their_data(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert tops == {"obs_exporter", "obs_audit"}
    assert "obs_exporter/stacks/data/vllm_catalogue.json" in names
    assert {"obs_exporter/py.typed", "obs_audit/py.typed"} <= set(names)


@pytest.mark.parametrize("command", ["obs-exporter", "obs-audit", "obs-probe"])
def test_help_loads_nothing_heavy(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", BIN / command, "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not imported & set(HEAVY)
    assert "Usage:" in done.stdout


def test_version_is_the_same_everywhere() -> None:
    version = re.search(r'"(.+)"', (ROOT / "exporter/obs_exporter/_version.py").read_text().split("__version__")[1])
    assert version
    for command in ("obs-exporter", "obs-audit", "obs-probe"):
        done = subprocess.run([BIN / command, "--version"], capture_output=True, text=True, check=True)
        assert version.group(1) in done.stdout
