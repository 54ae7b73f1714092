"""Serving overview: all stacks side by side, in the same units, from the same names."""

from __future__ import annotations

from dashboards.panels import Placed, Query, board, graph, missing, row, stat

from dashboards import expressions as e

SIGNALS = (
    "requests_running", "requests_waiting", "requests_waiting_by_reason", "kv_cache_usage", "kv_cache_capacity",
    "preemptions", "queue_wait", "ttft", "inter_token_latency", "request_duration", "prompt_tokens",
    "generation_tokens", "prefix_cache_queries", "prefix_cache_hits", "requests_finished",
)  # fmt: skip

UP = f"obs_exporter_target_up{{{e.IDENTITY}}}"
INFO = f"llm_signal_info{{{e.IDENTITY}}}"
PUBLISHED = f'llm_signal_info{{{e.IDENTITY}, state=~"{e.PUBLISHED}"}}'


def quantiles(title: str, signal: str, description: str) -> Placed:
    """Make a panel of the median and the 95th percentile of a histogram."""
    queries = [
        Query(e.quantile(0.5, signal), "{{target}} {{model}} p50"),
        Query(e.quantile(0.95, signal), "{{target}} {{model}} p95"),
    ]
    return graph(title, queries, "s", f"{description} Interpolated inside buckets.", signals=(signal,))


PANELS = [
    row("Now"),
    stat("Targets", [Query(f"count({UP})", "targets"), Query(f"count({UP} == 0) or count({UP}) * 0", "down")],
         "none", "How many targets the exporters look at (obs_exporter_target_up), and of how many the page cannot be "
         "read."),
    stat("Signals with a value", [Query(f"count by (stack) ({PUBLISHED}) / count by (stack) ({INFO})", "{{stack}}")],
         "percentunit", "Share of the schema's signals that are published, over a stack's targets: llm_signal_info "
         "in a state with a value over all of it."),
    stat("Requests inside", [Query(
        f"sum by (stack) ({e.gauge('requests_running')}) + sum by (stack) ({e.gauge('requests_waiting')})",
        "{{stack}}"), Query(e.state("requests_running"), "{{target}}: {{state}}")],
        "none", "Running and waiting requests of the engines, now. A gauge that is read every few seconds misses what "
        "comes and goes in between. A target without the signal is named with its state."),
    stat("Output tokens a second, by stack", [Query(f"sum by (stack) ({e.rate('generation_tokens')})", "{{stack}}"),
                                    Query(e.state("generation_tokens"), "{{target}}: {{state}}")],
         "suffix: tok/s", "rate(llm_generation_tokens_total), added up over targets."),
    row("Load"),
    graph("Requests running", [Query(e.gauge("requests_running"))], "none",
          "Requests in the running batch (llm_requests_running), over all replicas.", signals=("requests_running",)),
    graph("Requests waiting", [Query(e.gauge("requests_waiting"))], "none",
          "Requests in the engine's own queue (llm_requests_waiting), added up over replicas. What waits in a serving "
          "layer before the engine is on the board Serving layer.", signals=("requests_waiting",)),
    graph("Requests waiting, by reason",
          [Query(e.gauge("requests_waiting_by_reason", f"{e.BY}, reason"), "{{target}} {{model}} {{reason}}")], "none",
          "llm_requests_waiting_by_reason: capacity means that the KV cache or the batch is full. vLLM 0.20.0 and "
          "newer.", signals=("requests_waiting_by_reason",)),
    row("KV cache"),
    graph("KV cache usage", [Query(e.gauge("kv_cache_usage"))], "percentunit",
          "Share of the KV cache blocks in use (llm_kv_cache_usage_ratio); of several replicas the fullest. At 100 % "
          "the engine preempts.", signals=("kv_cache_usage",), top=1),
    graph("Preemptions a second", [Query(e.rate("preemptions"))], "cps",
          "rate(llm_preemptions_total): requests pushed out of the batch because the KV cache was full. Each is "
          "computed again from its prompt.", signals=("preemptions",)),
    graph("Prefix cache hit ratio",
          [Query(f"{e.rate('prefix_cache_hits')} / {e.rate('prefix_cache_queries')}")], "percentunit",
          "Rate of hits over rate of look-ups, in tokens (in blocks before vLLM 0.9). No line: no look-ups.",
          signals=("prefix_cache_queries", "prefix_cache_hits"), top=1),
    row("Latency, as the engine sees it"),
    graph("Queue wait, mean", [Query(e.mean("queue_wait"))], "s",
          "Rate of llm_request_queue_seconds_sum over rate of _count: the mean wait of requests that were scheduled "
          "in the window. Works on every stack with the signal; on Ray 2.52 and newer the sum is rebuilt from bucket "
          "midpoints (precision bucket) and can be far off.", signals=("queue_wait",)),
    quantiles("Time to first token (TTFT)", "ttft",
              "Quantiles of llm_time_to_first_token_seconds. Requests that clients abort never reach it: in overload "
              "it flatters; the load probe does not."),
    quantiles("Inter-token latency (ITL)", "inter_token_latency",
              "Quantiles of llm_inter_token_latency_seconds: one observation a gap between tokens, not one a request."),
    quantiles("Request duration (E2E)", "request_duration",
              "Quantiles of llm_request_duration_seconds: arrival to last token."),
    graph("Queue wait, p95", [Query(e.quantile(0.95, "queue_wait"))], "s",
          "95th percentile of llm_request_queue_seconds. No line where the stack gives only sum and count (one bucket, "
          "+Inf): the mean beside it still works.", signals=("queue_wait",)),
    graph("Requests finished a second",
          [Query(e.rate("requests_finished", f"{e.BY}, finished_reason"), "{{target}} {{model}} {{finished_reason}}")],
          "reqps", "rate(llm_requests_finished_total) by the reason of the end.", signals=("requests_finished",)),
    row("Throughput and goodput"),
    graph("Output tokens a second", [Query(e.rate("generation_tokens"))], "suffix: tok/s",
          "rate(llm_generation_tokens_total), added up over replicas.", signals=("generation_tokens",)),
    graph("Prompt tokens a second", [Query(e.rate("prompt_tokens"))], "suffix: tok/s",
          "rate(llm_prompt_tokens_total). Whether tokens from the prefix cache count is up to the engine's version.",
          signals=("prompt_tokens",)),
    graph("Goodput", [
        Query(e.goodput_bound(), "{{target}} {{model}}, at most"),
        Query(f"sum by (target) (rate(llm_probe_good_requests_total{{target=~\"$target\"}}{e.WINDOW})) / "
              f"sum by (target) (rate(llm_probe_requests_total{{target=~\"$target\"}}{e.WINDOW}))",
              "{{target}}, measured by the probe"),
    ], "percentunit",
        "Share of requests with TTFT <= 0.5 s and E2E <= 10 s. The engine's histograms cannot tell how many met both: "
        "their line is an upper bound, the smaller of the two shares, aborted requests not counted. The probe's is "
        "measured: good requests over all requests sent, failures included.",
        signals=("ttft", "request_duration"), top=1),
    row("Not here, and why"),
    missing(SIGNALS),
]  # fmt: skip

dashboard = board(
    "llm-serving-overview", "LLM serving: overview",
    "All stacks in one schema. A target that lacks a signal is named in the panel's legend, with the reason.", PANELS,
)  # fmt: skip
