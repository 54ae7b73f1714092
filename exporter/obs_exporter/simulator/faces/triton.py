"""Triton 24.10 with the vLLM backend: Triton's own counters, and eight engine families if custom metrics are on.

The backend only hands a request over, so Triton's success counts admissions, its queue is the wait for the hand-over,
and its request duration ends there: the engine's own wait is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import EventLog
from obs_exporter.simulator.faces.base import Face, FaceInfo, PageUnavailableError, write_family
from obs_exporter.simulator.faces.tables import COUNTER, GAUGE, HISTOGRAM, Family
from obs_exporter.simulator.logs import LogBook, V1Log
from obs_exporter.simulator.page import CPP, Page

NV: tuple[Family, ...] = (
    Family("nv_inference_request_success", COUNTER, "admitted", "Requests that the backend accepted."),
    Family(
        "nv_inference_request_failure", COUNTER, "nv_failure", "Requests that failed, by reason.",
        by="reason", values=("BACKEND", "CANCELED", "OTHER", "REJECTED"),
    ),
    Family("nv_inference_count", COUNTER, "admitted", "Inferences performed."),
    Family("nv_inference_exec_count", COUNTER, "admitted", "Model executions performed."),
    Family("nv_inference_request_duration_us", COUNTER, "request_us", "Request time, microseconds."),
    Family("nv_inference_queue_duration_us", COUNTER, "queue_us", "Time in Triton's queue, microseconds."),
    Family("nv_inference_compute_input_duration_us", COUNTER, "none", "Input time, microseconds."),
    Family("nv_inference_compute_infer_duration_us", COUNTER, "handover_us", "Time in the backend, microseconds."),
    Family("nv_inference_compute_output_duration_us", COUNTER, "none", "Output time, microseconds."),
)  # fmt: skip
"""Per-model families, in the order of the page (counters first). Their values come from the layer."""

NV_GAUGES: tuple[tuple[str, float, str], ...] = (
    ("nv_pinned_memory_pool_total_bytes", 268435456, "Pinned memory pool."),
    ("nv_pinned_memory_pool_used_bytes", 0, "Pinned memory in use."),
    ("nv_cpu_utilization", 0.5, "CPU utilization, 0 to 1."),
    ("nv_cpu_memory_total_bytes", 25276059648, "RAM."),
    ("nv_cpu_memory_used_bytes", 7774380032, "RAM in use."),
)
"""Families of the machine, with the constants that we show."""

CUSTOM_COUNTERS: tuple[Family, ...] = (
    Family("vllm:prompt_tokens_total", COUNTER, "prompt_tokens", "Prompt tokens processed."),
    Family("vllm:generation_tokens_total", COUNTER, "generation_tokens", "Output tokens."),
)
CUSTOM_HISTOGRAMS: tuple[Family, ...] = (
    Family("vllm:time_to_first_token_seconds", HISTOGRAM, "ttft", "Time to first token.", edges="ttft-v0"),
    Family("vllm:time_per_output_token_seconds", HISTOGRAM, "itl", "Time between two tokens.", edges="tpot-v0"),
    Family("vllm:e2e_request_latency_seconds", HISTOGRAM, "e2e", "Time to the last token.", edges="e2e-triton"),
    Family("vllm:request_prompt_tokens", HISTOGRAM, "prompt_len", "Prompt tokens of a request.", edges="tokens"),
    Family("vllm:request_generation_tokens", HISTOGRAM, "output_len", "Output tokens of a request.", edges="tokens"),
    Family("vllm:request_params_n", HISTOGRAM, "n", "Answers asked for.", edges="n"),
)
"""What REPORT_CUSTOM_METRICS adds (backend r26.01): TPOT in name, ITL in content."""


class TritonFace(Face):
    """The metrics port 8002, custom metrics on."""

    INFO = FaceInfo("triton", "triton", "2.51.0", "0.32.0", "Triton with the vLLM backend, custom metrics on")
    CUSTOM = True
    GENERATE = True

    def __init__(self, config: Config, log: EventLog) -> None:
        super().__init__(config, log)
        self._reader = self._book((*CUSTOM_COUNTERS, *CUSTOM_HISTOGRAMS))

    def page(self, now: int) -> bytes:
        """The page at ``now`` nanoseconds. Raises PageUnavailableError while the server is down."""
        book = self._reader.at(now)
        if not book.up:
            raise PageUnavailableError("the server's process is down, and its page with it")
        page = Page(CPP)
        max_model_len = self.config.engine.max_model_len
        for family in NV:
            write_family(page, family, book.layer, self._labels, max_model_len)
        for family in CUSTOM_COUNTERS if self.CUSTOM else ():
            write_family(page, family, book.engine, self._labels, max_model_len)
        name = "nv_inference_pending_request_count"
        page.family(name, GAUGE, "Requests that wait for the backend.")
        page.sample(name, self._labels({}), book.layer.gauges["queued"])
        for name, value, meaning in NV_GAUGES:
            page.family(name, GAUGE, meaning)
            page.sample(name, {}, value)
        for family in CUSTOM_HISTOGRAMS if self.CUSTOM else ():
            write_family(page, family, book.engine, self._labels, max_model_len)
        return page.bytes()

    def _labels(self, own: Mapping[str, str]) -> dict[str, str]:
        return {"model": self.config.engine.model, **own, "version": "1"}

    def _log_book(self) -> LogBook:
        return V1Log(self.config, "tritonserver.log", periodic=False)


class TritonMetricsOffFace(TritonFace):
    """The same without REPORT_CUSTOM_METRICS: no engine family at all."""

    INFO = FaceInfo(
        "triton-metrics-off", "triton", "2.51.0", "0.32.0", "Triton with the vLLM backend, custom metrics off"
    )
    CUSTOM = False
