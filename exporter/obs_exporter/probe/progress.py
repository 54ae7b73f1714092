"""Tells a person how a run goes, on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from obs_exporter.probe.calibrate import Calibration
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.load import Level
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.runner import Observer

if TYPE_CHECKING:
    from rich.progress import Progress

_REFRESH_S = 0.25


def calibration_line(found: Calibration) -> str:
    """Return one line about a calibration."""
    load = f"concurrency {found.concurrency}" if found.concurrency is not None else f"rate {found.rate:g}/s"
    if over := [name for name, used in (("TLS", found.tls), ("HTTP/2", found.http2)) if used]:
        load += f" over {' and '.join(over)}"
    line = (
        f"calibration at {load}: TTFT error p50 {found.ttft_error_p50_s * 1e3:.2f} ms,"
        f" p99 {found.ttft_error_p99_s * 1e3:.2f} ms, {found.cpu_s * 1e3:.2f} ms CPU a request"
    )
    return f"{line}: CLIENT LIMITED: {found.limited}" if found.limited else line


def level_line(level: Level, summary: dict[str, Any]) -> str:
    """Return one line about a level that has ended."""
    goodput = "-" if summary["goodput"] is None else f"{summary['goodput']:.1%}"
    speed = summary["output_tokens_per_s"]
    ttft = summary["ttft_s"]["p95"]
    parts = [
        f"{level.name}, repeat {summary['repeat'] + 1}: {summary['requests']} requests, goodput {goodput}",
        f"{speed:.1f} tokens/s" if speed is not None else "no throughput",
        f"TTFT p95 {ttft:.4f} s" if ttft is not None else "no TTFT",
    ]
    if summary["errors"]:
        parts.append("failed: " + ", ".join(f"{kind} {count}" for kind, count in summary["errors"].items()))
    if summary["client_limited"]:
        parts.append(f"CLIENT LIMITED: {summary['client']['limited']}")
    return ", ".join(parts)


class PlainProgress(Observer):
    """One line a calibration and a level."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def calibrated(self, calibration: Calibration) -> None:
        """Write the line of a calibration."""
        self._say(calibration_line(calibration))

    def level_ended(self, level: Level, summary: dict[str, Any]) -> None:
        """Write the line of a level."""
        self._say(level_line(level, summary))

    def _say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Leave nothing behind."""


class BarProgress(PlainProgress):
    """The same lines, and under them a bar that is redrawn four times a second at most, in this thread."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[flight]}"),
        )
        self._bar: Progress = Progress(*columns, console=Console(file=stream), auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=None, flight="")
        self._bar.start()
        self._done = 0
        self._next = 0.0
        self._in_flight: Callable[[], int] = lambda: 0

    def level_started(self, level: Level, repeat: int, in_flight: Callable[[], int], _lag: LagHistogram) -> None:
        """Begin a new bar."""
        self._done = 0
        self._in_flight = in_flight
        self._bar.reset(self._task, total=level.requests, description=f"{level.name}, repeat {repeat + 1}", flight="")

    def recorded(self, _record: Record) -> None:
        """Count one request, and redraw when it is time."""
        self._done += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH_S
            self._bar.update(self._task, completed=self._done, flight=f"{self._in_flight()} in flight", refresh=True)

    def _say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.stop()


class SharedProgress:
    """A run in several processes: a line when their first record of a level comes. Gets their records in any order."""

    def __init__(self, stream: IO[str], processes: int) -> None:
        self._stream = stream
        self._processes = processes
        self._begun: set[tuple[str, int | None, float | None, int]] = set()
        self._ended = 0

    def recorded(self, record: Record) -> None:
        """Take one finished request."""
        place = (record.scenario, record.concurrency, record.rate, record.repeat)
        if place not in self._begun:
            self._begun.add(place)
            name = Level(record.scenario, record.concurrency, record.rate, None, None).name
            self._stream.write(
                f"{name}, repeat {record.repeat + 1}: runs in {self._processes} processes"
                f" ({self._ended} requests ended so far)\n"
            )
            self._stream.flush()
        self._ended += 1


def progress_for(stream: IO[str]) -> PlainProgress:
    """Return the progress that suits the stream."""
    return BarProgress(stream) if stream.isatty() else PlainProgress(stream)
