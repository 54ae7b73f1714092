"""The bare engine: ``vllm serve`` or ``python -m vllm.entrypoints.openai.api_server``, page on the API port."""

from __future__ import annotations

from obs_exporter.exposition import Page
from obs_exporter.schema import State
from obs_exporter.stacks import engine
from obs_exporter.stacks.base import GPU_RULE, LAYER_SIGNALS, Stack, by_rule
from obs_exporter.stacks.catalogue import catalogue
from obs_exporter.stacks.endpoints import ENGINE_VERSION
from obs_exporter.stacks.model import Answer, Point, Rule

SPELLINGS = ("vllm:", "vllm_", "kserve_vllm:", "kserve_vllm_")
"""``vllm_`` is what prometheus_client >= 0.23 makes of it for an OpenMetrics scraper without escaping=allow-utf-8 (that
is Prometheus 2); ``kserve_vllm:`` are the twins that Open Data Hub's monitors add by relabelling."""

LAYER_MARKERS = ("nv_inference_", "ray_serve_", "ray_vllm", "ray_node_")
"""Families of layers that carry the engine's own beside theirs, or instead of them."""

SERVER_FAMILIES = ("http_requests_total", "http_request_duration_seconds", "http_request_duration_highr_seconds")
"""Families of vLLM's HTTP server, which stay when the engine's own are off."""

DISABLED = Rule(
    engine.SIGNALS, State.HIDDEN,
    "the page has the HTTP server's families and none of the engine's: --disable-log-stats is set",
    remedy="start the engine without --disable-log-stats",
    cost="a restart of the engine",
    source="seen on vLLM 0.32.0; V1 >= 0.7.3 and V0 make no metrics logger under this flag",
)  # fmt: skip


class VllmStack(Stack):
    """vLLM alone."""

    def unrecognised(self, page: Page) -> str:
        """Say why the page is not vLLM's; a vLLM whose stats are off is told by its HTTP server's families."""
        layer = next((name for name in page.types if name.startswith(LAYER_MARKERS)), "")
        if layer:
            return f"this page is a serving layer's, not the engine's own: it has {layer}"
        if self.engine_families(page) or stats_are_off(page):
            return ""
        return (
            "no vllm: family is on this page: it is another program's, or a vLLM with --disable-log-stats that has "
            "answered no request yet (GET /version tells)"
        )

    def lacking(self, answer: Answer, point: Point, page: Page) -> Answer:
        """Blame ``--disable-log-stats`` where no engine family is there at all."""
        if answer.state.publishes and answer.signal.id in DISABLED.signals and not self.engine_families(page):
            return by_rule(answer, DISABLED)
        return super().lacking(answer, point, page)


def stats_are_off(page: Page) -> bool:
    """Whether this is an OpenAI server's page without the engine's families."""
    samples = [sample for name in SERVER_FAMILIES for sample in page.samples.get(name, [])]
    return any(sample.labels.get("handler", "").startswith("/v1/") for sample in samples)


NO_LAYER = Rule(LAYER_SIGNALS, State.NOT_APPLICABLE, "no serving layer stands before the engine")

STACK = VllmStack(
    name="vllm",
    title="vLLM",
    page="http://HOST:8000/metrics",
    releases=catalogue().releases,
    engine_prefixes=SPELLINGS,
    markers=("vllm:", "vllm_"),
    rules=(NO_LAYER, GPU_RULE),
    is_engine=True,
    mangled_prefixes=("vllm_", "kserve_vllm_"),
    evidence_families=SERVER_FAMILIES,
    endpoints=(ENGINE_VERSION,),
    regained=(
        *engine.log_ways("the engine's periodic log line has it, under load"),
        *engine.START_WAYS,
        engine.LITTLE,
    ),
    log_place="the server's standard output",
)
