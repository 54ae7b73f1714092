"""Families of Ray Serve itself that 2.44 and 2.60 print alike, whatever runs on it."""

from __future__ import annotations

from obs_exporter.simulator.faces.tables import COUNTER, GAUGE, HISTOGRAM, Family

HTTP = Family("ray_serve_http_request_latency_ms", HISTOGRAM, "http_ms", "Latency at the proxy.", edges="serve-ms")
PROCESSING = Family(
    "ray_serve_deployment_processing_latency_ms", HISTOGRAM, "replica_ms", "Latency inside the replica.",
    edges="serve-ms",
)  # fmt: skip
QUEUED = Family("ray_serve_deployment_queued_queries", GAUGE, "queued", "Requests that wait in a handle's router.")
NOT_QUEUED = Family(QUEUED.name, GAUGE, "none", QUEUED.meaning)
SENT = Family("ray_serve_num_ongoing_requests_at_replicas", GAUGE, "at_replica", "Requests at replicas.")
PROCESSED = Family("ray_serve_replica_processing_queries", GAUGE, "at_replica", "Requests in the replica.")
ONGOING = Family("ray_serve_num_ongoing_http_requests", GAUGE, "ongoing", "Requests open at the proxy.")
ROUTED = Family("ray_serve_num_router_requests_total", COUNTER, "dispatched", "Requests routed.")
SERVED = Family("ray_serve_deployment_request_counter_total", COUNTER, "ended:ok", "Requests processed.")
ANSWERED = Family("ray_serve_num_http_requests_total", COUNTER, "ended:ok", "HTTP requests processed.")
FAILED = Family("ray_serve_num_http_error_requests_total", COUNTER, "ended:lost", "HTTP requests that failed.")
