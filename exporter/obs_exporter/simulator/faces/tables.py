"""The families that vLLM registers, as data: exposed name, type, what it counts, its buckets, and since when.

Names, labels and buckets were taken from pages of vLLM 0.7.2 and 0.32.0 and from Triton 24.10 and Ray 2.60.0 with vLLM;
HELP texts are short descriptions of our own.
"""

from __future__ import annotations

from dataclasses import dataclass

from obs_exporter.simulator.page import one_two_five

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

_LATENCY_V0 = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
_TTFT_V0 = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TPOT_V0 = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_SERVE_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 400.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0,
             60000.0, 120000.0, 300000.0, 600000.0)  # fmt: skip

EDGES: dict[str, tuple[float, ...]] = {
    "ttft": (*_TTFT_V0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
    "itl": (*_TPOT_V0, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    "latency": (*_LATENCY_V0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
    "iteration": (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0),
    "preemptions": (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
    "n": (1.0, 2.0, 5.0, 10.0, 20.0),
    "ttft-v0": _TTFT_V0,
    "tpot-v0": _TPOT_V0,
    "latency-v0": _LATENCY_V0,
    "iteration-v0": (1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0, 128.0, 256.0),
    "e2e-triton": (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    "http-highr": (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5,
                   10.0, 30.0, 60.0),
    "http": (0.1, 0.5, 1.0),
    "serve-ms": _SERVE_MS,
    "queue-ms": (10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 1500.0, 2500.0, 5000.0, 10000.0, 15000.0, 25000.0, 50000.0,
                 75000.0, 100000.0, 200000.0, 300000.0),
    "rayllm-ms": (1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 150.0, 250.0, 500.0, 1000.0, 1500.0, 2500.0, 5000.0, 7500.0,
                  10000.0, 20000.0, 30000.0),
}  # fmt: skip
"""Bucket edges by name; ``tokens`` depends on max_model_len."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: ``name`` as exposed, ``measure`` it shows; ``by`` splits it by a label into ``values``.

    ``since`` is the vLLM V1 release that first has it. ``lazy``: no series before its first event.
    """

    name: str
    kind: str
    measure: str
    meaning: str
    edges: str = ""
    by: str = ""
    values: tuple[str, ...] = ()
    since: tuple[int, int] = (0, 0)
    lazy: bool = False

    @property
    def series(self) -> tuple[tuple[dict[str, str], str], ...]:
        """(own labels, measure) of each series."""
        if not self.by:
            return (({}, self.measure),)
        return tuple(({self.by: value}, f"{self.measure}:{value}") for value in self.values)

    def bucket_edges(self, max_model_len: int) -> tuple[float, ...]:
        """The upper edges of its buckets, without +Inf."""
        return one_two_five(max_model_len) if self.edges == "tokens" else EDGES[self.edges]


def _histogram(name: str, measure: str, edges: str, meaning: str, since: tuple[int, int] = (0, 0)) -> Family:
    return Family(name, HISTOGRAM, measure, meaning, edges=edges, since=since)


_FINISH = ("stop", "length", "abort", "error", "repetition")

V1: tuple[Family, ...] = (
    Family("vllm:estimated_flops_per_gpu_total", COUNTER, "none", "Estimated floating point operations."),
    Family("vllm:estimated_read_bytes_per_gpu_total", COUNTER, "none", "Estimated bytes read."),
    Family("vllm:estimated_write_bytes_per_gpu_total", COUNTER, "none", "Estimated bytes written."),
    Family("vllm:num_requests_running", GAUGE, "running", "Requests in the running batch."),
    Family("vllm:num_requests_waiting", GAUGE, "waiting", "Requests that wait."),
    Family(
        "vllm:num_requests_waiting_by_reason", GAUGE, "waiting", "Requests that wait, by reason.",
        by="reason", values=("capacity", "deferred"), since=(0, 20),
    ),
    Family(
        "vllm:engine_sleep_state", GAUGE, "sleep", "Whether the engine is awake, offloaded or discarded.",
        by="sleep_state", values=("awake", "weights_offloaded", "discard_all"),
    ),
    Family("vllm:kv_cache_usage_perc", GAUGE, "kv_usage", "KV cache usage, 1 is full."),
    Family("vllm:prefix_cache_queries_total", COUNTER, "prefix_queries", "Tokens looked up in the prefix cache."),
    Family("vllm:prefix_cache_hits_total", COUNTER, "prefix_hits", "Tokens found in the prefix cache."),
    Family("vllm:external_prefix_cache_queries_total", COUNTER, "none", "Tokens looked up in an external cache."),
    Family("vllm:external_prefix_cache_hits_total", COUNTER, "none", "Tokens found in an external cache."),
    Family("vllm:mm_cache_queries_total", COUNTER, "none", "Items looked up in the multi-modal cache."),
    Family("vllm:mm_cache_hits_total", COUNTER, "none", "Items found in the multi-modal cache."),
    Family("vllm:num_preemptions_total", COUNTER, "preemptions", "Preemptions since the start."),
    Family("vllm:prompt_tokens_total", COUNTER, "prompt_tokens", "Prompt tokens processed."),
    Family(
        "vllm:prompt_tokens_by_source_total", COUNTER, "prompt_source", "Prompt tokens by where they came from.",
        by="source", values=("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    Family("vllm:prompt_tokens_cached_total", COUNTER, "prefix_hits", "Prompt tokens found in a cache."),
    Family(
        "vllm:prompt_tokens_cached_by_source_total", COUNTER, "cached_by", "Prompt tokens found in a cache, by tier.",
        by="source", values=("device", "host", "p2p", "disk", "external_unspecified"), since=(0, 32),
    ),
    Family("vllm:generation_tokens_total", COUNTER, "generation_tokens", "Output tokens."),
    Family(
        "vllm:request_success_total", COUNTER, "success", "Requests that finished, by reason.",
        by="finished_reason", values=_FINISH,
    ),
    Family(
        "vllm:admission_rejections_total", COUNTER, "rejections", "Requests turned away by a queue limit.",
        by="reason", values=("max_num_queued_reqs", "max_num_queued_tokens"), since=(0, 32),
    ),
    _histogram("vllm:request_prompt_tokens", "prompt_len", "tokens", "Prompt tokens of a request."),
    _histogram("vllm:request_generation_tokens", "output_len", "tokens", "Output tokens of a request."),
    _histogram("vllm:iteration_tokens_total", "iteration_tokens", "iteration", "Tokens of a step."),
    _histogram("vllm:request_max_num_generation_tokens", "output_len", "tokens", "Longest output of a request."),
    _histogram("vllm:request_params_n", "n", "n", "Answers asked for."),
    _histogram("vllm:request_params_max_tokens", "max_tokens", "tokens", "Output limit asked for."),
    _histogram("vllm:time_to_first_token_seconds", "ttft", "ttft", "Time to first token."),
    _histogram("vllm:inter_token_latency_seconds", "itl", "itl", "Time between two tokens."),
    _histogram("vllm:request_time_per_output_token_seconds", "tpot", "itl", "Mean time per output token."),
    _histogram("vllm:e2e_request_latency_seconds", "e2e", "latency", "Time from arrival to last token."),
    _histogram("vllm:request_queue_time_seconds", "queue", "latency", "Time before first scheduled."),
    _histogram("vllm:request_inference_time_seconds", "inference", "latency", "Time from scheduled to last token."),
    _histogram("vllm:request_prefill_time_seconds", "prefill", "latency", "Time from scheduled to first token."),
    _histogram("vllm:request_decode_time_seconds", "decode", "latency", "Time from first to last token."),
    _histogram("vllm:request_num_preemptions", "request_preemptions", "preemptions", "Preemptions of a request.",
               (0, 30)),
    _histogram("vllm:request_prefill_kv_computed_tokens", "kv_computed", "tokens", "KV tokens computed in prefill."),
)  # fmt: skip
"""vLLM V1 up to 0.32, in the order of its page. ``none`` never moves: registered, but fed only by switches."""


def v1(release: tuple[int, int]) -> tuple[Family, ...]:
    """The V1 families of a release (0.18 or later)."""
    return tuple(family for family in V1 if family.since <= release)


V0: tuple[Family, ...] = (
    Family("vllm:num_requests_running", GAUGE, "running", "Requests in the running batch."),
    Family("vllm:num_requests_swapped", GAUGE, "none", "Requests swapped to the CPU."),
    Family("vllm:num_requests_waiting", GAUGE, "waiting", "Requests that wait."),
    Family("vllm:gpu_cache_usage_perc", GAUGE, "kv_usage", "KV cache usage, 1 is full."),
    Family("vllm:cpu_cache_usage_perc", GAUGE, "none", "KV cache usage of the CPU's swap space, 1 is full."),
    Family("vllm:cpu_prefix_cache_hit_rate", GAUGE, "off", "Prefix cache hit rate on the CPU, -1 is off."),
    Family("vllm:gpu_prefix_cache_hit_rate", GAUGE, "off", "Prefix cache hit rate on the GPU, -1 is off."),
    Family("vllm:num_preemptions_total", COUNTER, "preemptions", "Preemptions since the start."),
    Family("vllm:prompt_tokens_total", COUNTER, "prompt_tokens", "Prompt tokens processed."),
    Family("vllm:generation_tokens_total", COUNTER, "generation_tokens", "Output tokens."),
    Family(
        "vllm:request_success_total", COUNTER, "success", "Requests that finished, by reason.",
        by="finished_reason", values=("stop", "length", "abort"), lazy=True,
    ),
    _histogram("vllm:iteration_tokens_total", "iteration_tokens", "iteration-v0", "Tokens of a step."),
    _histogram("vllm:time_to_first_token_seconds", "ttft", "ttft-v0", "Time to first token."),
    _histogram("vllm:time_per_output_token_seconds", "itl", "tpot-v0", "Time between two tokens."),
    _histogram("vllm:e2e_request_latency_seconds", "e2e", "latency-v0", "Time from arrival to last token."),
    _histogram("vllm:request_queue_time_seconds", "queue_v0", "latency-v0", "Time before first scheduled."),
    _histogram("vllm:request_inference_time_seconds", "inference", "latency-v0", "Time from scheduled to the end."),
    _histogram("vllm:request_prefill_time_seconds", "prefill", "latency-v0", "Time from scheduled to first token."),
    _histogram("vllm:request_decode_time_seconds", "decode", "latency-v0", "Time from first to last token."),
    _histogram("vllm:time_in_queue_requests", "queue_v0", "latency-v0", "Time before first scheduled."),
    _histogram("vllm:request_prompt_tokens", "prompt_len", "tokens", "Prompt tokens of a request."),
    _histogram("vllm:request_generation_tokens", "output_len", "tokens", "Output tokens of a request."),
    _histogram("vllm:request_params_n", "n", "n", "Answers asked for."),
    _histogram("vllm:request_max_num_generation_tokens", "output_len", "tokens", "Longest output of a request."),
    _histogram("vllm:request_params_max_tokens", "max_tokens", "tokens", "Output limit asked for."),
)  # fmt: skip
"""vLLM 0.7.2, V0 engine, as its multi-process page shows it after load."""

CACHE_CONFIG_V1: dict[str, str] = {
    "_block_size_resolved": "True", "block_size": "", "cache_dtype": "auto", "cache_hit_alignment_tokens": "None",
    "effective_attention_block_size": "", "enable_mamba_shared_prefix_checkpoint": "False",
    "enable_prefix_caching": "True", "engine": "0", "gpu_memory_utilization": "0.92", "hash_block_size": "None",
    "is_attention_free": "False", "kv_cache_dtype_skip_layers": "[]", "kv_cache_layout": "None",
    "kv_cache_max_concurrency": "", "kv_cache_memory_bytes": "None", "kv_cache_size_tokens": "",
    "kv_offloading_backend": "native", "kv_offloading_size": "None", "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None", "mamba_cache_dtype": "auto", "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None", "mamba_ssm_cache_dtype": "float32", "num_cpu_blocks": "None",
    "num_gpu_blocks": "", "num_gpu_blocks_override": "None", "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256", "prefix_match_unit": "None", "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None", "sliding_window": "None", "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False", "use_replayssm": "False", "user_specified_block_size": "False",
}  # fmt: skip
"""Labels of vllm:cache_config_info in 0.32; the empty ones are filled in from the engine."""

CACHE_CONFIG_V0: dict[str, str] = {
    "block_size": "", "cache_dtype": "auto", "calculate_kv_scales": "False", "cpu_offload_gb": "0",
    "enable_prefix_caching": "False", "gpu_memory_utilization": "0.9", "is_attention_free": "False",
    "num_cpu_blocks": "0", "num_gpu_blocks": "", "num_gpu_blocks_override": "None", "sliding_window": "None",
    "swap_space_bytes": "0",
}  # fmt: skip
"""Labels of vllm:cache_config_info in 0.7.2."""
