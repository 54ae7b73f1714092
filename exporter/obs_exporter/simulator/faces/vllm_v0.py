"""vLLM 0.7.2 with the V0 engine, as served by default: multi-process mode, where empty families do not exist."""

from __future__ import annotations

from collections.abc import Mapping

from obs_exporter.simulator.book import Book
from obs_exporter.simulator.clock import to_seconds
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import EventLog
from obs_exporter.simulator.faces.base import Face, FaceInfo, PageUnavailableError, is_empty, write_family
from obs_exporter.simulator.faces.tables import CACHE_CONFIG_V0, GAUGE, HISTOGRAM, V0
from obs_exporter.simulator.ledger import EngineLedger
from obs_exporter.simulator.logs import LogBook, V0Log
from obs_exporter.simulator.page import MULTIPROCESS, Page, sorted_labels


class VllmV0Face(Face):
    """The 0.7.2 API server over its engine process."""

    INFO = FaceInfo("vllm-v0", "vllm", "0.7.2", "0.7.2", "vLLM with the V0 engine, multi-process page")

    def __init__(self, config: Config, log: EventLog) -> None:
        super().__init__(config, log)
        # The engine logs its statistics once before any request: one observation of an empty step.
        self._reader = self._book(V0, first=(("iteration_tokens", 0.0),))

    def page(self, now: int) -> bytes:
        """The page at ``now`` nanoseconds. Raises PageUnavailableError while the server is down."""
        book: Book = self._reader.at(now)
        if not book.up:
            raise PageUnavailableError("the engine's process is down, and its page with it")
        page = Page(MULTIPROCESS)
        for family in V0:
            hides = family.kind == HISTOGRAM or family.lazy
            if hides and is_empty(family, book.engine, self.config.engine.max_model_len):
                continue
            write_family(page, family, book.engine, self._labels, self.config.engine.max_model_len)
        self._infos(page, book.engine)
        return page.bytes()

    def _labels(self, own: Mapping[str, str]) -> dict[str, str]:
        return sorted_labels({"model_name": self.config.engine.model, **own}.items())

    def _infos(self, page: Page, ledger: EngineLedger) -> None:
        engine = self.config.engine
        page.family("vllm:cache_config_info", GAUGE, "The engine's cache configuration.")
        filled = {"block_size": str(engine.block_size), "num_gpu_blocks": str(engine.usable_blocks)}
        page.sample("vllm:cache_config_info", CACHE_CONFIG_V0 | filled, 1.0)
        page.family("vllm:lora_requests_info", GAUGE, "LoRA adapters in use.")
        labels = {"max_lora": "0", "running_lora_adapters": "", "waiting_lora_adapters": ""}
        page.sample("vllm:lora_requests_info", labels, self.config.epoch + to_seconds(ledger.started))

    def _log_book(self) -> LogBook:
        return V0Log(self.config, "vllm-v0.log")
