"""From readings to Prometheus families, and the collector that takes a look at every target for each scrape.

Families are built anew for each scrape with prometheus_client's own classes: no value outlives the look it came from.
"""

from __future__ import annotations

import logging
import math
import platform
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from obs_exporter._version import __version__
from obs_exporter.config import Target
from obs_exporter.derive.model import AGE, LOWER, SUM_LOWER, SUM_UPPER, UPPER
from obs_exporter.look import Look, Looker
from obs_exporter.sampling import Sampler
from obs_exporter.schema import SIGNALS, Histogram, Kind, Series, Signal
from obs_exporter.stacks import STACKS, read_nothing

log = logging.getLogger(__name__)

DEADLINE = 9.0
"""Seconds for all targets together: below Prometheus' default scrape timeout of 10 s."""

INFO_LABELS = ("stack", "target", "signal", "state", "provenance", "precision", "source", "reason")


def families(looks: Sequence[tuple[Target, Look]]) -> Iterator[Metric]:
    """Yield the schema's families for these looks, in the schema's order; a family without a series is left out."""
    for signal in SIGNALS:
        family = _family(signal)
        for target, look in looks:
            answer = look.reading.answer(signal.id)
            for series in answer.series:
                _add(family, signal, (target.stack, target.name), series)
        if family.samples:
            yield family
    yield _signal_info(looks)


def _family(signal: Signal) -> Metric:
    if signal.kind is Kind.GAUGE:
        return GaugeMetricFamily(signal.family, signal.meaning, labels=signal.label_names)
    if signal.kind is Kind.COUNTER:
        return CounterMetricFamily(signal.family, signal.meaning, labels=signal.label_names)
    return HistogramMetricFamily(signal.family, signal.meaning, labels=signal.label_names)


def _add(family: Metric, signal: Signal, identity: tuple[str, str], series: Series) -> None:
    """Add one series with its labels in the order that the signal declares."""
    known = {"stack": identity[0], "target": identity[1], **dict(series.labels)}
    labels = [known.get(name, "") for name in signal.label_names]
    if isinstance(series, Histogram) and isinstance(family, HistogramMetricFamily):
        buckets = [(_edge(edge), count) for edge, count in series.buckets]
        family.add_metric(labels, buckets, sum_value=series.sum)
    elif not isinstance(series, Histogram) and isinstance(family, (GaugeMetricFamily, CounterMetricFamily)):
        family.add_metric(labels, series.value)


def _edge(edge: float) -> str:
    """Write a bucket's upper edge as Prometheus does."""
    return "+Inf" if edge == math.inf else repr(edge)


def _signal_info(looks: Sequence[tuple[Target, Look]]) -> Metric:
    info = GaugeMetricFamily(
        "llm_signal_info",
        "State and provenance of every signal of every target; the value is always 1.",
        labels=INFO_LABELS,
    )
    for target, look in looks:
        for answer in look.reading.answers:
            info.add_metric(
                [
                    target.stack, target.name, answer.signal.id, str(answer.state), str(answer.provenance),
                    str(answer.precision), answer.native_name, answer.reason,
                ],
                1.0,
            )  # fmt: skip
    return info


def own_families(looks: Sequence[tuple[Target, Look]]) -> Iterator[Metric]:
    """Yield what the exporter says of its targets: reachable or not, how long it took, which versions it sees."""
    up = GaugeMetricFamily("obs_exporter_target_up", "Whether the target's page could be read (1) or not (0).",
                           labels=("stack", "target"))  # fmt: skip
    took = GaugeMetricFamily("obs_exporter_scrape_duration_seconds", "Seconds that the last look at the target took.",
                             labels=("stack", "target"))  # fmt: skip
    versions = GaugeMetricFamily(
        "obs_exporter_target_info", "Versions of the target as far as they are known; the value is always 1.",
        labels=("stack", "target", "stack_version", "engine_version", "generation"),
    )  # fmt: skip
    for target, look in looks:
        reading = look.reading
        up.add_metric([target.stack, target.name], float(reading.reachable))
        took.add_metric([target.stack, target.name], look.seconds)
        known = [str(reading.stack_version), str(reading.engine_version), reading.generation]
        versions.add_metric([target.stack, target.name, *known], 1.0)
    yield from (up, took, versions)
    yield from _about_values(looks)


def _about_values(looks: Sequence[tuple[Target, Look]]) -> Iterator[Metric]:
    """Yield how old values are that do not come from the page as it is now, and between which bounds others lie."""
    page = GaugeMetricFamily(
        "obs_exporter_target_page_age_seconds",
        "Age of the page that the values were read from; above 0 where a page may not be asked as often as we are.",
        labels=("stack", "target"),
    )
    age = GaugeMetricFamily(
        "obs_exporter_signal_age_seconds", "Age of a value that was read from a log or carried on.",
        labels=("stack", "target", "signal"),
    )  # fmt: skip
    bound = GaugeMetricFamily(
        "obs_exporter_signal_bound", "A bound of a derived gauge, in the gauge's unit.",
        labels=("stack", "target", "signal", "bound"),
    )  # fmt: skip
    sum_bound = CounterMetricFamily(
        "obs_exporter_signal_sum_bound_seconds", "A bound of a derived histogram's sum, cumulative like it.",
        labels=("stack", "target", "signal", "bound"),
    )  # fmt: skip
    places: dict[str, tuple[Metric, str]] = {
        AGE: (age, ""), LOWER: (bound, "lower"), UPPER: (bound, "upper"),
        SUM_LOWER: (sum_bound, "lower"), SUM_UPPER: (sum_bound, "upper"),
    }  # fmt: skip
    for target, look in looks:
        page.add_metric([target.stack, target.name], look.page_age)
        for extra in look.extras:
            family, word = places[extra.kind]
            if isinstance(family, (GaugeMetricFamily, CounterMetricFamily)):
                labels = [target.stack, target.name, extra.signal, *([word] if word else [])]
                family.add_metric(labels, extra.value)
    yield from (family for family in (page, age, bound, sum_bound) if family.samples)


class TargetCollector(Collector):
    """Looks at its targets, all at once and within a deadline, whenever Prometheus asks.

    A target that fails, hangs or prints rubbish yields ``obs_exporter_target_up 0``, an error count by reason and
    ``llm_signal_info`` in the state unreachable; the others are not touched by it.
    """

    def __init__(self, targets: Iterable[Target], deadline: float = DEADLINE) -> None:
        """Prepare a looker for each target."""
        self.deadline = deadline
        self._slots = [_Slot(target) for target in targets]
        self._pool = ThreadPoolExecutor(max_workers=min(32, max(1, len(self._slots))), thread_name_prefix="look")
        self._lock = threading.Lock()
        self._errors: dict[tuple[str, str, str], int] = {}
        self.last: list[tuple[Target, Look]] = []
        self._sampler = Sampler(self._slots, self._pool.submit)

    def sample(self) -> None:
        """Begin to look between the scrapes where a signal needs it; ends with ``close``."""
        self._sampler.start()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Look at every target and yield all families."""
        looks = self.look(self.deadline)
        yield from families(looks)
        yield from own_families(looks)
        yield self._error_counts()
        build = GaugeMetricFamily("obs_exporter_build_info", "Version of the exporter; the value is always 1.",
                                  labels=("version", "python"))  # fmt: skip
        build.add_metric([__version__, platform.python_version()], 1.0)
        yield build

    def look(self, deadline: float, only: str = "") -> list[tuple[Target, Look]]:
        """Look at all targets, or at the one named, within ``deadline`` seconds."""
        slots = [slot for slot in self._slots if not only or slot.target.name == only]
        started = time.monotonic()
        futures = [self._pool.submit(slot.look, deadline) for slot in slots]
        wait(futures, timeout=deadline)
        looks = [(slot.target, _settled(slot, future, started)) for slot, future in zip(slots, futures, strict=True)]
        with self._lock:
            for target, look in looks:
                if look.failure:
                    key = (target.stack, target.name, look.failure)
                    self._errors[key] = self._errors.get(key, 0) + 1
            if not only:
                self.last = looks
        return looks

    def _error_counts(self) -> Metric:
        errors = CounterMetricFamily(
            "obs_exporter_scrape_errors",
            "Looks at the target that failed, by reason.",
            labels=("stack", "target", "reason"),
        )
        with self._lock:
            for key, count in sorted(self._errors.items()):
                errors.add_metric(list(key), float(count))
        return errors

    @property
    def names(self) -> list[str]:
        """The names of the targets."""
        return [slot.target.name for slot in self._slots]

    def close(self) -> None:
        """Let go of the threads; a look that hangs is not waited for."""
        self._sampler.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Slot:
    """A target, its looker, and a lock, so that a slow target is never asked twice at once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._looker = Looker(target)
        self._busy = threading.Lock()

    def look(self, deadline: float) -> Look:
        """Take a look; any surprise becomes a failed look, since one target must not hurt another."""
        started = time.monotonic()
        if not self._busy.acquire(timeout=deadline):
            return self.failed("busy", "the look before this one has not ended", deadline)
        try:
            left = deadline - (time.monotonic() - started)
            return self._looker.look(max(left, 0.1))
        except Exception:
            log.exception("target %s: the look failed", self.target.name)
            return self.failed(
                "internal", "the exporter failed on this page: its log says how", time.monotonic() - started
            )
        finally:
            self._busy.release()

    @property
    def sample_again(self) -> float:
        """Seconds after which a look between two scrapes is worth its cost; 0: never."""
        return self._looker.sample_again

    def sample(self) -> None:
        """Look between two scrapes; not while another look is under way."""
        if self._busy.acquire(blocking=False):
            try:
                self._looker.look(DEADLINE)
            except Exception:
                log.exception("target %s: the look failed", self.target.name)
            finally:
                self._busy.release()

    def failed(self, reason: str, message: str, seconds: float) -> Look:
        """Return a look that says why there is none."""
        reading = read_nothing(STACKS[self.target.stack], self.target.claims, message)
        return Look(reading, seconds, reason)


def _settled(slot: _Slot, future: Future[Look], started: float) -> Look:
    """Return a future's look, or a failed one where it did not end in time."""
    if future.done() and not future.cancelled():
        return future.result()
    future.cancel()
    return slot.failed("timeout", "did not answer within the deadline of the scrape", time.monotonic() - started)
