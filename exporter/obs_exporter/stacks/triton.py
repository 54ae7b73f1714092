"""NVIDIA Triton with the vLLM backend: ``nv_*`` of its own, and eight or nine of the engine's families behind a switch.

Read in the release branches r24.07 to r26.01 of core, server and vllm_backend; names and semantics seen on Triton
2.51.0 (24.10) with the r26.01 backend over vLLM 0.32.0. ``nv_inference_*`` count a request when the backend admits it:
they are the layer's numbers, never the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass

from obs_exporter.exposition import Page
from obs_exporter.schema import Kind, Precision, Provenance, State
from obs_exporter.stacks import engine
from obs_exporter.stacks.base import ELSEWHERE, GPU_SIGNALS, Pin, Stack, by_rule, without_value
from obs_exporter.stacks.endpoints import Endpoint
from obs_exporter.stacks.model import Answer, Claims, Point, Regained, Row, Rule
from obs_exporter.stacks.versions import UNKNOWN, Known, key

RELEASES = (
    "24.07", "24.08", "24.09", "24.10", "24.11", "24.12", "25.01", "25.02", "25.03", "25.04", "25.05", "25.06", "25.07",
    "25.08", "25.09", "25.10", "25.11", "25.12", "26.01",
)  # fmt: skip

SERVER_VERSIONS = {
    "2.48.0": "24.07", "2.49.0": "24.08", "2.50.0": "24.09", "2.51.0": "24.10", "2.52.0": "24.11", "2.53.0": "24.12",
    "2.54.0": "25.01", "2.59.0": "25.06", "2.62.0": "25.10", "2.64.0": "25.12", "2.65.0": "26.01", "2.68.0": "26.04",
    "2.72.0": "26.08",
}  # fmt: skip
"""``GET /v2`` tells the server's version; images and docs go by the release."""

PINS = (
    Pin("24.07", "0.5.0.post1"), Pin("24.08", "0.5.3.post1"), Pin("24.10", "0.5.5"), Pin("25.01", "0.6.3.post1"),
    Pin("25.02", "0.7.0", generation="V0"), Pin("25.03", "0.7.3", generation="V0"),
    Pin("25.04", "0.8.1", generation="V0"), Pin("25.05", "0.8.4", generation="V0"),
    Pin("25.06", "0.9.0.1", generation="V0"),
    Pin("25.08", "0.9.2", generation="V0"), Pin("25.09", "0.10.1.1", generation="V0"), Pin("25.10", "0.10.2"),
    Pin("25.11", "0.11.0"), Pin("25.12", "0.11.1"), Pin("26.01", "0.13.0"), Pin("26.02", "0.15.1"),
    Pin("26.03", "0.16.0"), Pin("26.04", "0.19.0"),
)  # fmt: skip
"""The engine of each image. 25.04 to 25.09 start it in a background thread, and vLLM falls back to its V0 engine."""

PASSED = frozenset({"prompt_tokens", "generation_tokens", "ttft", "inter_token_latency", "request_duration"})
"""The engine signals that the backend registers at all, in any release read."""

SWITCH_YES, SWITCH_TRUE = "<24.12", ">=24.12"
"""The releases whose backend reads REPORT_CUSTOM_METRICS as on with exactly ``yes``, and with ``true`` in any case."""

_SOURCE = "vllm_backend src/model.py and src/utils/metrics.py, r24.08 to r26.01"
_SIDE_PORT = (
    "open the engine's own registry on a second port: a pip package with a vllm.general_plugins entry point that calls "
    "prometheus_client.start_http_server (seen to work with vLLM 0.32.0; loaded by vLLM 0.5.5 and newer)"
)
_SIDE_PORT_COST = "a package in the image, a port, and signals that then exist twice: choose one source for each"
_UPGRADE = "another image, and with it another vLLM"


def _switch(value: str, versions: str, note: str = "") -> Rule:
    """The switch of the vLLM backend with the value that a span of releases wants."""
    return Rule(
        PASSED, State.HIDDEN,
        "the vLLM backend exports it only with REPORT_CUSTOM_METRICS; disable_log_stats must not be true",
        remedy=f'set parameters: {{ key: "REPORT_CUSTOM_METRICS" value: {{ string_value: "{value}" }} }} '
        f"in config.pbtxt and reload the model{note}",
        cost="a reload of the model", stack_versions=versions, source=_SOURCE,
    )  # fmt: skip


RULES = (
    Rule(PASSED, State.LOST, "the vLLM backend exports no vllm: family before 24.08",
         remedy="upgrade Triton to 24.08 or newer", cost=_UPGRADE, stack_versions="<24.08", source=_SOURCE),
    Rule(frozenset({"request_duration"}), State.LOST, "the vLLM backend exports it from 24.09 on",
         remedy="upgrade Triton to 24.09 or newer", cost=_UPGRADE, stack_versions="<24.09", source=_SOURCE),
    _switch("yes", SWITCH_YES),
    _switch("true", ">=25.10,<26.01", "; with pip's vLLM in place of the image's own the model then fails to load"),
    _switch("true", SWITCH_TRUE),
    _switch("true", "", ' (24.08 to 24.11 want "yes" instead)'),
    Rule(engine.SIGNALS, State.LOST, "the vLLM backend never exports it",
         remedy=f"upgrade Triton to 24.10 or newer (its vLLM loads plugins), then {_SIDE_PORT}",
         cost=f"{_UPGRADE}; {_SIDE_PORT_COST}", stack_versions="<24.10", source=_SOURCE),
    Rule(engine.SIGNALS, State.LOST, "the vLLM backend never exports it", remedy=_SIDE_PORT, cost=_SIDE_PORT_COST,
         source=_SOURCE),
    Rule(frozenset({"layer_requests_ongoing"}), State.NEVER, "Triton counts what waits, not what it holds open",
         source="triton core src/metrics.cc, r24.07 to r26.06"),
)  # fmt: skip

TENSORRT = Rule(
    engine.SIGNALS, State.NEVER, "the TensorRT-LLM backend publishes no such metric",
    source="tensorrtllm_backend README and custom_metrics_reporter.cc",
)  # fmt: skip
TENSORRT_KV = Rule(
    frozenset({"kv_cache_usage"}), State.LOST,
    "the TensorRT-LLM backend prints the fraction from 25.04 on; before, it is used / max of "
    "nv_trt_llm_kv_cache_block_metrics",
    remedy="upgrade Triton to 25.04 or newer", source=TENSORRT.source,
)  # fmt: skip

_TIMED = frozenset({"layer_queue_wait", "layer_request_duration"})
_TIMED_FAMILIES = frozenset({"nv_inference_queue_duration_us", "nv_inference_request_duration_us"})
_TIMES_OFF = frozenset({"nv_inference_request_success"})
TIMES_OFF = Rule(
    _TIMED, State.HIDDEN, "Triton counts requests and no times: it was started with counter_latencies=false",
    remedy="start tritonserver without --metrics-config counter_latencies=false", cost="a restart of the server",
    source="seen on Triton 2.51.0",
)  # fmt: skip

_ADMISSION = "admission to the backend; the engine queues on its own behind it"
_ADMITTED = "on the vLLM backend it ends with the admission, not with the answer"


def _duration(signal: str, family: str, note: str) -> Row:
    """A cumulative time in microseconds; request_success is the only divisor that fits it (both under one lock)."""
    return Row(signal, family, Kind.COUNTER, factor=1e-6, count="nv_inference_request_success", note=note)


def _device(signal: str, family: str) -> Row:
    return Row(signal, family, Kind.GAUGE, labels={"gpu": "gpu_uuid"}, provenance=Provenance.DEVICE)


def _trt(signal: str, family: str, label: str, value: str) -> Row:
    """A gauge of the TensorRT-LLM backend, which keeps several signals in one family."""
    return Row(signal, family, Kind.GAUGE, where={label: value}, optional=True, provenance=Provenance.ENGINE)


ROWS = (
    _duration("layer_queue_wait", "nv_inference_queue_duration_us", _ADMISSION),
    _duration("layer_request_duration", "nv_inference_request_duration_us", _ADMITTED),
    Row("layer_requests_queued", "nv_inference_pending_request_count", Kind.GAUGE),
    _device("gpu_memory_used", "nv_gpu_memory_used_bytes"),
    _device("gpu_memory_total", "nv_gpu_memory_total_bytes"),
    _device("gpu_utilization", "nv_gpu_utilization"),
    _trt("requests_running", "nv_trt_llm_request_metrics", "request_type", "scheduled"),
    _trt("requests_waiting", "nv_trt_llm_request_metrics", "request_type", "waiting"),
    _trt("kv_cache_usage", "nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction"),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A family that a loaded model always prints from one release on (``since``) or up to one (``until``).

    ``beside`` must be on the page for the mark to mean anything.
    """

    family: str
    beside: str
    since: str = ""
    until: str = ""

    def fits(self, release: str, page: Page) -> bool:
        """Whether a release agrees with the presence or absence of the family."""
        if self.beside not in page.types:
            return True
        printed = key(release) >= key(self.since) if self.since else key(release) <= key(self.until)
        return printed is (self.family in page.types)


MARKS = (
    Mark("nv_model_load_duration_secs", "nv_inference_request_success", since="24.11"),
    Mark("vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds", since="24.09"),
    Mark("vllm:request_params_best_of", "vllm:e2e_request_latency_seconds", until="24.12"),
)


def server_version(document: object) -> Claims:
    """Read Triton's ``GET /v2``: ``{"name": "triton", "version": "2.51.0", ...}`` on its HTTP port (8000)."""
    version = document.get("version") if isinstance(document, dict) else None
    release = SERVER_VERSIONS.get(version, "") if isinstance(version, str) else ""
    return Claims(stack_version=Known((release,), f"/v2 ({version})") if release else UNKNOWN)


class TritonStack(Stack):
    """Triton's page on its metrics port."""

    def unrecognised(self, page: Page, claims: Claims) -> str:  # noqa: ARG002 - the page alone tells
        """Say why the page is not Triton's; a side port's page, with the engine's families alone, is accepted."""
        if any(name.startswith("nv_") for name in page.types) or self.engine_families(page):
            return ""
        return "no nv_ family is on this page: Triton prints them on port 8002 (OpenAI front end: 9000), path /metrics"

    def pinned(self, stack_release: str) -> tuple[Pin, ...]:
        """Return the engine of a release; from 26.05 on the image takes vLLM's own, whose version nothing tells."""
        known = not stack_release or key(stack_release) <= key(PINS[-1].stack)
        return super().pinned(stack_release) if known else ()

    def stack_version(self, page: Page) -> Known:
        """Narrow the release by families that exist only from one on."""
        if not any(sample.value for sample in page.samples.get("nv_inference_request_success", [])):
            return UNKNOWN
        fitting = tuple(release for release in RELEASES if all(mark.fits(release, page) for mark in MARKS))
        return (
            Known(fitting, "the families of the page") if fitting else Known((), "the families fit no published image")
        )

    def names_by_engine(self, page: Page) -> bool:
        """Whether the engine's own registry is on the page (a side port); the backend's few names are its own."""
        return not any(name.startswith("nv_") for name in page.types)

    def lacking(self, answer: Answer, point: Point, page: Page) -> Answer:
        """With the switch seen on, what it lets through and is not there waits for its first observation."""
        families = self.engine_families(page)
        own = any(name.startswith("nv_") for name in page.types)
        if not own and answer.signal.id not in engine.SIGNALS:
            return without_value(answer, State.NOT_APPLICABLE, ELSEWHERE)
        if answer.signal.id in GPU_SIGNALS:
            reason = "Triton runs without a GPU, or DCGM did not start, or --allow-gpu-metrics=false"
            return without_value(answer, State.NOT_APPLICABLE, reason)
        if answer.signal.id in engine.SIGNALS and any(name.startswith("nv_trt_llm_") for name in page.types):
            return by_rule(answer, TENSORRT_KV if answer.signal.id == "kv_cache_usage" else TENSORRT)
        if answer.signal.id in _TIMED and page.types.keys() >= _TIMES_OFF and not _TIMED_FAMILIES & page.types.keys():
            return by_rule(answer, TIMES_OFF)
        if answer.state is State.HIDDEN and families:
            return without_value(answer, State.IDLE, "the backend's metrics are on; nothing was observed yet")
        return super().lacking(answer, point, page)


_ON = "REPORT_CUSTOM_METRICS (see ttft)"
REGAINED = (
    *engine.log_ways("the V0 engine's periodic line is on tritonserver's standard output, under load",
                     stack_versions="<25.10"),
    *engine.START_WAYS,
    Regained(frozenset({"layer_requests_ongoing"}), State.DERIVED, Precision.EXACT,
             "requests that the backend admitted less those that the engine finished", _ON, ">=24.09"),
    Regained(frozenset({"requests_waiting"}), State.DERIVED, Precision.LOWER_BOUND,
             "requests inside the engine beyond its slots", f"{_ON} and --max-num-seqs", ">=24.09"),
    Regained(frozenset({"queue_wait"}), State.DERIVED, Precision.LOWER_BOUND,
             "Little's law over the lower bound of requests_waiting", f"{_ON} and --max-num-seqs", ">=24.09"),
)  # fmt: skip

STACK = TritonStack(
    name="triton",
    title="Triton",
    page="http://HOST:8002/metrics",
    releases=RELEASES,
    engine_prefixes=("vllm:", "vllm_"),
    markers=("nv_",),
    rows=ROWS,
    rules=RULES,
    pins=PINS,
    complete=False,
    evidence_families=("nv_inference_request_success",),
    admitted_by="layer_queue_wait",
    regained=REGAINED,
    endpoints=(Endpoint("/v2", server_version),),
    log_place="tritonserver's standard output (the periodic line only with the V0 engine, up to 25.09)",
)
