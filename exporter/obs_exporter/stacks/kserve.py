"""KServe: vLLM runs inside the runtime's own server, so its families arrive whole, unless something sits in between.

Standard mode puts no layer into the request path. Knative mode puts queue-proxy there, whose names changed with Knative
1.19, and lets an aggregator (qpext) merge two pages into one. Read in KServe 0.11 to 0.20 and Knative 1.15 to 1.23.
"""

from __future__ import annotations

from obs_exporter.exposition import Page
from obs_exporter.schema import Kind, Provenance, State
from obs_exporter.stacks import engine
from obs_exporter.stacks.base import GPU_RULE, LAYER_SIGNALS, LayerWait, Pin, Stack, by_rule, without_value
from obs_exporter.stacks.endpoints import ENGINE_VERSION
from obs_exporter.stacks.model import Answer, Claims, Point, Row, Rule
from obs_exporter.stacks.vllm import RENAMINGS, SERVER_FAMILIES, SPELLINGS, VllmStack

RELEASES = (
    "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.1", "0.13.0", "0.13.1", "0.14.0", "0.14.1", "0.15.0", "0.15.1",
    "0.15.2", "0.16.0", "0.17.0", "0.17.1", "0.18.0", "0.18.1", "0.19.0", "0.20.0",
)  # fmt: skip

PINS = (
    Pin("0.12.0", "0.2.7"), Pin("0.13.0", "0.4.2"), Pin("0.13.1", "0.4.3"), Pin("0.14.0", "0.6.1.post2"),
    Pin("0.15.0", "0.8.2"), Pin("0.15.1", "0.8.5"), Pin("0.16.0", "0.9.2"), Pin("0.17.0", "0.15.1"),
    Pin("0.18.0", "0.19.0"), Pin("0.19.0", "0.20.0"),
    Pin("0.20.0", "0.20.0", runtime="kserve-vllmserver"), Pin("0.20.0", "0.24.0", runtime="kserve-huggingfaceserver"),
)  # fmt: skip
"""huggingfaceserver's vLLM; the runtime kserve-vllmserver exists from 0.20.0 on."""

_QPEXT_LABELS = ("service_name", "configuration_name", "revision_name")


def _layer(signal: str, family: str, kind: Kind, factor: float = 1.0, note: str = "") -> Row:
    return Row(signal, family, kind, factor=factor, optional=True, provenance=Provenance.LAYER, note=note)


_INSIDE = "time in the container behind queue-proxy only: what a request waits in queue-proxy's own queue is not in it"
ROWS = (
    _layer("layer_request_duration", "kn_serving_invocation_duration_seconds", Kind.HISTOGRAM, note=_INSIDE),
    _layer("layer_request_duration", "kn_queueproxy_app_duration_seconds", Kind.HISTOGRAM, note=_INSIDE),
    _layer(
        "layer_request_duration",
        "revision_request_latencies",
        Kind.HISTOGRAM,
        0.001,
        "at queue-proxy, with the wait in its queue; without what the activator holds back",
    ),
    _layer("layer_requests_queued", "kn_serving_queue_depth", Kind.GAUGE),
    _layer("layer_requests_queued", "kn_queueproxy_depth", Kind.GAUGE),
    _layer("layer_requests_queued", "revision_queue_depth", Kind.GAUGE),
)
"""queue-proxy's families: ``kn_*`` from Knative 1.19, ``revision_*`` (milliseconds) before. Which are there is told by
the page alone, since KServe does not fix Knative's version. ``kn_*`` durations begin behind queue-proxy's queue:
read in pkg/queue of knative/serving, where one handler records both names."""

LAYER_WAIT = LayerWait(
    "revision_request_latencies", "revision_app_request_latencies", 0.001,
    group="revision_name", status="response_code", doubtful=frozenset({"500", "503", "504"}),
    cause="queue-proxy may refuse a request, or it may run out of time or lose its client, before the container has it",
)  # fmt: skip
"""Both are of one queue-proxy, in whole milliseconds, before and behind its queue (pkg/queue/metrics of knative/serving
1.15 to 1.18). A full queue gives 503, a time-out 503 or 504, a client that leaves the queue 500."""

_SWITCH = (
    "Knative 1.19 and newer show queue-proxy's metrics only with metrics-protocol: prometheus and "
    "request-metrics-protocol: prometheus in the ConfigMap config-observability; then scrape port 9091"
)

RULES = (
    Rule(
        engine.SIGNALS, State.NOT_APPLICABLE,
        "KServe 0.11 carries no engine for LLMs: a custom container has what its own vLLM has",
        remedy="audit that container as --stack vllm",
        stack_versions="<0.12",
        source="kserve 0.11.0 to 0.11.2: no huggingfaceserver",
    ),
    Rule(
        frozenset({"layer_request_duration", "layer_requests_queued"}), State.NOT_APPLICABLE,
        "in Standard mode no layer stands in the request path; in Knative mode queue-proxy's page (port 9091) has it",
        remedy=_SWITCH,
        cost="request metrics of every Knative service in the cluster",
        source="knative/serving 1.15 to 1.23",
    ),
    Rule(
        frozenset({"layer_queue_wait"}), State.NOT_APPLICABLE,
        "in Standard mode no layer stands in the request path; in Knative mode, before 1.19, it is the difference of "
        "two families of queue-proxy's page (port 9091)",
        remedy="scrape port 9091, too",
        source="knative/serving 1.15 to 1.23",
    ),
    Rule(
        LAYER_SIGNALS, State.NOT_APPLICABLE,
        "in Standard mode no layer stands in the request path; queue-proxy of Knative mode has no such metric",
        source="knative/serving 1.15 to 1.23",
    ),
    GPU_RULE,
)  # fmt: skip

THROUGH_QPEXT = Rule(
    engine.SIGNALS, State.LOST,
    "this page came through KServe's metrics aggregator (qpext), which discards what it cannot type: behind a "
    "Prometheus 2 scraper that is every gauge and histogram",
    remedy="scrape the kserve-container's own port 8080 with Accept: text/plain;version=0.0.4, not port 9088",
    cost="queue-proxy's families need a second scrape job, for port 9091",
    source="kserve qpext/cmd/qpext/main.go, 0.10 to 0.20",
)  # fmt: skip


KNATIVE_WAIT = Rule(
    frozenset({"layer_queue_wait"}), State.LOST,
    "queue-proxy publishes no wait per request from Knative 1.19 on, and its own duration begins behind its queue",
    remedy="compare the mean of its http_server_request_duration_seconds, where port 9091 has it, with that of "
    "layer_request_duration over at least 60 s",
    source="knative/serving 1.19 to 1.23",
)  # fmt: skip
REVISION_WAIT = Rule(
    KNATIVE_WAIT.signals, State.LOST, "queue-proxy publishes no wait per request, and one of the two families of which "
    "it is the difference has no series of this revision",
    source="knative/serving 1.15 to 1.18",
)  # fmt: skip
"""Before Knative 1.19; the derivation puts the difference in its place."""


ONLY_QUEUE_PROXY = (
    "only queue-proxy's families are on this page: the engine behind it did not answer (qpext hides that behind a "
    "200), or this is queue-proxy's own port; scrape the kserve-container's port 8080"
)
_QUEUE_PROXY = ("revision_", "kn_", "queue_")
_SERVER = ("request_preprocess_seconds", "request_predict_seconds", "request_postprocess_seconds")
"""Histograms of KServe's Python server; requests to its OpenAI routes never touch them."""


class KserveStack(VllmStack):
    """KServe's runtimes for LLMs."""

    def unrecognised(self, page: Page, claims: Claims) -> str:
        """Say why the page is not KServe's."""
        problem = super().unrecognised(page, claims)
        return ONLY_QUEUE_PROXY if problem and self.layer_only(page) else problem

    def layer_only(self, page: Page) -> bool:
        """Whether the page is queue-proxy's alone: its signals are taken, the engine's are not reached."""
        proxied = any(name.startswith(_QUEUE_PROXY) for name in page.types)
        return proxied and not self.engine_families(page) and not self.stats_are_off(page)

    def stats_are_off(self, page: Page) -> bool:
        """Whether this is huggingfaceserver's page, which has KServe's own families in place of http_*, or vLLM's."""
        return any(name in page.types for name in _SERVER) or super().stats_are_off(page)

    def lacking(self, answer: Answer, point: Point, page: Page) -> Answer:
        """Blame the aggregator where the page bears its labels."""
        if answer.signal.id in engine.SIGNALS and self.layer_only(page):
            return without_value(answer, State.UNREACHABLE, ONLY_QUEUE_PROXY)
        if answer.signal.id == "layer_queue_wait":
            return self._wait(answer, page)
        found = super().lacking(answer, point, page)
        dropped = found.state is State.LOST and not found.native_name and answer.state.publishes
        if dropped and _through_qpext(page, self):
            return by_rule(answer, THROUGH_QPEXT)
        return found

    def _wait(self, answer: Answer, page: Page) -> Answer:
        """Tell the generations of queue-proxy apart, and its first request from its absence."""
        if any(name.startswith("kn_") for name in page.types):
            return by_rule(answer, KNATIVE_WAIT)
        if page.has(LAYER_WAIT.outer + "_count") and page.has(LAYER_WAIT.inner + "_count"):
            return by_rule(answer, REVISION_WAIT)
        if any(name.startswith("revision_") for name in page.types):
            return without_value(answer, State.IDLE, "queue-proxy's latencies appear with the first request")
        return answer


def _through_qpext(page: Page, stack: Stack) -> bool:
    """Whether the aggregator added its labels to the engine's series."""
    names = stack.engine_families(page).values()
    firsts = [page.samples[name][0] for name in names if page.samples.get(name)]
    return any(all(label in first.labels for label in _QPEXT_LABELS) for first in firsts)


STACK = KserveStack(
    name="kserve",
    title="KServe",
    page="http://PREDICTOR_POD:8080/metrics",
    releases=RELEASES,
    engine_prefixes=SPELLINGS,
    markers=("vllm:", "vllm_", "kserve_vllm"),
    rows=ROWS,
    rules=RULES,
    pins=PINS,
    pins_first=False,
    renamings=RENAMINGS,
    evidence_families=SERVER_FAMILIES,
    endpoints=(ENGINE_VERSION,),
    layer_wait=LAYER_WAIT,
    regained=(
        *engine.log_ways("the engine's periodic log line has it, under load"),
        *engine.START_WAYS,
        engine.LITTLE,
    ),
    log_place="the standard output of the pod's kserve-container",
)
