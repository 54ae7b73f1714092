"""vLLM V1 (0.32.0), one API server: a plain Python registry with ``_created`` twins, and http_* of its own server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from obs_exporter.simulator.book import LayerLedger
from obs_exporter.simulator.clock import to_seconds
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import EventLog
from obs_exporter.simulator.faces.base import Face, FaceInfo, PageUnavailableError, max_concurrency, write_family
from obs_exporter.simulator.faces.tables import CACHE_CONFIG_V1, COUNTER, EDGES, GAUGE, HISTOGRAM, Family, v1
from obs_exporter.simulator.ledger import EngineLedger
from obs_exporter.simulator.logs import LogBook, V1Log
from obs_exporter.simulator.page import PYTHON, Page, sorted_labels

PROCESS: tuple[tuple[str, str, str, tuple[tuple[dict[str, str], float], ...]], ...] = (
    (
        "python_gc_objects_collected_total",
        COUNTER,
        "Objects freed by the garbage collector.",
        (({"generation": "0"}, 15470.0), ({"generation": "1"}, 2322.0), ({"generation": "2"}, 532.0)),
    ),
    (
        "python_gc_objects_uncollectable_total",
        COUNTER,
        "Objects that could not be freed.",
        (({"generation": "0"}, 0.0), ({"generation": "1"}, 0.0), ({"generation": "2"}, 0.0)),
    ),
    (
        "python_gc_collections_total",
        COUNTER,
        "Garbage collections.",
        (({"generation": "0"}, 1582.0), ({"generation": "1"}, 144.0), ({"generation": "2"}, 10.0)),
    ),
    (
        "python_info",
        GAUGE,
        "The Python that runs.",
        (
            (
                {
                    "implementation": "CPython",
                    "major": "3",
                    "minor": "12",
                    "patchlevel": "3",
                    "version": "3.12.3",
                },
                1.0,
            ),
        ),
    ),
    ("process_virtual_memory_bytes", GAUGE, "Virtual memory.", (({}, 2.179330048e9),)),
    ("process_resident_memory_bytes", GAUGE, "Resident memory.", (({}, 6.68307456e8),)),
    ("process_start_time_seconds", GAUGE, "Start of the process, Unix time.", ()),
    ("process_cpu_seconds_total", COUNTER, "CPU time used.", ()),
    ("process_open_fds", GAUGE, "Open file descriptors.", (({}, 34.0),)),
    ("process_max_fds", GAUGE, "Limit of open file descriptors.", (({}, 20000.0),)),
)
"""What prometheus_client adds about its own process. Constants, but for start time and CPU time."""

HANDLER = {"handler": "/v1/chat/completions"}
"""The route on which all requests are booked."""


class VllmFace(Face):
    """``vllm serve`` on its own."""

    INFO = FaceInfo("vllm", "vllm", "0.32.0", "0.32.0", "vLLM V1, one API server, the engine's own page")
    RELEASE = (0, 32)
    HTTP = True

    def __init__(self, config: Config, log: EventLog) -> None:
        super().__init__(config, log)
        self._families = v1(self.RELEASE)
        http = (
            Family("http_s", HISTOGRAM, "http_s", "", edges="http-highr"),
            Family("http_s", HISTOGRAM, "http_s", "", edges="http"),
        )
        self._reader = self._book((*self._families, *http))

    def page(self, now: int) -> bytes:
        """The page at ``now`` nanoseconds. Raises PageUnavailableError while the server is down."""
        book = self._reader.at(now)
        if not book.up:
            raise PageUnavailableError("the engine's process is down, and its page with it")
        page = Page(PYTHON)
        self.write(page, book.engine, book.layer, now, {})
        return page.bytes()

    def write(self, page: Page, engine: EngineLedger, layer: LayerLedger, now: int, extra: Mapping[str, str]) -> None:
        """Write the whole registry; ``extra`` labels are added to every series."""
        created = self.config.epoch + to_seconds(engine.started)
        self._process(page, created, to_seconds(now - engine.started), extra)

        common = {"engine": "0", "model_name": self.config.engine.model, **extra}
        front_end = {"model_name": self.config.engine.model, **extra}
        for family in self._families:
            # Rejections are counted by the front end, which has no engine label (vLLM 0.32.0).
            one = _labels(front_end if family.measure == "rejections" else common)
            write_family(page, family, engine, one, self.config.engine.max_model_len)
            if family.kind in (COUNTER, HISTOGRAM):
                name = _created_name(family)
                page.family(name, GAUGE, family.meaning)
                for own, _ in family.series:
                    page.sample(name, one(own), created)
        page.family("vllm:cache_config_info", GAUGE, "The engine's cache configuration.")
        page.sample("vllm:cache_config_info", sorted_labels({**self._cache_config(), **extra}.items()), 1.0)
        if self.HTTP:
            self._http(page, layer, created)

    def _cache_config(self) -> dict[str, str]:
        engine = self.config.engine
        return CACHE_CONFIG_V1 | {
            "block_size": str(engine.block_size),
            "effective_attention_block_size": str(engine.block_size),
            "num_gpu_blocks": str(engine.num_blocks),
            "kv_cache_size_tokens": str(engine.num_blocks * engine.block_size),
            "kv_cache_max_concurrency": str(max_concurrency(engine)),
        }

    def _process(self, page: Page, created: float, age: float, extra: Mapping[str, str]) -> None:
        moving = {"process_start_time_seconds": created, "process_cpu_seconds_total": round(12 + 0.4 * age, 2)}
        for name, kind, meaning, samples in PROCESS:
            page.family(name, kind, meaning)
            for own, value in samples or (({}, moving[name]),):
                page.sample(name, sorted_labels({**own, **extra}.items()), value)

    def _http(self, page: Page, layer: LayerLedger, created: float) -> None:
        """The API server's own families: children appear with the first answer."""
        done = layer.counters.get("ended:ok", 0.0)
        labels = HANDLER | {"method": "POST"}
        page.family("http_requests_total", COUNTER, "Requests by method, status and handler.")
        if done:
            page.sample("http_requests_total", labels | {"status": "2xx"}, done)
            _created(page, "http_requests_created", labels | {"status": "2xx"}, created)
        for name, each in (("http_request_size_bytes", 742.0), ("http_response_size_bytes", 0.0)):
            page.family(name, "summary", "Content length by handler.")
            if done:
                page.sample(f"{name}_count", HANDLER, done)
                page.sample(f"{name}_sum", HANDLER, done * each)
                _created(page, f"{name}_created", HANDLER, created)
        name = "http_request_duration_highr_seconds"
        buckets = layer.histograms["http_s", EDGES["http-highr"]]
        page.family(name, HISTOGRAM, "Latency of all requests, many buckets.")
        page.histogram(name, {}, buckets, buckets.sum)
        _created(page, f"{name}_created", {}, created)
        name = "http_request_duration_seconds"
        buckets = layer.histograms["http_s", EDGES["http"]]
        page.family(name, HISTOGRAM, "Latency by handler, few buckets.")
        if done:
            page.histogram(name, labels, buckets, buckets.sum)
            _created(page, f"{name}_created", labels, created)

    def _log_book(self) -> LogBook:
        return V1Log(self.config, f"{self.INFO.name}.log")


def _labels(common: Mapping[str, str]) -> Callable[[Mapping[str, str]], dict[str, str]]:
    return lambda own: sorted_labels({**common, **own}.items())


def _created(page: Page, name: str, labels: dict[str, str], created: float) -> None:
    page.family(name, GAUGE, "Creation time.")
    page.sample(name, labels, created)


def _created_name(family: Family) -> str:
    """A counter's twin stands without ``_total``; a histogram that ends so by chance keeps it."""
    base = family.name.removesuffix("_total") if family.kind == COUNTER else family.name
    return f"{base}_created"
