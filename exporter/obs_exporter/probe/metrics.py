"""The probe's own metrics, live while it runs. Base units, ratios 0..1, counters end in _total."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
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
        self._watched: set[tuple[str, ...]] = set()
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
        self.in_flight = gauge(
            "requests_in_flight",
            "Requests begun and not ended; absent with run --processes, where this process cannot know.", *_LOAD,
        )  # fmt: skip
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

    def begin(self, target: str, level: Level, in_flight: Callable[[], int] | None, lag: LagHistogram | None) -> None:
        """Show every outcome of a load as 0 before the first request, so that a rate can see the first failure.

        What is in flight and the lag have no series where they are None: not known is not 0.
        """
        labels = (target, *load_labels(level))
        for outcome in (Outcome.OK, *FAILURES):
            self.requests.labels(*labels, str(outcome))
        for family in (self.good, self.cancelled, self.ambiguous, self.redone):
            family.labels(*labels)
        self.level.labels(*labels).set(1)
        if in_flight is not None:
            self._watched.add(labels)
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

    def end(self, target: str, level: Level, limited: bool | None) -> None:
        """Note that a load has ended; ``limited`` is None where its numbers were not judged."""
        labels = (target, *load_labels(level))
        self.level.labels(*labels).set(0)
        if labels in self._watched:
            self.in_flight.labels(*labels).set_function(lambda: 0)
        if limited is not None:
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
        self.measured = False
        """Whether any request has ended, i.e. whether there is anything to hand over."""

    def calibrated(self, calibration: Calibration) -> None:
        """Pass a calibration on."""
        self._metrics.calibrated(calibration)

    def level_started(self, level: Level, _repeat: int, in_flight: Callable[[], int], lag: LagHistogram) -> None:
        """Show the level."""
        self._begin(level, in_flight, lag)

    def _begin(self, level: Level, in_flight: Callable[[], int] | None, lag: LagHistogram | None) -> None:
        self._level = level
        self._metrics.begin(self._target, level, in_flight, lag)

    def recorded(self, record: Record) -> None:
        """Count a request of the level that runs."""
        if self._level is not None:
            self.measured = True
            self._metrics.add(self._target, self._level, record)

    def level_ended(self, level: Level, summary: dict[str, Any]) -> None:
        """Show that the level has ended."""
        self._level = None
        self._metrics.end(self._target, level, bool(summary["client_limited"]))

    def judged(self, result: dict[str, Any]) -> None:
        """Take the whole result; here every level has told its own already."""

    def ended(self) -> None:
        """Note that the run has ended, also in the middle of a level."""
        if self._level is not None:
            self._metrics.end(self._target, self._level, None)
            self._level = None


class SharedMetrics(RunMetrics):
    """The same for a run in several processes, of which this one only reads the records as they are written.

    What is in flight there and how late they read is not known here, so those families stay away. Records of two
    levels may come mixed where one process is ahead: a level runs from its first record to the first of the next.
    """

    def __init__(self, metrics: ProbeMetrics, target: str) -> None:
        super().__init__(metrics, target)
        self._begun: set[tuple[Level, int]] = set()

    def recorded(self, record: Record) -> None:
        """Count a request for the level that it names itself."""
        level = Level(record.scenario, record.concurrency, record.rate, None, None)
        if (level, record.repeat) not in self._begun:
            self._begun.add((level, record.repeat))
            self.ended()
            self._begin(level, None, None)
        self.measured = True
        self._metrics.add(self._target, level, record)

    def judged(self, result: dict[str, Any]) -> None:
        """Take the merged result: whether the probe limited a level is known only there."""
        for summary in result["levels"]:
            level = Level(summary["scenario"], summary["concurrency"], summary["rate"], None, None)
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
            "llm_probe_client_lag_seconds",
            "Arrival of a piece in the kernel to its read by the probe; absent with run --processes and in serve.",
            labels=_LOAD,
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
