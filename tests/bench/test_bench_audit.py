"""Wall time of an audit as a ratio to ``python -c "import click"``, side by side in one run; ``make bench`` prints it.

The limits leave room for a busy machine; on an idle one the ratios were 3.8 and 0.4.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

DATA = Path(__file__).parents[1] / "data"
ROUNDS = 9
PAPER_LIMIT = 7.0
"""A paper audit may take this many times what importing click takes (0.28 s where that takes 0.04 s)."""
PAGE_LIMIT = 1.5
"""A page of 0.9 MB may add this many times what importing click takes (0.06 s where that takes 0.04 s)."""


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _fastest(commands: dict[str, list[str]]) -> dict[str, float]:
    """The fastest of several rounds of each: every round runs all of them, so that a busy machine hurts all alike."""
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(ROUNDS):
        for name, command in commands.items():
            best[name] = min(best[name], _seconds(command))
    return best


def test_an_audit_starts_and_ends_in_a_blink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.txt"
    body = gzip.decompress((DATA / "ray/2.60.0-llm-vllm0.29.0/during.txt.gz").read_bytes())
    page.write_bytes(body)
    audit = [sys.executable, "-c", "from obs_audit.cli import main; main()", "--stack", "ray-serve"]
    best = _fastest({
        "click": [sys.executable, "-c", "import click"],
        "paper": [*audit, "--stack-version", "2.60.0"],
        "page": [*audit, "--file", str(page)],
    })  # fmt: skip
    paper, added = best["paper"] / best["click"], (best["page"] - best["paper"]) / best["click"]
    with capsys.disabled():
        print(
            f"\nclick {best['click'] * 1e3:.0f} ms; paper audit {best['paper'] * 1e3:.0f} ms, ratio {paper:.2f}; "
            f"a page of {len(body)} bytes adds {(best['page'] - best['paper']) * 1e3:.0f} ms, ratio {added:.2f}"
        )
    assert paper <= PAPER_LIMIT
    assert added <= PAGE_LIMIT
