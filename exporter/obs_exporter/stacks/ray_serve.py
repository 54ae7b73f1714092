"""Ray Serve, and Serve LLM on it: engine families arrive as ``ray_vllm_*``, if at all, through Ray's own metrics pipe.

Read in the wheels of Ray 2.44.1 to 2.60.0; 2.44.1, 2.55.1 and 2.60.0 were run. What the pipe does to a page:

- up to 2.46 none of the engine's families pass, but Ray counts some things on its own;
- 2.47 to 2.50 they pass when ``log_engine_metrics`` is set; from 2.51 it is the default;
- from 2.52 (OpenTelemetry) a histogram's sum is rebuilt from bucket midpoints and a counter appears with its first
  increment; 2.52 to 2.56 clear every gauge at a scrape, from 2.57 a gauge vanishes 20 s after the last engine step.
"""

from __future__ import annotations

from dataclasses import replace

from obs_exporter.exposition import Page
from obs_exporter.schema import Kind, Precision, Provenance, State
from obs_exporter.stacks import engine
from obs_exporter.stacks.base import (
    ELSEWHERE,
    GPU_RULE,
    Cadence,
    LayerWait,
    Pin,
    Stack,
    by_rule,
    has_finished,
    without_value,
)
from obs_exporter.stacks.catalogue import catalogue
from obs_exporter.stacks.endpoints import ENGINE_VERSION, Endpoint
from obs_exporter.stacks.mapping import LabelRule
from obs_exporter.stacks.model import Answer, Claims, Point, Regained, Row, Rule
from obs_exporter.stacks.versions import UNKNOWN, Known, key, matches

RELEASES = (
    "2.44.1", "2.46.0", "2.47.1", "2.48.0", "2.49.2", "2.50.1", "2.51.1", "2.52.1", "2.55.1", "2.56.1", "2.57.1",
    "2.58.1", "2.59.0", "2.60.0",
)  # fmt: skip

PINS = (
    Pin("2.44.1", "0.7.2", floor=True, generation="V0"), Pin("2.46.0", "0.8.5", floor=True, generation="V0"),
    Pin("2.47.0", "0.8.5", floor=True, generation="V1"), Pin("2.48.0", "0.9.2", floor=True),
    Pin("2.49.0", "0.10.0", floor=True), Pin("2.50.0", "0.10.2", floor=True), Pin("2.51.0", "0.11.0", floor=True),
    Pin("2.55.0", "0.18.0", floor=True), Pin("2.56.0", "0.22.0"), Pin("2.57.0", "0.25.1"), Pin("2.58.0", "0.26.0"),
    Pin("2.59.0", "0.27.0"), Pin("2.60.0", "0.29.0"),
)  # fmt: skip
"""The vLLM that ``ray[llm]`` asks for: a lower bound up to 2.55, exactly one from 2.56 on."""

OTEL = ">=2.52"
"""Ray's metrics go through OpenTelemetry from here on (opt-in before; no way back once Serve runs on 2.60)."""

_SWITCH = "set log_engine_metrics: true in the LLMConfig and redeploy (needs the V1 engine)"
_ENGINE_LOG = "the engine's periodic line is in the worker-*.out or .err of the actor _EngineBackgroundProcess"
_STREAMING = (
    "or read the engine's own page: RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING=1 with RAY_SERVE_ENABLE_HA_PROXY=1 and "
    "log_engine_metrics: false (2.56 and newer), then scrape each replica's port (30000 and up)"
)
_REDEPLOY = "a redeploy of the application, and with it of the model"
_UPGRADE = "another vLLM: ray[llm] asks for a newer one with each release"
_ONE_PAGE = "a restart of the cluster; one LLMConfig only; the families of Serve's router go, since traffic bypasses it"
_CONFIG_INFO = frozenset({"kv_cache_capacity", "kv_cache_max_concurrency"})
_COMPARE = "compare layer_request_duration with the engine's request_duration over at least 60 s"
_SOURCE = "ray wheels 2.44.1 to 2.60.0"

RULES = (
    Rule(frozenset({"kv_cache_usage"}), State.LOST, "Ray registers none of the engine's families before 2.47",
         remedy=f"{_ENGINE_LOG}; or upgrade Ray to 2.51 or newer", cost=_UPGRADE, stack_versions="<2.47",
         source=_SOURCE),
    Rule(engine.SIGNALS, State.LOST, "Ray registers none of the engine's families before 2.47",
         remedy="upgrade Ray to 2.51 or newer", cost=_UPGRADE, stack_versions="<2.47", source=_SOURCE),
    Rule(_CONFIG_INFO, State.LOST, "Ray's own copy of the metrics logger does not pass cache_config_info on",
         remedy="read the engine's start-up line in the replica's worker-*.out", stack_versions=">=2.47,<2.49",
         source=_SOURCE),
    Rule(engine.SIGNALS, State.HIDDEN, "log_engine_metrics is off by default in Ray 2.47 to 2.50",
         remedy=_SWITCH, cost=_REDEPLOY, stack_versions=">=2.47,<2.51", source=_SOURCE),
    Rule(_CONFIG_INFO, State.LOST, "cache_config_info is on the page for about 20 s after the engine's start only",
         remedy=f"read the engine's start-up line in the replica's worker-*.out, {_STREAMING}", cost=_ONE_PAGE,
         stack_versions=OTEL,
         source="seen on Ray 2.60.0"),
    Rule(frozenset({"layer_queue_wait"}), State.LOST,
         "Ray publishes no wait per request: its fulfilment time counts every attempt, rejected ones too",
         remedy=_COMPARE, stack_versions=">=2.55", source="seen on Ray 2.55.1 and 2.60.0"),
    Rule(frozenset({"layer_queue_wait"}), State.LOST, "Ray publishes no wait per request", remedy=_COMPARE,
         source="pages of Ray 2.44.1 to 2.60.0"),
    GPU_RULE,
)  # fmt: skip

OFF = Rule(
    engine.SIGNALS, State.HIDDEN,
    "this node runs a Serve LLM deployment and none of the engine's families is here: log_engine_metrics is false",
    remedy=f"{_SWITCH}, {_STREAMING}", cost=f"{_REDEPLOY}; for the second way {_ONE_PAGE}",
    stack_versions=">=2.47", source="seen on Ray 2.60.0",
)  # fmt: skip

OFF_BEHIND_HAPROXY = Rule(
    engine.SIGNALS, State.HIDDEN,
    "direct streaming is on (ray_serve_haproxy_ families), so the engine's own page has them: Ray's agent does not",
    remedy="scrape /metrics on each replica's port (30000 and up; :8000 reaches one replica at random)",
    stack_versions=">=2.56", source="seen on Ray 2.60.0",
)  # fmt: skip
_HAPROXY = "ray_serve_haproxy_"

NO_LLM = "no Serve LLM deployment reports on this page: scrape the node that runs the LLM replica (one agent a node)"
LLM_DEPLOYMENTS = ("LLMServer", "LLMDeployment", "LLMRouter", "OpenAiIngress")
_LLM_EVIDENCE = (
    "ray_serve_deployment_request_counter_total", "ray_serve_deployment_replica_healthy",
    "ray_serve_replica_processing_queries", "ray_serve_deployment_replica_starts_total",
)  # fmt: skip


def _own(
    signal: str, family: str, kind: Kind, *, factor: float = 1.0, versions: str = "<2.49",
    provenance: Provenance = Provenance.LAYER, note: str = "",
) -> Row:  # fmt: skip
    """A family of Ray's own that carries an engine signal."""
    state = State.RENAMED
    return Row(signal, family, kind, factor=factor, versions=versions, state=state, provenance=provenance, note=note)


_ROUTER = "measured at Ray's router, which hands tokens on every 50 ms"
ROWS = (
    _own("requests_running", "ray_vllm_engine_stats_num_current_running_requests", Kind.GAUGE),
    _own("requests_waiting", "ray_vllm_engine_stats_num_current_pending_requests", Kind.GAUGE),
    _own("queue_wait", "ray_vllm_engine_stats_time_in_queue_ms", Kind.HISTOGRAM, versions="<2.47",
         provenance=Provenance.ENGINE, note="holds seconds, despite its name (V0 engine)"),
    _own("ttft", "ray_rayllm_router_get_response_stream_first_token_latency_ms", Kind.HISTOGRAM, factor=0.001,
         note=_ROUTER),
    _own("request_duration", "ray_rayllm_router_get_response_stream_total_latency_ms", Kind.HISTOGRAM, factor=0.001,
         note=_ROUTER),
    _own("prompt_tokens", "ray_rayllm_tokens_input_total", Kind.COUNTER, versions="<2.47"),
    _own("prompt_tokens", "ray_serve_llm_tokens_input_total", Kind.COUNTER, versions=">=2.47,<2.49"),
    _own("generation_tokens", "ray_rayllm_tokens_generated_total", Kind.COUNTER, versions="<2.47"),
    _own("generation_tokens", "ray_serve_llm_tokens_generated_total", Kind.COUNTER, versions=">=2.47,<2.49"),
    _own("requests_finished", "ray_vllm_engine_stats_total_requests_finished_total", Kind.COUNTER,
         note="Ray does not keep the reason of the end"),
    Row("layer_request_duration", "ray_serve_http_request_latency_ms", Kind.HISTOGRAM, factor=0.001,
        note="at the HTTP proxy, all routes"),
    Row("layer_requests_queued", "ray_serve_deployment_queued_queries", Kind.GAUGE,
        note="swings while replicas reject: a request leaves the queue for each try"),
    Row("layer_requests_ongoing", "ray_serve_num_ongoing_http_requests", Kind.GAUGE, note="at the HTTP proxy"),
)  # fmt: skip


LAYER_WAIT = LayerWait(
    "ray_serve_http_request_latency_ms", "ray_serve_deployment_processing_latency_ms", 0.001,
    group="application", status="status_code", doubtful=frozenset({"408", "499", "503"}),
    part="deployment", ingress=("LLMRouter", "OpenAiIngress"), route="route",
    cause="proxies and replicas of other nodes are on those nodes' pages; a client that left, a time-out or an "
    "overload may have ended a request before a replica had it",
)  # fmt: skip
"""The deployments that the HTTP proxy calls itself: the routers of Serve LLM; of another app, its one deployment.

A path that no application serves has the application "" at the proxy. A request that is refused for overload (503),
runs out of time (408) or whose client leaves (499) bears its application, whether a replica had begun on it or not. A
call from another deployment outside of a request has the route "" inside the replica."""

REGAINED = (
    *engine.log_ways("the V0 engine's periodic line is in a worker-*.out or .err, under load", stack_versions="<2.47"),
    *engine.START_WAYS,
    Regained(frozenset({"layer_queue_wait"}), State.DERIVED, Precision.EXACT,
             "time at the proxy less time inside the ingress replicas; sampled while there is load",
             stack_versions="<2.52"),
    Regained(frozenset({"queue_wait"}), State.LOG, Precision.EXACT,
             "the queue time in the replica's line of each finished request", engine.LOG, stack_versions="<2.49",
             generation="V0"),
)  # fmt: skip
"""From Ray 2.47 on nobody asks the V1 engine for its periodic line; its start-up lines are there."""

CADENCES = (
    Cadence(">=2.52,<2.57", 10.0,
            "a scrape clears Ray's gauges, and they come back every 10 s: a page asked more often blanks every other "
            "scraper, the user's own Prometheus included",
            source="seen on Ray 2.55.1 (each gauge in 6 or 7 of 58 scrapes, 1 s apart); ray#63131, mended in 2.57"),
)  # fmt: skip


def models(document: object) -> Claims:
    """Read ``GET /v1/models``: Ray's own metadata was called ``rayllm_metadata`` up to 2.48 and ``metadata`` after."""
    data = document.get("data") if isinstance(document, dict) else None
    cards = [card for card in data if isinstance(card, dict)] if isinstance(data, list) else []
    for field, specifier in (("rayllm_metadata", "<2.49"), ("metadata", ">=2.49")):
        if any(field in card for card in cards):
            fitting = tuple(release for release in RELEASES if matches(specifier, release))
            return Claims(stack_version=Known(fitting, f"/v1/models ({field})"))
    return Claims()


class RayServeStack(Stack):
    """The page of a Ray node's metrics agent."""

    def unrecognised(self, page: Page, claims: Claims) -> str:  # noqa: ARG002 - the page alone tells
        """Say why the page is not Ray's; the engine's own page under direct streaming is accepted."""
        if any(name.startswith("ray_") for name in page.types) or self.engine_families(page):
            return ""
        return "no ray_ family is on this page: Ray's agent prints them on the port of --metrics-export-port (8080)"

    def stack_version(self, page: Page) -> Known:
        """Read the Ray version, which every series carries as a label."""
        for samples in page.samples.values():
            version = samples[0].labels.get("Version", "")
            if version and samples[0].labels.get("SessionName"):
                try:
                    key(version)
                except ValueError:
                    continue
                return Known((version,), "the page's Version label")
        return UNKNOWN

    def precision(self, row: Row, name: str, point: Point, page: Page | None) -> Precision:
        """Sums that went through OpenTelemetry were rebuilt from bucket midpoints."""
        if row.kind is not Kind.HISTOGRAM or not name.startswith("ray_"):
            return row.precision
        samples = page.samples.get(name + "_count", []) if page is not None else []
        through = any("otel_scope_name" in sample.labels for sample in samples[:1])
        through = through or bool(point.stack and matches(OTEL, point.stack))
        return Precision.BUCKET if through else row.precision

    def lacking(self, answer: Answer, point: Point, page: Page) -> Answer:
        """Tell the switch, the wrong node, the lazy families and the engine's own page apart."""
        bridged = [name for stem, name in self.engine_families(page).items() if stem in catalogue().types]
        native = any(not name.startswith("ray_") for name in bridged)
        own = self.rows_for(answer.signal.id, point)
        if answer.signal.id not in engine.SIGNALS:
            if native and answer.state.publishes:
                return without_value(answer, State.NOT_APPLICABLE, ELSEWHERE)
            return self._lazy(answer, point, page) if own else super().lacking(answer, point, page)
        if native:
            return super().lacking(answer, point, page)
        if bridged or (own and _runs_llm(page)):
            return self._lazy(answer, point, page) if answer.state in _EXPECTED else answer
        if not _runs_llm(page):
            never = answer.state is State.NEVER
            return answer if never else without_value(answer, State.NOT_APPLICABLE, NO_LLM)
        if any(name.startswith(_HAPROXY) for name in page.types) and answer.state in _EXPECTED:
            return by_rule(answer, OFF_BEHIND_HAPROXY)
        return by_rule(answer, OFF) if answer.state.publishes else answer

    def adjusted(self, row: Row, name: str, point: Point, page: Page) -> Row | None:
        """Distrust labels that vLLM's wrapper for Ray mixed up: up to 0.20 every value went to the last label value.

        Where a page shows more than one value of the label, it is from a newer vLLM, whatever the floor says.
        """
        shared = name.startswith("ray_") and row.labels and point.engine and matches(SHARED_LABELS, point.engine)
        native = next(iter(row.labels.values()), "")
        values = {sample.labels.get(native, "") for sample in page.samples.get(name, [])}
        if not shared or len(values) > 1:
            return row
        if row.kind is Kind.GAUGE:
            return None  # of several values only the last one written is there
        constants = dict(row.constants) | dict.fromkeys(row.labels, "")
        return replace(row, labels={}, constants=constants, note=_MIXED)

    def _lazy(self, answer: Answer, point: Point, page: Page) -> Answer:
        """Say what the absence of a single family means: Ray prints none before its first observation."""
        gauge = answer.signal.kind is Kind.GAUGE
        if gauge and point.stack and not matches(OTEL, point.stack) and has_finished(page, self.engine_families(page)):
            reason = "Ray before 2.52 keeps a gauge once it was set, and this page does not have it: dropped on the way"
            return without_value(answer, State.LOST, reason)
        if answer.signal.kind is Kind.GAUGE and point.stack and matches(">=2.57", point.stack):
            reason = "Ray drops a gauge 20 s after its last report: there is nothing to report now"
        elif answer.signal.kind is Kind.GAUGE and point.stack and matches(OTEL, point.stack):
            reason = "every scrape clears Ray's gauges (2.52 to 2.56): another scraper was here less than 10 s ago"
        else:
            reason = "Ray prints a family with its first observation; there was none yet"
        return without_value(answer, State.IDLE, reason)


SHARED_LABELS = "<0.21"
"""RayPrometheusMetric.labels() returned one shared child in vLLM 0.9.0 to 0.20.x (fixed by vllm#40840)."""
_MIXED = "vLLM before 0.21 books every reason on one label under Ray: the total is right, the reason is not kept"

_EXPECTED = (State.NATIVE, State.RENAMED, State.DERIVED, State.HIDDEN)


def _runs_llm(page: Page) -> bool:
    """Whether a Serve LLM deployment reports on this page."""
    samples = [sample for name in _LLM_EVIDENCE for sample in page.samples.get(name, [])]
    return any(sample.labels.get("deployment", "").startswith(LLM_DEPLOYMENTS) for sample in samples)


STACK = RayServeStack(
    name="ray-serve",
    title="Ray Serve",
    page="http://NODE:8080/metrics",
    releases=RELEASES,
    engine_prefixes=("ray_vllm_", "ray_vllm:", "vllm:", "vllm_"),
    markers=("ray_",),
    rows=ROWS,
    rules=RULES,
    pins=PINS,
    complete=False,
    lookalikes=("ray_vllm_engine_stats_", "ray_vllm_arg_usage_stats_"),
    label_rule=LabelRule(("model_name", "model_id"), ("engine",)),
    evidence_families=(*_LLM_EVIDENCE, "ray_node_mem_shared_bytes"),
    regained=REGAINED,
    cadences=CADENCES,
    layer_wait=LAYER_WAIT,
    endpoints=(ENGINE_VERSION, Endpoint("/v1/models", models)),
    log_place="the replica's worker-*.out under /tmp/ray/session_latest/logs (2.44: actor _EngineBackgroundProcess)",
)
