"""Ray Serve LLM 2.44 over the V0 engine: Ray's own engine_stats and rayllm families, OpenCensus.

No engine family of vLLM is there. ``time_in_queue_ms`` holds seconds; sums are exact; counters have gauge twins.
"""

from __future__ import annotations

from collections.abc import Iterable

from obs_exporter.simulator.faces import serve_families as serve
from obs_exporter.simulator.faces.base import FaceInfo
from obs_exporter.simulator.faces.ray import RayFace, Row, identity
from obs_exporter.simulator.faces.tables import COUNTER, GAUGE, HISTOGRAM, Family
from obs_exporter.simulator.logs import LogBook, Ray244Log

_STATS, _ARGS, _LLM = "ray_vllm_engine_stats_", "ray_vllm_arg_usage_stats_", "ray_rayllm_"
_STREAM = f"{_LLM}router_get_response_stream_"
_USER = {"model_id": "{model}", "user_id": "unknown"}

ENGINE: tuple[Family, ...] = (
    Family(f"{_STATS}num_current_pending_requests", GAUGE, "pending", "Requests without a first token."),
    Family(f"{_STATS}num_current_running_requests", GAUGE, "streaming", "Requests with a first token."),
    Family(f"{_STATS}total_requests_submitted_total", COUNTER, "submitted", "Requests submitted."),
    Family(f"{_STATS}total_requests_started_total", COUNTER, "started", "Requests started."),
    Family(f"{_STATS}total_requests_finished_total", COUNTER, "finished", "Requests finished."),
    Family(f"{_STATS}total_requests_cancelled_total", COUNTER, "cut:aborted", "Requests cancelled."),
    Family(f"{_STATS}total_requests_errored_total", COUNTER, "cut:lost", "Requests that failed."),
    Family(f"{_STATS}time_in_queue_ms", HISTOGRAM, "queue_v0", "Time in the queue.", edges="queue-ms"),
    Family(f"{_ARGS}stop_usage_count_total", COUNTER, "submitted", "Requests that set stop."),
    Family(f"{_ARGS}best_of_usage_count_total", COUNTER, "submitted", "Requests that set best_of."),
    Family(f"{_ARGS}max_tokens_usage_count_total", COUNTER, "submitted", "Requests that set max_tokens."),
    Family(f"{_ARGS}temperature_usage_count_total", COUNTER, "submitted", "Requests that set temperature."),
    Family(f"{_STREAM}first_token_latency_ms", HISTOGRAM, "first_burst_ms", "Time to the first burst.",
           edges="rayllm-ms"),
    Family(f"{_STREAM}per_token_latency_ms", HISTOGRAM, "burst_ms", "Time between bursts.", edges="rayllm-ms"),
    Family(f"{_STREAM}total_latency_ms", HISTOGRAM, "stream_ms", "Time to the last burst.", edges="rayllm-ms"),
)  # fmt: skip
"""Families of the LLMDeployment's process without a model label. ``time_in_queue_ms`` observes seconds."""

LLM: tuple[Family, ...] = (
    Family(f"{_LLM}requests_started_total", COUNTER, "submitted", "Requests started."),
    Family(f"{_LLM}requests_finished_total", COUNTER, "finished", "Requests finished."),
    Family(f"{_LLM}tokens_input_total", COUNTER, "prompt_tokens", "Prompt tokens."),
    Family(f"{_LLM}tokens_generated_total", COUNTER, "generation_tokens", "Output tokens."),
)
"""Families with model_id and user_id."""

_ROUTER = {"deployment": "LLMRouter"}
_SERVER = {"deployment": "LLMDeployment:{model}"}
_HANDLE = {"actor_id": "{actor}", "application": "default"}
_ROOT = {"application": "default", "route": "/"}
_CHAT = {"application": "default", "route": "/v1/chat/completions"}


SERVE: tuple[Row, ...] = (
    Row(serve.HTTP, "proxy", "layer", {**_ROOT, "method": "POST", "status_code": "200"}),
    Row(serve.PROCESSING, "ingress", "layer", {**_CHAT, **_ROUTER, "replica": "{ingress}"}),
    Row(serve.PROCESSING, "engine", "layer", {**_CHAT, **_SERVER, "replica": "{replica}"}),
    Row(serve.QUEUED, "proxy", "layer", {**_HANDLE, **_ROUTER, "handle": "1stdhusi"}),
    Row(serve.NOT_QUEUED, "ingress", "layer", {**_HANDLE, **_SERVER, "handle": "p2walfh1"}),
    Row(serve.SENT, "proxy", "layer", {**_HANDLE, **_ROUTER, "handle": "1stdhusi"}),
    Row(serve.SENT, "ingress", "layer", {**_HANDLE, **_SERVER, "handle": "p2walfh1"}),
    Row(serve.PROCESSED, "ingress", "layer", {"application": "default", **_ROUTER, "replica": "{ingress}"}),
    Row(serve.PROCESSED, "engine", "layer", {"application": "default", **_SERVER, "replica": "{replica}"}),
    Row(serve.ONGOING, "proxy", "layer", {"node_id": "{node}", "node_ip_address": "127.0.0.1"}),
    Row(serve.ROUTED, "proxy", "layer", {**_HANDLE, **_ROUTER, "handle": "1stdhusi", "route": "/"}),
    Row(serve.ROUTED, "ingress", "layer", {**_HANDLE, **_SERVER, **_CHAT, "handle": "p2walfh1"}),
    Row(serve.SERVED, "ingress", "layer", {**_ROUTER, **_CHAT, "replica": "{ingress}"}),
    Row(serve.SERVED, "engine", "layer", {**_SERVER, **_CHAT, "replica": "{replica}"}),
    Row(serve.ANSWERED, "proxy", "layer", {**_ROOT, "method": "POST", "status_code": "200"}),
    Row(serve.FAILED, "proxy", "layer", {**_ROOT, "method": "POST", "error_code": "500"}),
)
"""Serve's own families, with the labels of 2.44.1. Of the default two routers, one is simulated."""


class RayServe244Face(RayFace):
    """The agent's page of Ray 2.44.1."""

    INFO = FaceInfo("ray-serve-2.44", "ray-serve", "2.44.1", "0.7.2", "Ray Serve LLM 2.44 over the V0 engine")
    VERSION = "2.44.1"
    TWINS = True

    def rows(self) -> Iterable[Row]:
        """Serve's rows, then those of the LLMDeployment's process."""
        yield from SERVE
        for family in ENGINE:
            yield Row(family, "engine", "engine", {})
        for family in LLM:
            yield Row(family, "engine", "engine", _USER)

    def _log_book(self) -> LogBook:
        worker = f"worker-{identity('worker engine 0', 56)}-01000000-640.out"
        deployment = f"LLMDeployment:{self.config.engine.model}"
        return Ray244Log(self.config, worker, deployment, identity("replica 0", 8))
