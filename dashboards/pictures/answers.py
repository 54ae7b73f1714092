"""A Prometheus over the made history, and the answers to a panel's queries."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class MissingProgramError(RuntimeError):
    """A program that is needed is not installed."""


def program(*names: str) -> str:
    """Return the path of the first of these programs that is installed. Raises ``MissingProgramError``."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise MissingProgramError(
        f"none of {', '.join(names)} is installed: Debian's packages prometheus, chromium and pngquant have them"
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A time range with its step and the values of Grafana's variables, in seconds."""

    start: float
    end: float
    step: float
    variables: dict[str, str]

    def filled(self, expression: str) -> str:
        """Put the values in, longest name first."""
        for name, value in sorted(self.variables.items(), reverse=True):
            expression = expression.replace(name, value)
        return expression


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer."""

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]


class Prometheus:
    """Asks a running server."""

    def __init__(self, url: str) -> None:
        """Remember where it answers."""
        self.url = url

    def over(self, expression: str, span: Span) -> list[Series]:
        """Return a query's series over a range."""
        parameters = {"query": span.filled(expression), "start": span.start, "end": span.end, "step": span.step}
        return [_series(row, row["values"]) for row in self._get("query_range", parameters)["result"]]

    def at_end(self, expression: str, span: Span) -> list[Series]:
        """Return a query's series at the end of a range."""
        found = self._get("query", {"query": span.filled(expression), "time": span.end})["result"]
        return [_series(row, [row["value"]]) for row in found]

    def ready(self) -> bool:
        """Whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2):  # noqa: S310 - our own server
                return True
        except OSError:
            return False

    def _get(self, path: str, parameters: dict[str, Any]) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 - our own server
            return json.load(response)["data"]


def _series(row: Any, values: Any) -> Series:
    return Series(row["metric"], tuple((float(moment), float(value)) for moment, value in values))


@contextmanager
def prometheus_over(lines: Iterable[str], folder: Path) -> Iterator[Prometheus]:
    """Write lines of OpenMetrics into blocks and serve them."""
    source = folder / "history.om"
    with source.open("w", encoding="utf-8") as handle:
        handle.writelines(lines)
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text("global: {scrape_interval: 15s}\n", encoding="utf-8")
    process = subprocess.Popen(
        [
            program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
            "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 60
        while not server.ready():
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError("prometheus did not start over the made history")
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        process.wait(20)
