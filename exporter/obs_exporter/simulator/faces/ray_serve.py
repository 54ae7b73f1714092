"""Ray Serve LLM 2.60 over vLLM 0.29: the OpenTelemetry path.

Histogram sums are rebuilt from bucket midpoints; counters appear with their first event; gauges of the engine vanish
20 s after its last step; the two info-like gauges live 20 s after the start of their process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from obs_exporter.simulator.faces import serve_families as serve
from obs_exporter.simulator.faces.base import FaceInfo, max_concurrency
from obs_exporter.simulator.faces.ray import ROUTE, RayFace, Row
from obs_exporter.simulator.faces.tables import CACHE_CONFIG_V1, COUNTER, GAUGE, HISTOGRAM, Family, v1
from obs_exporter.simulator.ledger import Buckets
from obs_exporter.simulator.logs import LogBook, V1Log
from obs_exporter.simulator.page import Page

GAUGE_LIFETIME_S = 20.0
"""From Ray 2.57: twice the report interval."""

INGRESS = {"deployment": "OpenAiIngress"}
SERVER = {"deployment": "LLMServer:{model}"}
_HANDLE = {"actor_id": "{actor}", "application": "default"}

_FULFILMENT = Family(
    "ray_serve_request_router_fulfillment_time_ms", HISTOGRAM, "router_attempt_ms",
    "Time until a replica was found, one observation an attempt.", edges="serve-ms",
)  # fmt: skip
_HOP = Family(_FULFILMENT.name, HISTOGRAM, "hop_ms", _FULFILMENT.meaning, edges="serve-ms")
_HANDLED = Family("ray_serve_handle_request_counter_total", COUNTER, "arrived", "Requests of a handle.")
_HANDLED_ON = Family(_HANDLED.name, COUNTER, "dispatched", _HANDLED.meaning)

SERVE: tuple[Row, ...] = (
    Row(_FULFILMENT, "proxy", "layer", {**_HANDLE, **INGRESS, "handle_source": "PROXY"}),
    Row(_HOP, "ingress", "layer", {**_HANDLE, **SERVER, "handle_source": "REPLICA"}),
    Row(serve.HTTP, "proxy", "layer", {**ROUTE, "method": "POST", "status_code": "200"}),
    Row(serve.PROCESSING, "ingress", "layer", {**ROUTE, **INGRESS, "replica": "{ingress}"}),
    Row(serve.PROCESSING, "engine", "layer", {**ROUTE, **SERVER, "replica": "{replica}"}),
    Row(serve.QUEUED, "proxy", "layer", {**_HANDLE, **INGRESS, "handle": "30z8c22j"}),
    Row(serve.NOT_QUEUED, "ingress", "layer", {**_HANDLE, **SERVER, "handle": "ws4ppohi"}),
    Row(serve.SENT, "proxy", "layer", {**_HANDLE, **INGRESS, "handle": "30z8c22j"}),
    Row(serve.SENT, "ingress", "layer", {**_HANDLE, **SERVER, "handle": "ws4ppohi"}),
    Row(serve.PROCESSED, "ingress", "layer", {"application": "default", **INGRESS, "replica": "{ingress}"}),
    Row(serve.PROCESSED, "engine", "layer", {"application": "default", **SERVER, "replica": "{replica}"}),
    Row(
        serve.ONGOING, "proxy", "layer", {"node_id": "{node}", "node_ip_address": "127.0.0.1"},
        lifetime_s=GAUGE_LIFETIME_S,
    ),
    Row(serve.ROUTED, "proxy", "layer", {**_HANDLE, **INGRESS, **ROUTE, "handle": "30z8c22j"}),
    Row(serve.ROUTED, "ingress", "layer", {**_HANDLE, **SERVER, **ROUTE, "handle": "ws4ppohi"}),
    Row(_HANDLED, "proxy", "layer", {**INGRESS, **ROUTE, "handle": "default#OpenAiIngress#30z8c22j"}),
    Row(_HANDLED_ON, "ingress", "layer", {**SERVER, **ROUTE, "handle": "default#LLMServer:{model}#ws4ppohi"}),
    Row(serve.SERVED, "ingress", "layer", {**INGRESS, **ROUTE, "replica": "{ingress}"}),
    Row(serve.SERVED, "engine", "layer", {**SERVER, **ROUTE, "replica": "{replica}"}),
    Row(serve.ANSWERED, "proxy", "layer", {**ROUTE, "method": "POST", "status_code": "200"}),
    Row(serve.FAILED, "proxy", "layer", {**ROUTE, "method": "POST", "error_code": "500"}),
)  # fmt: skip
"""Serve's own families, with the labels of 2.60.0."""


class RayServeFace(RayFace):
    """The agent's page of Ray 2.60.0 with ``log_engine_metrics`` on (its default)."""

    INFO = FaceInfo("ray-serve", "ray-serve", "2.60.0", "0.29.0", "Ray Serve LLM, OpenTelemetry, engine metrics on")
    VERSION = "2.60.0"
    NODE = {"RayNodeType": "head"}  # noqa: RUF012 - a constant of the class
    SCOPE = {  # noqa: RUF012 - a constant of the class
        "otel_scope_name": "ray._private.telemetry.open_telemetry_metric_recorder",
        "otel_scope_schema_url": "",
        "otel_scope_version": "",
    }

    def rows(self) -> Iterable[Row]:
        """Serve's rows, then the engine's families under Ray's names."""
        yield from SERVE
        labels = {"ReplicaId": "{replica}", "engine": "0", "model_name": "{model}"}
        for family in v1((0, 29)):
            young = GAUGE_LIFETIME_S if family.measure == "sleep" else 0.0
            lifetime = GAUGE_LIFETIME_S if family.kind == GAUGE else 0.0
            yield Row(_renamed(family), "engine", "engine", labels, lifetime, young)
        info = Family("ray_vllm_cache_config_info", GAUGE, "sleep:awake", "The engine's cache configuration.")
        yield Row(info, "engine", "engine", labels | self._cache_config(), young_s=GAUGE_LIFETIME_S)

    def total(self, buckets: Buckets) -> float:
        """The sum rebuilt from bucket midpoints."""
        return buckets.midpoint_sum

    def prologue(self, page: Page) -> None:
        """The mark of the OpenTelemetry exporter."""
        page.family("target_info", GAUGE, "Target metadata")
        labels = {
            "service_instance_id": "00000000-0000-4000-8000-000000000000",
            "service_name": "ray-dashboard-agent",
            "telemetry_sdk_language": "python",
            "telemetry_sdk_name": "opentelemetry",
            "telemetry_sdk_version": "1.45.2",
        }
        page.sample("target_info", labels, 1.0)

    def _cache_config(self) -> dict[str, str]:
        engine = self.config.engine
        return CACHE_CONFIG_V1 | {
            "block_size": str(engine.block_size),
            "effective_attention_block_size": str(engine.block_size),
            "num_gpu_blocks": str(engine.num_blocks),
            "kv_cache_size_tokens": str(engine.num_blocks * engine.block_size),
            "kv_cache_max_concurrency": str(max_concurrency(engine)),
        }

    def _log_book(self) -> LogBook:
        # Nobody calls the engine's periodic logger in Serve LLM with V1: only the start-up line is there.
        return V1Log(self.config, "worker-000000-01000000-521.out", periodic=False)


def _renamed(family: Family) -> Family:
    """vLLM's wrapper replaces what Ray's names cannot hold, Ray's agent adds its prefix."""
    name = "ray_" + re.sub(r"[^a-zA-Z0-9_]", "_", family.name)
    return Family(
        name, family.kind, family.measure, family.meaning, edges=family.edges, by=family.by, values=family.values
    )
