"""The exporter's HTTP side: /metrics, /probe, /-/healthy, /-/ready and a small page for people. WSGI, no framework."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import make_wsgi_app
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from obs_exporter._version import __version__
from obs_exporter.collector import TargetCollector, families, own_families
from obs_exporter.stacks import STACKS
from obs_exporter.wsgi import Environ, Respond, Wsgi, reply


class App:
    """The WSGI application around one collector."""

    def __init__(self, collector: TargetCollector) -> None:
        """Register the collector and the process's own metrics."""
        self._collector = collector
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        ProcessCollector(registry=registry)
        self._metrics: Wsgi = make_wsgi_app(registry)

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        """Route a request."""
        path = environ.get("PATH_INFO", "/")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return reply(respond, "405 Method Not Allowed", "only GET is understood\n")
        if path == "/metrics":
            # A selection by name[] would come out empty: the families are known only once a look was taken.
            return self._metrics(environ | {"QUERY_STRING": ""}, respond)
        if path == "/probe":
            return self._probe(environ, respond)
        if path in ("/-/healthy", "/-/ready"):
            return reply(respond, "200 OK", "ok\n")
        if path == "/":
            return reply(respond, "200 OK", index_page(self._collector), "text/html; charset=utf-8")
        return reply(respond, "404 Not Found", "known paths: /metrics /probe?target=NAME /-/healthy /-/ready /\n")

    def _probe(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        """Look at one configured target. The name comes from outside, the URL never does."""
        names = parse_qs(environ.get("QUERY_STRING", "")).get("target", [])
        if len(names) != 1 or names[0] not in self._collector.names:
            return reply(respond, "400 Bad Request", f"target must be one of {', '.join(self._collector.names)}\n")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_One(self._collector, names[0]))
        probe: Wsgi = make_wsgi_app(registry)
        return probe(environ, respond)


class _One(Collector):
    """One target of a collector, for /probe."""

    def __init__(self, collector: TargetCollector, name: str) -> None:
        self._collector, self._name = collector, name

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        looks = self._collector.look(self._collector.deadline, only=self._name)
        yield from families(looks)
        yield from own_families(looks)


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color-scheme:light dark}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #8884;"
    "vertical-align:top}td:first-child{white-space:nowrap}.none{opacity:.65}"
)


def index_page(collector: TargetCollector) -> str:
    """Return the page at /: every target with the state of each signal, as of the last scrape."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>obs-exporter</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body><h1>obs-exporter {html.escape(__version__)}</h1>",
        "<p><a href='/metrics'>/metrics</a>, the common schema. States are those of the last scrape.</p>",
    ]
    if not collector.last:
        parts.append("<p>Nothing has asked for /metrics yet.</p>")
    for target, look in collector.last:
        reading = look.reading
        engine = f"vLLM {reading.engine_version} {reading.generation}".strip()
        said = f"{target.stack} {reading.stack_version}, {engine}" if reading.reachable else f"down: {reading.problem}"
        cadence = STACKS[target.stack].cadence_of(reading.stack_version)
        if cadence is not None:
            said += (
                f". Its page is asked every {cadence.seconds:g} s at most ({look.page_age:.0f} s old): {cadence.reason}"
            )
        parts.append(f"<h2>{html.escape(target.name)}</h2><p>{html.escape(said)}</p><table>")
        parts.append("<tr><th>signal</th><th>state</th><th>source</th><th>reason</th></tr>")
        for answer in reading.answers:
            cells = (answer.signal.id, str(answer.state), answer.native_name, answer.reason)
            row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
            parts.append(f"<tr{'' if answer.state.publishes else ' class=none'}>{row}</tr>")
        parts.append("</table>")
    return "".join([*parts, "</body></html>\n"])
