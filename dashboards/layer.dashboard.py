"""Serving layer: what waits before the engine, what waits inside it, and the difference."""

from __future__ import annotations

from dashboards.panels import Query, board, graph, missing, row

from dashboards import expressions as e

SIGNALS = (
    "layer_queue_wait", "queue_wait", "layer_request_duration", "request_duration", "layer_requests_queued",
    "layer_requests_ongoing", "requests_waiting", "requests_running",
)  # fmt: skip
BY = "stack, target"
TARGET = "{{target}}"


def overhead() -> str:
    """Return the layer's mean request duration less the engine's, where both time the whole request."""
    ends_with_the_answer = e.mean("layer_request_duration", BY)
    return f"({ends_with_the_answer} - {e.mean('request_duration', BY)}) unless on (stack) {BY_ADMISSION}"


BY_ADMISSION = 'llm_signal_info{stack="triton"}'

PANELS = [
    row("Waiting"),
    graph("Wait in the layer, mean", [Query(e.mean("layer_queue_wait", BY), TARGET)], "s",
          "Rate of llm_layer_queue_seconds_sum over rate of _count: the wait before the engine has the request. On "
          "Triton with the vLLM backend it ends with the admission and says nothing of the engine's queue.",
          signals=("layer_queue_wait",)),
    graph("Wait in the engine, mean", [Query(e.mean("queue_wait", BY), TARGET)], "s",
          "Rate of llm_request_queue_seconds_sum over rate of _count: the engine's own queue, behind the layer's.",
          signals=("queue_wait",)),
    graph("Wait in the engine less wait in the layer", [
        Query(f"{e.mean('queue_wait', BY)} - {e.mean('layer_queue_wait', BY)}", TARGET),
        Query(f"{e.mean('queue_wait', 'stack')} - {e.mean('layer_queue_wait', 'stack')}", "{{stack}}, all targets"),
    ], "s", "Above zero the engine is what makes requests wait, below zero the layer. The two waits may come from two "
        "targets, such as Triton's port 8002 and the engine's side port: the line over all targets is for them.",
        signals=("queue_wait", "layer_queue_wait"), floor=None),
    row("Inside"),
    graph("Requests queued in the layer", [Query(e.gauge("layer_requests_queued", BY), TARGET)], "none",
          "llm_layer_requests_queued. On Ray Serve it swings while replicas reject; on Triton it drops to zero as soon "
          "as the backend has admitted the requests.", signals=("layer_requests_queued",)),
    graph("Requests open in the layer", [Query(e.gauge("layer_requests_ongoing", BY), TARGET)], "none",
          "llm_layer_requests_ongoing: requests that the layer holds open, those inside the engine included.",
          signals=("layer_requests_ongoing",)),
    graph("Requests inside the engine", [
        Query(e.gauge("requests_running", BY), "{{target}} running"),
        Query(e.gauge("requests_waiting", BY), "{{target}} waiting"),
    ], "none", "llm_requests_running and llm_requests_waiting. What the layer holds open beyond their sum is in the "
        "layer.", signals=("requests_running", "requests_waiting")),
    row("Time"),
    graph("Request duration in the layer, mean", [Query(e.mean("layer_request_duration", BY), TARGET)], "s",
          "Rate of llm_layer_request_duration_seconds_sum over rate of _count, the engine's share included. On Triton "
          "with the vLLM backend it ends with the admission, not with the answer; on Ray Serve it is the HTTP proxy's, "
          "all routes.", signals=("layer_request_duration",)),
    graph("Request duration in the engine, mean", [Query(e.mean("request_duration", BY), TARGET)], "s",
          "Rate of llm_request_duration_seconds_sum over rate of _count.", signals=("request_duration",)),
    graph("What the layer adds, mean", [
        Query(overhead(), TARGET),
        Query(f'max by (stack, target) (llm_signal_info{{{e.IDENTITY}, stack="triton"}}) * NaN',
              "{{target}}: Triton's duration ends with the admission, no difference can be taken", now=True),
    ], "s", "The layer's mean duration less the engine's. A few seconds of offset between the two sources make short "
        "windows jump: read it over minutes. For the cost against a bare engine use obs-probe compare.",
        signals=("layer_request_duration", "request_duration"), floor=None),
    row("Not here, and why"),
    missing(SIGNALS),
]  # fmt: skip

dashboard = board(
    "llm-serving-layer", "LLM serving: the serving layer",
    "The layer's queue, the engine's queue, and the difference. A layer's wait is never shown as the engine's.", PANELS,
)  # fmt: skip
