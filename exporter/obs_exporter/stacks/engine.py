"""The vLLM engine: which of its families carry which signal, in order of preference.

The lifetimes are not written here: they are those of the catalogue. Names are without prefix, since every stack spells
it in its own way. Meanings were read from the metric modules of the releases.
"""

from __future__ import annotations

from obs_exporter.schema import Kind, Precision, Provenance, State
from obs_exporter.stacks.catalogue import Catalogue, Engine, Registration
from obs_exporter.stacks.model import Regained, Row
from obs_exporter.stacks.versions import key

_GAUGE, _COUNTER, _HISTOGRAM = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM


def _row(
    signal: str,
    family: str,
    kind: Kind,
    *,
    labels: dict[str, str] | None = None,
    constants: dict[str, str] | None = None,
    product: tuple[str, ...] = (),
    versions: str = "",
    state: State = State.NATIVE,
    note: str = "",
    help: str = "",  # noqa: A002 - as the field is called
    shared: bool = False,
) -> Row:
    """One row of the engine's own family."""
    provenance = Provenance.COMPUTED if state is State.DERIVED else Provenance.ENGINE
    return Row(
        signal, family, kind, engine=True, labels=labels or {}, constants=constants or {}, product=product,
        versions=versions, state=state, provenance=provenance, precision=Precision.EXACT, note=note,
        help=help, shared=shared,
    )  # fmt: skip


_TOKENS, _BLOCKS = {"unit": "tokens"}, {"unit": "blocks"}

GENERATED = "request_generation_tokens"
"""Histogram of answers' lengths in tokens, of requests that finished (vLLM 0.4.2 and newer). No signal of its own: the
estimate of the KV cache usage reads its buckets."""

ROWS: tuple[Row, ...] = (
    _row("requests_running", "num_requests_running", _GAUGE),
    _row("requests_waiting", "num_requests_waiting", _GAUGE,
         note="from 0.20.0 with requests that wait for other reasons than capacity"),
    _row("requests_waiting_by_reason", "num_requests_waiting_by_reason", _GAUGE, labels={"reason": "reason"}),
    _row("kv_cache_usage", "kv_cache_usage_perc", _GAUGE),
    _row("kv_cache_usage", "gpu_cache_usage_perc", _GAUGE, note="kv_cache_usage_perc from 0.9.2"),
    _row("kv_cache_capacity", "cache_config_info", _GAUGE, product=("kv_cache_size_tokens",), versions=">=0.24",
         note="a label of cache_config_info"),
    _row("kv_cache_capacity", "cache_config_info", _GAUGE, product=("num_gpu_blocks", "block_size"),
         state=State.DERIVED, shared=True,
         note="num_gpu_blocks x block_size, labels of cache_config_info; one KV cache group"),
    _row("kv_cache_max_concurrency", "cache_config_info", _GAUGE, product=("kv_cache_max_concurrency",),
         versions=">=0.24", note="a label of cache_config_info"),
    _row("preemptions", "num_preemptions_total", _COUNTER),
    _row("queue_wait", "request_queue_time_seconds", _HISTOGRAM),
    _row("ttft", "time_to_first_token_seconds", _HISTOGRAM),
    _row("inter_token_latency", "inter_token_latency_seconds", _HISTOGRAM),
    _row("inter_token_latency", "time_per_output_token_seconds", _HISTOGRAM,
         note="named per output token, observed per gap; inter_token_latency_seconds from 0.10.2"),
    _row("time_per_output_token", "request_time_per_output_token_seconds", _HISTOGRAM),
    _row("request_duration", "e2e_request_latency_seconds", _HISTOGRAM),
    _row("prefill_time", "request_prefill_time_seconds", _HISTOGRAM),
    _row("decode_time", "request_decode_time_seconds", _HISTOGRAM),
    _row("prompt_tokens", "prompt_tokens_total", _COUNTER),
    _row("generation_tokens", "generation_tokens_total", _COUNTER),
    _row("prefix_cache_queries", "prefix_cache_queries_total", _COUNTER, constants=_TOKENS),
    _row("prefix_cache_queries", "gpu_prefix_cache_queries_total", _COUNTER, constants=_TOKENS, versions=">=0.9",
         help="tokens"),
    _row("prefix_cache_queries", "gpu_prefix_cache_queries_total", _COUNTER, constants=_BLOCKS, versions="<0.9",
         help="blocks"),
    _row("prefix_cache_hits", "prefix_cache_hits_total", _COUNTER, constants=_TOKENS),
    _row("prefix_cache_hits", "gpu_prefix_cache_hits_total", _COUNTER, constants=_TOKENS, versions=">=0.9",
         help="tokens"),
    _row("prefix_cache_hits", "gpu_prefix_cache_hits_total", _COUNTER, constants=_BLOCKS, versions="<0.9",
         help="blocks"),
    _row("requests_finished", "request_success_total", _COUNTER, labels={"finished_reason": "finished_reason"},
         note="aborts by the client never reach it (V1)"),
)  # fmt: skip

SIGNALS: frozenset[str] = frozenset(row.signal for row in ROWS)

LABELS = {"model": ("model_name", "model"), "engine": ("engine",)}
"""Where the schema's model and engine stand in the engine's labels; Triton's copies say ``model``."""

ROUTER_LABEL = "server"
"""The label by which the vLLM production-stack's router marks the ``vllm:*`` families of its own making."""

FIRST_ENGINE_LABEL = "0.8.3"
"""V1 labels every family with ``engine`` from this release on; V0 never does."""

LABELLED: frozenset[str] = frozenset({row.family for row in ROWS} - {"cache_config_info"})
"""The families that carry the model (and, in V1, the engine) as labels."""

DEFAULT_V1 = "0.8.0"
"""V1 is what runs by default from this release on (V0 can be chosen until 0.10.2)."""


LOG = "--engine-log GLOB"
"""What the user gives for everything that is read from a log."""

IN_THE_LOG = frozenset({"requests_running", "requests_waiting", "kv_cache_usage"})
AT_START = frozenset({"kv_cache_capacity", "kv_cache_max_concurrency"})
_CONCURRENCY = frozenset({"kv_cache_max_concurrency"})


def log_ways(
    periodic: str, needs: str = LOG, *, stack_versions: str = "", generation: str = ""
) -> tuple[Regained, ...]:
    """Return the ways back through the engine's log on a stack; ``periodic`` says where the periodic lines stand."""
    return (
        Regained(IN_THE_LOG, State.LOG, Precision.EXACT, periodic, needs, stack_versions, generation=generation),
        Regained(frozenset({"preemptions"}), State.LOG, Precision.LOWER_BOUND,
                 "the number in the V0 engine's warning, written at preemption 1, 51, 101 and so on",
                 needs, stack_versions, ">=0.4.3,<0.11", "V0"),
    )  # fmt: skip


START_WAYS = (
    Regained(_CONCURRENCY, State.LOG, Precision.EXACT, "the engine's start-up log line has it", LOG,
             engine_versions=">=0.6.3"),
    Regained(frozenset({"kv_cache_capacity"}), State.LOG, Precision.EXACT, "the engine's start-up log lines have it",
             LOG, engine_versions=">=0.6.3"),
    Regained(frozenset({"kv_cache_capacity"}), State.LOG, Precision.EXACT,
             "the engine's start-up log line counts blocks", f"{LOG} and --block-size", engine_versions="<0.6.3"),
)  # fmt: skip

LITTLE = Regained(
    frozenset({"queue_wait"}), State.DERIVED, Precision.SAMPLED,
    "Little's law: the time-integral of requests_waiting over the requests that began",
)  # fmt: skip


def rows_at(signal: str, engine: Engine, catalogue: Catalogue) -> list[tuple[Row, Registration]]:
    """Return the rows of a signal whose family this engine has, in order of preference."""
    found = []
    for row in ROWS:
        registration = catalogue.registration(row.family, engine) if row.signal == signal else None
        if registration is not None:
            found.append((row, registration))
    return found


def hidden_switch(release: str) -> str:
    """Return the flag that shows the metrics which a release hides: it takes exactly the previous minor version."""
    version = key(release)
    return f"--show-hidden-metrics-for-version={version.major}.{version.minor - 1}"


def generation_of(release: str) -> str:
    """Return the generation that a release runs by default."""
    return "V1" if key(release) >= key(DEFAULT_V1) else "V0"


INFO_SIGNALS: frozenset[str] = frozenset(row.signal for row in ROWS if row.product)
"""Signals of cache_config_info, the one family that names no model."""
