"""KServe: vLLM inside KServe's own server, so without http_*; behind Knative, qpext's merge with queue-proxy's text.

qpext copies queue-proxy's text, then writes the application's families in no fixed order with three labels of its own
(kserve qpext/cmd/qpext/main.go, the same in 0.10 to 0.20).
"""

from __future__ import annotations

import random

from obs_exporter.simulator.book import LayerLedger
from obs_exporter.simulator.faces.base import FaceInfo
from obs_exporter.simulator.faces.tables import COUNTER, GAUGE
from obs_exporter.simulator.faces.vllm import VllmFace
from obs_exporter.simulator.page import PYTHON, Page

REVISION = {
    "configuration_name": "tiny-predictor",
    "revision_name": "tiny-predictor-00001",
    "service_name": "tiny-predictor",
}
"""What qpext appends to every application series."""


class KServeFace(VllmFace):
    """KServe in Standard mode (RawDeployment): the engine's page on the predictor's port."""

    INFO = FaceInfo("kserve", "kserve", "0.20.0", "0.32.0", "KServe Standard: the engine's page without http_*")
    HTTP = False


class KServeKnativeFace(KServeFace):
    """KServe behind Knative up to 1.18 with metric aggregation on: port 9088 of the queue-proxy."""

    INFO = FaceInfo("kserve-knative", "kserve", "0.20.0", "0.32.0", "KServe behind Knative 1.18: the merged page")

    def page(self, now: int) -> bytes:
        """The merged page: it answers 200 with queue-proxy's half even while the engine is down."""
        book = self._reader.at(now)
        page = Page(PYTHON)
        self._queue_proxy(page, book.layer)
        if not book.up:
            return page.bytes()
        application = Page(PYTHON)
        self.write(application, book.engine, book.layer, now, REVISION)
        families = application.bytes().decode().split("# HELP ")[1:]
        random.Random(now).shuffle(families)  # noqa: S311 - Go's map order: different on each scrape
        for family in families:
            page.raw("# HELP " + family)
        return page.bytes()

    def _queue_proxy(self, page: Page, layer: LayerLedger) -> None:
        labels = {
            **REVISION,
            "container_name": "queue-proxy",
            "namespace_name": "default",
            "pod_name": "tiny-predictor-00001-deployment-0",
        }
        answered = labels | {"response_code": "200", "response_code_class": "2xx"}
        page.family("revision_queue_depth", GAUGE, "Requests that queue-proxy holds back.")
        page.sample("revision_queue_depth", labels, layer.gauges["queued"])
        page.family("revision_request_count", COUNTER, "Requests that queue-proxy answered.")
        page.sample("revision_request_count", answered, layer.counters.get("ended:ok", 0.0))
