"""The server's own numbers during a level, beside the client's: where the time went between the two.

The page is fetched in a thread (cheap) and read after the level (not cheap). How a page is read is a function
``Mapper``: page text -> {signal id: its series}: for a page in the common schema, as an obs-exporter serves it, or for
a stack's own page.
"""

from __future__ import annotations

import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from typing import Any

from obs_exporter.probe.runner import ServerSide
from obs_exporter.schema import BY_ID, SIGNALS, Histogram, Scalar, Series
from obs_exporter.schema.vocabulary import Aggregation, Kind

Signals = Mapping[str, Sequence[Series]]
Mapper = Callable[[str], Signals]

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The environment's proxies are not used, as for the requests themselves."""
_PREFIX = "llm_"
"""How every family of the common schema begins."""
_MAX_PAGE = 32 * 1024 * 1024
_ACCEPT = "text/plain;version=0.0.4"
_HISTOGRAMS = ("ttft", "queue_wait", "request_duration", "layer_queue_wait")
_COUNTERS = ("preemptions", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "requests_finished")
_GAUGES = ("kv_cache_usage", "requests_running", "requests_waiting", "layer_requests_queued", "layer_requests_ongoing")


class PageError(ValueError):
    """A page that cannot be read; the message says why."""


def read_schema_page(text: str) -> dict[str, list[Series]]:
    """Read a page in the common schema. Raises PageError when it is no exposition text, or has no family of ours."""
    from prometheus_client.parser import text_string_to_metric_families

    by_family = {signal.family: signal for signal in SIGNALS}
    found: dict[str, list[Series]] = {}
    ours = False
    try:
        for family in text_string_to_metric_families(text):
            ours = ours or family.name.startswith(_PREFIX)
            signal = by_family.get(family.name)
            if signal is None or family.type != str(signal.kind):
                continue
            series = found.setdefault(signal.id, [])
            if signal.kind is Kind.HISTOGRAM:
                series += _histograms(family.samples)
            else:
                series += [
                    Scalar(_labels(sample.labels), sample.value)
                    for sample in family.samples
                    if sample.name == signal.metric
                ]
    except (ValueError, KeyError, IndexError) as error:
        raise PageError(f"not a metrics page: {error}") from None
    if not ours:
        raise PageError(
            f"no {_PREFIX}* family on it: not an obs-exporter's page; name the stack whose own page it is with"
            " --metrics-stack"
        )
    return found


def read_stack_page(stack: str, text: str) -> dict[str, list[Series]]:
    """Read a stack's own page with the tables of the exporter. Raises PageError where it is not that stack's."""
    from obs_exporter.exposition import parse
    from obs_exporter.stacks import STACKS, Claims, read_page

    table = STACKS[stack]
    reading = read_page(table, parse(text.encode(), table.wanted()), Claims())
    if not reading.reachable:
        raise PageError(reading.problem)
    return {answer.signal.id: list(answer.series) for answer in reading.answers if answer.series}


def read_target(target: str | None, text: str) -> dict[str, list[Series]]:
    """Read one target's part of a page in the common schema; without a name, the page's only one.

    Raises PageError where the page has several and none is named, or not the named one: mixed targets say nothing.
    """
    page = read_schema_page(text)
    there = {_target(one) for series in page.values() for one in series}
    names = ", ".join(sorted(there)) or "none"
    if target is None and len(there) > 1:
        raise PageError(f"the page has several targets ({names}): name the probed one with --metrics-target")
    if target is not None and target not in there:
        raise PageError(f"the page has no target {target!r}; it has: {names}")
    return {
        name: chosen
        for name, series in page.items()
        if (chosen := [one for one in series if target is None or _target(one) == target])
    }


def _target(series: Series) -> str:
    return dict(series.labels).get("target", "")


def mapper(name: str, target: str | None = None) -> Mapper:
    """Return how a page is read, by what --metrics-stack and --metrics-target say."""
    return partial(read_target, target) if name == SCHEMA else partial(read_stack_page, name)


SCHEMA = "schema"
"""A page in the common schema, as an obs-exporter serves it."""


def _labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if name != "le"))


def _histograms(samples: Sequence[Any]) -> list[Series]:
    buckets: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in samples:
        key = _labels(sample.labels)
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    return [Histogram(key, tuple(sorted(edges)), sums.get(key, 0.0)) for key, edges in sorted(buckets.items())]


@dataclass(frozen=True, slots=True)
class Page:
    """One look at the server's page: its text, packed, or why there is none."""

    at: float
    packed: bytes
    error: str = ""


class HTTPServerSide(ServerSide):
    """Looks at ``url`` every ``interval_s`` seconds while a level runs."""

    def __init__(self, url: str, mapper: Mapper, interval_s: float = 1.0) -> None:
        self._url = url
        self._mapper = mapper
        self._interval_s = interval_s
        self._pages: list[Page] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Take a first page and go on in a thread."""
        self._pages = [fetch(self._url)]
        self._ended.clear()
        self._thread = threading.Thread(target=self._sample, name="server-side", daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._pages.append(fetch(self._url))

    def end(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Take a last page and return what the pages say of the level."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._pages.append(fetch(self._url))
        return describe_pages(self._pages, self._mapper, summary)


def fetch(url: str) -> Page:
    """Return one look at a page; what goes wrong is in it. It raises nothing."""
    request = urllib.request.Request(url, headers={"Accept": _ACCEPT})  # noqa: S310 - checked to be http(s) by the CLI
    try:
        with _OPENER.open(request, timeout=5) as response:
            text = response.read(_MAX_PAGE)
    except (OSError, HTTPException, ValueError) as error:
        return Page(time.time(), b"", str(error) or error.__class__.__name__)
    return Page(time.time(), zlib.compress(text, 1), "" if text.strip() else "the page is empty")


def describe_pages(pages: Sequence[Page], mapper: Mapper, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the level's server side: {"signals": {id: {...}}, "lost_s": {...}, "samples", "failed_samples"}.

    Every value is a number, or null with a ``reason`` beside it.
    """
    read: list[Signals] = []
    errors = [page.error for page in pages if page.error]
    for page in pages:
        if not page.error:
            try:
                read.append(mapper(zlib.decompress(page.packed).decode("utf-8", "replace")))
            except PageError as error:
                errors.append(str(error))
    found: dict[str, Any] = {"samples": len(read), "failed_samples": len(errors)}
    if errors:
        found["error"] = errors[0]
    whole = len(read) >= 2 and not pages[0].error and not pages[-1].error
    unread = f"the page could not be read at the level's start and end: {errors[0] if errors else 'too few looks'}"
    signals: dict[str, Any] = {}
    for name in _HISTOGRAMS:
        signals[name] = _histogram_delta(read, name) if whole else _none(unread)
    for name in _COUNTERS:
        signals[name] = _counter_delta(read, name) if whole else _none(unread)
    for name in _GAUGES:
        signals[name] = _gauge_peak(read, name) if read else _none(unread)
    found["signals"] = signals
    found["lost_s"] = _lost(signals, summary)
    found["prefix_cache_hit_ratio"] = _hit_ratio(signals)
    return found


def _none(reason: str) -> dict[str, Any]:
    return {"value": None, "reason": reason}


def _counter_delta(read: Sequence[Signals], name: str) -> dict[str, Any]:
    first, last = read[0].get(name), read[-1].get(name)
    if not last:
        return _none("the page does not have it")
    # Counters that appear with their first increment began at zero.
    before = sum(one.value for one in first or () if isinstance(one, Scalar))
    delta = sum(one.value for one in last if isinstance(one, Scalar)) - before
    return {"value": delta} if delta >= 0 else _none("the counter fell: the server was restarted")


def _histogram_delta(read: Sequence[Signals], name: str) -> dict[str, Any]:
    first = [one for one in read[0].get(name, ()) if isinstance(one, Histogram)]
    last = [one for one in read[-1].get(name, ()) if isinstance(one, Histogram)]
    if not last:
        return _none("the page does not have it")
    count = sum(one.count for one in last) - sum(one.count for one in first)
    if count < 0:
        return _none("the histogram fell: the server was restarted")
    if not count:
        return _none("no observation during this level")
    total = sum(one.sum for one in last) - sum(one.sum for one in first)
    return {"value": round(total / count, 9), "count": count, "p95": _bucket_quantile(first, last, 0.95)}


def _bucket_quantile(first: Sequence[Histogram], last: Sequence[Histogram], share: float) -> float | None:
    """Return a quantile from bucket differences, linear within its bucket; None when only +Inf is known."""
    edges: dict[float, float] = {}
    for sign, series in ((-1, first), (1, last)):
        for one in series:
            for edge, count in one.buckets:
                edges[edge] = edges.get(edge, 0.0) + sign * count
    ordered = sorted(edges.items())
    if len(ordered) < 2:
        return None
    want = share * ordered[-1][1]
    low, below = 0.0, 0.0
    for edge, count in ordered:
        if count >= want:
            if edge == float("inf"):
                return None
            return round(low + (edge - low) * ((want - below) / (count - below) if count > below else 1.0), 6)
        low, below = edge, count
    return None


def _gauge_peak(read: Sequence[Signals], name: str) -> dict[str, Any]:
    peaks = []
    for signals in read:
        values = [one.value for one in signals.get(name, ()) if isinstance(one, Scalar)]
        if values:
            peaks.append(max(values) if BY_ID[name].aggregation is Aggregation.MAX else sum(values))
    return {"value": max(peaks), "samples": len(peaks)} if peaks else _none("the page does not have it")


def _lost(signals: Mapping[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Return the client's mean TTFT less the engine's: what the layers and the network took, per request.

    A difference below 0 is no time lost: it is left out, with its reason.
    """
    engine, client = signals["ttft"]["value"], summary["ttft_s"]["mean"]
    if engine is None:
        return _none(f"engine TTFT: {signals['ttft']['reason']}")
    if client is None:
        return _none("no request succeeded")
    finished, seen = signals["ttft"]["count"], summary["requests"]
    found: dict[str, Any] = {"client_mean_ttft_s": client, "engine_mean_ttft_s": engine}
    if client >= engine:
        found["value"] = round(client - engine, 9)
    else:
        # The engine's TTFT is a part of the client's, so of the same requests it cannot be the longer one.
        why = f"the engine's mean TTFT ({engine:.4f} s) is longer than the client's ({client:.4f} s)"
        found |= _none(f"{why}: the page has other traffic, or other requests than this probe's")
    if abs(finished - seen) > 0.02 * seen + 1:
        found["warning"] = f"the engine counted {finished:g} first tokens, this probe sent {seen}: others use it too"
    return found


def _hit_ratio(signals: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prefix cache's hit ratio during the level: with unique prefixes it should be about 0."""
    queries, hits = signals["prefix_cache_queries"]["value"], signals["prefix_cache_hits"]["value"]
    if not queries or hits is None:
        return _none("not verified: the page has no prefix cache counters, or nothing was asked")
    return {"value": round(hits / queries, 6)}
