"""The signals: one row each. Adding a row makes every stack answer for it (a test refuses silence)."""

from __future__ import annotations

from dataclasses import dataclass

from obs_exporter.schema.vocabulary import Aggregation, Kind, Stability

_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM
_SUM, _MAX = Aggregation.SUM, Aggregation.MAX


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal of the common schema.

    ``metric`` is the sample name for gauges and counters (counters with ``_total``) and the family name for
    histograms. ``labels`` are the labels beyond stack, target, model and engine. ``unit`` is a base unit
    (seconds, bytes, ratio 0..1, tokens, requests). ``meaning`` is the HELP text.
    """

    id: str
    metric: str
    kind: Kind
    unit: str
    meaning: str
    aggregation: Aggregation = _SUM
    labels: tuple[str, ...] = ()
    layer: bool = False
    stability: Stability = Stability.STABLE

    @property
    def family(self) -> str:
        """The family name: the metric without a counter's ``_total``."""
        return self.metric.removesuffix("_total") if self.kind is Kind.COUNTER else self.metric

    @property
    def label_names(self) -> tuple[str, ...]:
        """All label names that its series carry, in order."""
        if self.metric.startswith("llm_gpu_"):
            return ("stack", "target", *self.labels)
        return ("stack", "target", "model", "engine", *self.labels)


SIGNALS: tuple[Signal, ...] = (
    Signal(
        "requests_running", "llm_requests_running", _GAUGE, "requests",
        "Requests in the engine's running batch.",
    ),
    Signal(
        "requests_waiting", "llm_requests_waiting", _GAUGE, "requests",
        "Requests that wait in the engine's own queue.",
    ),
    Signal(
        "requests_waiting_by_reason", "llm_requests_waiting_by_reason", _GAUGE, "requests",
        "Requests that wait in the engine's own queue, by why they wait.",
        labels=("reason",), stability=Stability.BETA,
    ),
    Signal(
        "kv_cache_usage", "llm_kv_cache_usage_ratio", _GAUGE, "ratio",
        "Share of the KV cache blocks in use, 0 to 1; of several replicas behind one target, the fullest.",
        aggregation=_MAX,
    ),
    Signal(
        "kv_cache_capacity", "llm_kv_cache_capacity_tokens", _GAUGE, "tokens",
        "Tokens that the KV cache can hold.",
        aggregation=_MAX,
    ),
    Signal(
        "kv_cache_max_concurrency", "llm_kv_cache_max_concurrency", _GAUGE, "requests",
        "Requests of full context length that the KV cache can hold at once: an estimate, not a number of users.",
        aggregation=_MAX,
    ),
    Signal(
        "preemptions", "llm_preemptions_total", _COUNTER, "preemptions",
        "Requests that the engine pushed out of the running batch because the KV cache was full.",
    ),
    Signal(
        "queue_wait", "llm_request_queue_seconds", _HISTOGRAM, "seconds",
        "Time a request waited in the engine's queue before it was first scheduled.",
    ),
    Signal(
        "ttft", "llm_time_to_first_token_seconds", _HISTOGRAM, "seconds",
        "Time from a request's arrival to its first token (TTFT).",
    ),
    Signal(
        "inter_token_latency", "llm_inter_token_latency_seconds", _HISTOGRAM, "seconds",
        "Time between two output tokens of a request, one observation a gap (ITL).",
    ),
    Signal(
        "time_per_output_token", "llm_time_per_output_token_seconds", _HISTOGRAM, "seconds",
        "Mean time per output token after the first, one observation a request (TPOT).",
    ),
    Signal(
        "request_duration", "llm_request_duration_seconds", _HISTOGRAM, "seconds",
        "Time from a request's arrival to its last token (E2E).",
    ),
    Signal(
        "prefill_time", "llm_request_prefill_seconds", _HISTOGRAM, "seconds",
        "Time from first scheduling to the first token of a request.",
    ),
    Signal(
        "decode_time", "llm_request_decode_seconds", _HISTOGRAM, "seconds",
        "Time from the first to the last token of a request.",
    ),
    Signal("prompt_tokens", "llm_prompt_tokens_total", _COUNTER, "tokens", "Prompt tokens processed."),
    Signal("generation_tokens", "llm_generation_tokens_total", _COUNTER, "tokens", "Output tokens generated."),
    Signal(
        "prefix_cache_queries", "llm_prefix_cache_queries_total", _COUNTER, "tokens or blocks",
        "Prefix cache look-ups, in the unit that the unit label names.",
        labels=("unit",),
    ),
    Signal(
        "prefix_cache_hits", "llm_prefix_cache_hits_total", _COUNTER, "tokens or blocks",
        "Prefix cache hits, in the unit that the unit label names.",
        labels=("unit",),
    ),
    Signal(
        "requests_finished", "llm_requests_finished_total", _COUNTER, "requests",
        "Requests that the engine finished, by the reason of their end. Client aborts may be missing (vLLM V1).",
        labels=("finished_reason",),
    ),
    Signal(
        "layer_queue_wait", "llm_layer_queue_seconds", _HISTOGRAM, "seconds",
        "Time a request waited in the serving layer, before the engine saw it. Never the engine's own queue.",
        layer=True,
    ),
    Signal(
        "layer_request_duration", "llm_layer_request_duration_seconds", _HISTOGRAM, "seconds",
        "Time a request spent in the serving layer, the engine's share included.",
        layer=True,
    ),
    Signal(
        "layer_requests_queued", "llm_layer_requests_queued", _GAUGE, "requests",
        "Requests that wait in the serving layer.",
        layer=True,
    ),
    Signal(
        "layer_requests_ongoing", "llm_layer_requests_ongoing", _GAUGE, "requests",
        "Requests that the serving layer holds open.",
        layer=True,
    ),
    Signal(
        "gpu_memory_used", "llm_gpu_memory_used_bytes", _GAUGE, "bytes", "GPU memory in use.",
        labels=("gpu",), stability=Stability.BETA,
    ),
    Signal(
        "gpu_memory_total", "llm_gpu_memory_total_bytes", _GAUGE, "bytes", "GPU memory installed.",
        labels=("gpu",), stability=Stability.BETA,
    ),
    Signal(
        "gpu_utilization", "llm_gpu_utilization_ratio", _GAUGE, "ratio",
        "Share of time with at least one kernel on the GPU, 0 to 1.",
        aggregation=_MAX, labels=("gpu",), stability=Stability.BETA,
    ),
)  # fmt: skip

BY_ID: dict[str, Signal] = {signal.id: signal for signal in SIGNALS}
