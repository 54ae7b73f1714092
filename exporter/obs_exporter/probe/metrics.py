"""The probe's own metrics, live while it runs. Base units, ratios 0..1, counters end in _total."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, write_to_textfile
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from obs_exporter._version import __version__
from obs_exporter.probe.calibrate import Calibration
from obs_exporter.probe.lag import EDGES_S, LagHistogram
from obs_exporter.probe.load import Level
from obs_exporter.probe.outcome import FAILURES, SLO, Outcome, Record
from obs_exporter.probe.runner import Observer

_LOAD = ("target", "scenario", "concurrency", "rate")
_TTFT_EDGES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
_TPOT_EDGES = (0.002, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_E2E_EDGES = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0)


def edges_with(edges: Iterable[float], *limits: float | None) -> tuple[float, ...]:
    """Return histogram edges with every given SLO among them, so that goodput can be recomputed from buckets."""
    return tuple(sorted({*edges, *(limit for limit in limits if limit is not None)}))


def load_labels(level: Level) -> tuple[str, str, str]:
    """Return the labels scenario, concurrency and rate; what does not apply is the empty string."""
    concurrency = "" if level.concurrency is None else str(level.concurrency)
    return level.scenario, concurrency, "" if level.rate is None else f"{level.rate:g}"


class ProbeMetrics(Observer):
    """All families of one process, in a registry of their own; one instance may serve several targets."""

    def __init__(self, slo: SLO) -> None:
        _hide_created()  # _created doubles every series and says nothing here
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, ...], list[int]] = {}
        self._lags = _LagCollector()
        self.registry.register(self._lags)
        self._make_histograms(slo)
        self._make_counts()
        self._make_state()

    def _make_histograms(self, slo: SLO) -> None:
        def histogram(name: str, text: str, edges: tuple[float, ...]) -> Histogram:
            return Histogram(f"llm_probe_{name}_seconds", text, _LOAD, registry=self.registry, buckets=edges)

        self.ttft = histogram(
            "time_to_first_token", "Request sent to first token, successful requests (TTFT).",
            edges_with(_TTFT_EDGES, slo.ttft_s),
        )  # fmt: skip
        self.tpot = histogram(
            "time_per_output_token", "Mean time per output token after the first, one a request (TPOT).",
            edges_with(_TPOT_EDGES, slo.tpot_s),
        )  # fmt: skip
        self.e2e = histogram(
            "request_duration", "Request sent to end of body, successful requests (E2E).",
            edges_with(_E2E_EDGES, slo.e2e_s),
        )  # fmt: skip
        self.queue = histogram(
            "engine_queue", "The engine's own queue wait as its answers tell it (vLLM --enable-per-request-metrics).",
            edges_with(_TTFT_EDGES, slo.ttft_s),
        )  # fmt: skip

    def _make_counts(self) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"llm_probe_{name}", text, (*_LOAD, *labels), registry=self.registry)

        self.requests = counter(
            "requests", "Requests sent and ended, by outcome; all are in goodput's denominator.", "outcome"
        )
        self.good = counter("good_requests", "Successful requests that met every SLO.")
        self.cancelled = counter("cancelled_requests", "Requests cut by the probe's own stop: in no denominator.")
        self.tokens = counter(
            "output_tokens", "Output tokens of successful requests, by where the count came from.", "source"
        )
        self.ambiguous = counter(
            "ambiguous_first_tokens", "First tokens that one read merged with later ones: their TTFT may be too long."
        )
        self.redone = counter(
            "redone_requests", "Requests sent again because the server closed a kept connection as they left."
        )
        self.skipped = Counter(
            "llm_probe_skipped_requests", "Requests not sent because the budget was spent.", ("target", "reason"),
            registry=self.registry,
        )  # fmt: skip

    def _make_state(self) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"llm_probe_{name}", text, labels, registry=self.registry)

        self.goodput = gauge("goodput_ratio", "Good requests over all requests sent, 0 to 1.", *_LOAD)
        self.in_flight = gauge("requests_in_flight", "Requests begun and not ended.", *_LOAD)
        self.level = gauge("level_running", "1 while this level runs, 0 after it.", *_LOAD)
        self.limited = gauge("client_limited", "1 when the probe itself limits this level's numbers.", *_LOAD)
        self.error = gauge(
            "client_error_seconds", "The probe's own TTFT error, from calibration.", "concurrency", "rate", "quantile"
        )
        self.objective = gauge("slo_seconds", "The limits of a good request.", "slo")
        self.last = gauge("last_request_timestamp_seconds", "When the last request was sent (Unix time).", "target")
        gauge("build_info", "The probe's version.", "version").labels(__version__).set(1)

    def set_slo(self, slo: SLO) -> None:
        """Publish the limits."""
        for name, value in (("ttft", slo.ttft_s), ("e2e", slo.e2e_s), ("tpot", slo.tpot_s)):
            if value is not None:
                self.objective.labels(name).set(value)

    def begin(self, target: str, level: Level, in_flight: Callable[[], int], lag: LagHistogram | None) -> None:
        """Show every outcome of a load as 0 before the first request, so that a rate can see the first failure."""
        labels = (target, *load_labels(level))
        for outcome in (Outcome.OK, *FAILURES):
            self.requests.labels(*labels, str(outcome))
        for family in (self.good, self.cancelled, self.ambiguous, self.redone):
            family.labels(*labels)
        self.level.labels(*labels).set(1)
        self.in_flight.labels(*labels).set_function(in_flight)
        if lag is not None:
            self._lags.watch(labels, lag)

    def add(self, target: str, level: Level, record: Record) -> None:
        """Take one finished request."""
        labels = (target, *load_labels(level))
        if record.outcome is Outcome.CANCELLED:
            self.cancelled.labels(*labels).inc()
            return
        self.requests.labels(*labels, str(record.outcome)).inc()
        if record.good:
            self.good.labels(*labels).inc()
        if record.redone:
            self.redone.labels(*labels).inc()
        with self._lock:
            sent = self._sent.setdefault(labels, [0, 0])
            sent[0] += 1
            sent[1] += record.good
            self.goodput.labels(*labels).set(sent[1] / sent[0])
        if record.outcome is Outcome.OK:
            self._latencies(labels, record)

    def _latencies(self, labels: tuple[str, ...], record: Record) -> None:
        observed = (record.ttft_s, record.tpot_s, record.e2e_s, record.queue_wait_s)
        for family, value in zip((self.ttft, self.tpot, self.e2e, self.queue), observed, strict=True):
            if value is not None:
                family.labels(*labels).observe(value)
        self.tokens.labels(*labels, record.token_source).inc(record.tokens)
        if record.ambiguous:
            self.ambiguous.labels(*labels).inc()

    def end(self, target: str, level: Level, limited: bool) -> None:
        """Note that a load has ended."""
        labels = (target, *load_labels(level))
        self.level.labels(*labels).set(0)
        self.in_flight.labels(*labels).set_function(lambda: 0)
        self.limited.labels(*labels).set(limited)

    def calibrated(self, calibration: Calibration) -> None:
        """Publish the client's error."""
        concurrency = "" if calibration.concurrency is None else str(calibration.concurrency)
        rate = "" if calibration.rate is None else f"{calibration.rate:g}"
        self.error.labels(concurrency, rate, "0.5").set(calibration.ttft_error_p50_s)
        self.error.labels(concurrency, rate, "0.99").set(calibration.ttft_error_p99_s)


class RunMetrics(Observer):
    """Feeds one run of one target into the families."""

    def __init__(self, metrics: ProbeMetrics, target: str) -> None:
        self._metrics = metrics
        self._target = target
        self._level: Level | None = None

    def calibrated(self, calibration: Calibration) -> None:
        """Pass a calibration on."""
        self._metrics.calibrated(calibration)

    def level_started(self, level: Level, _repeat: int, in_flight: Callable[[], int], lag: LagHistogram) -> None:
        """Show the level."""
        self._level = level
        self._metrics.begin(self._target, level, in_flight, lag)

    def recorded(self, record: Record) -> None:
        """Count a request; records of other processes say themselves which level they are of."""
        level = self._level
        if level is None or (level.scenario, level.concurrency, level.rate) != (
            record.scenario,
            record.concurrency,
            record.rate,
        ):
            level = Level(record.scenario, record.concurrency, record.rate, None, None)
            self.level_started(level, record.repeat, lambda: 0, LagHistogram())
        self._metrics.add(self._target, level, record)

    def level_ended(self, level: Level, summary: dict[str, Any]) -> None:
        """Show that the level has ended."""
        self._metrics.end(self._target, level, bool(summary["client_limited"]))


class _LagCollector(Collector):
    """Exposes the lag histograms, which the client fills itself because it reads thousands of pieces a second."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, ...], LagHistogram] = {}
        self._current: dict[tuple[str, ...], LagHistogram] = {}

    def watch(self, labels: tuple[str, ...], lag: LagHistogram) -> None:
        """Follow the histogram of a level that begins; an earlier repeat's counts stay in the sum."""
        before = self._current.get(labels)
        if before is not None:
            self._ended.setdefault(labels, LagHistogram()).merge(before)
        self._current[labels] = lag

    def collect(self) -> Iterable[Metric]:
        """Yield the one family."""
        family = HistogramMetricFamily(
            "llm_probe_client_lag_seconds", "Arrival of a piece in the kernel to its read by the probe.", labels=_LOAD
        )
        for labels, current in sorted(self._current.items()):
            whole = LagHistogram()
            whole.merge(current)
            if labels in self._ended:
                whole.merge(self._ended[labels])
            seen, buckets = 0, []
            for edge, count in zip((*(f"{edge:g}" for edge in EDGES_S), "+Inf"), whole.counts, strict=True):
                seen += count
                buckets.append((edge, float(seen)))
            family.add_metric(labels, buckets, whole.sum_ns / 1e9)
        yield family


def _hide_created() -> None:
    switch: Callable[[], None] = disable_created_metrics
    switch()


class MetricsOutputError(Exception):
    """The metrics cannot be served, pushed or written; the message says where and why."""


def serve_metrics(metrics: ProbeMetrics, listen: str) -> tuple[Callable[[], None], int]:
    """Serve the page at HOST:PORT in a thread; return how to end that, and the port. Raises MetricsOutputError."""
    from prometheus_client import start_http_server

    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise MetricsOutputError(f"--listen {listen!r}: give it as HOST:PORT, for example 127.0.0.1:9109")
    try:
        server, thread = start_http_server(int(port), addr=host.strip("[]") or "0.0.0.0", registry=metrics.registry)  # noqa: S104
    except OSError as error:
        raise MetricsOutputError(f"--listen {listen}: {error.strerror or error}") from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close, int(server.server_port)


def write_textfile(metrics: ProbeMetrics, path: Path) -> None:
    """Write the page for node_exporter's textfile collector. Raises MetricsOutputError."""
    try:
        write_to_textfile(str(path), metrics.registry)
    except OSError as error:
        raise MetricsOutputError(f"{path}: cannot be written: {error.strerror}") from None


def push(metrics: ProbeMetrics, gateway: str, job: str) -> None:
    """Push the page to a Pushgateway, in place of what this job pushed before. Raises MetricsOutputError."""
    from prometheus_client import push_to_gateway

    try:
        push_to_gateway(gateway, job=job, registry=metrics.registry, timeout=10)
    except (OSError, HTTPException, ValueError) as error:
        raise MetricsOutputError(f"Pushgateway {gateway}: {error}") from None
