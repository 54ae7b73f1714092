"""Make the pictures: ``python -m dashboards.pictures docs/pictures``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from dashboards.pictures import history
from dashboards.pictures.answers import MissingProgramError, Span, program, prometheus_over
from dashboards.pictures.page import WIDTH, page

BOARDS = Path(__file__).parents[1] / "generated"
ALL = {"$stack": ".*", "$target": ".*", "$model": ".*", "$probed": ".*", "$baseline": "bare-vllm"}
LONG = Span(
    history.START, history.START + history.LENGTH, history.STEP,
    {**ALL, "$__rate_interval": "1m", "$__range": f"{history.LENGTH}s"},
)  # fmt: skip
SHORT = Span(history.PROBE_START, history.PROBE_START + 21, 0.5, {**ALL, "$__rate_interval": "6s", "$__range": "21s"})
NOTE = (
    "Drawn from a real Prometheus' answers to this board's own queries (not a Grafana screenshot). "
    "Four simulated engines under a load that grows and falls, one Ray with its metrics off, one target that is gone."
)
PROBE_NOTE = (
    "Drawn from a real Prometheus' answers to this board's own queries (not a Grafana screenshot). "
    "A capture of obs-probe run against two simulated servers of 4 slots (concurrency 2, then 8), and of the exporter "
    "that looked at them."
)
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-lcd-text",
)  # fmt: skip


def shoot(source: Path, target: Path, height: int, profile: Path) -> None:
    """Take a picture of a page with headless Chromium."""
    subprocess.run(
        [
            program("chromium", "chromium-browser"), *CHROMIUM, f"--user-data-dir={profile}",
            f"--window-size={WIDTH},{height}", f"--screenshot={target}", source.as_uri(),
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    # A palette of 64 colours is all that such a page has; it makes the file a third.
    quantise = [program("pngquant"), "--force", "--speed", "1", "--nofs", "--output", str(target), "64", str(target)]
    subprocess.run(quantise, check=True, capture_output=True, timeout=60)


def main(folder: Path) -> int:
    """Make one picture a board. Returns the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with prometheus_over(history.exposition(), work) as prometheus:
            for path in sorted(BOARDS.glob("*.json")):
                probe = path.stem == "probe"
                board = json.loads(path.read_text(encoding="utf-8"))
                text, height = page(board, prometheus, SHORT if probe else LONG, PROBE_NOTE if probe else NOTE)
                source = work / f"{path.stem}.html"
                source.write_text(text, encoding="utf-8")
                shoot(source, (folder / f"{path.stem}.png").absolute(), height, work / f"profile-{path.stem}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m dashboards.pictures FOLDER\n")
        sys.exit(2)
    try:
        sys.exit(main(Path(sys.argv[1])))
    except MissingProgramError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
