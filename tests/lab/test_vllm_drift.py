"""The drift script on a small tree of sources whose drift is known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from obs_exporter.stacks.catalogue import Catalogue


@pytest.fixture(scope="module")
def drift() -> ModuleType:
    path = Path(__file__).parent / "vllm_drift.py"
    spec = importlib.util.spec_from_file_location("vllm_drift", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["vllm_drift"] = module
    spec.loader.exec_module(module)
    return module


def _run(family: str, kind: str, status: str = "registered") -> tuple[str, dict[str, object]]:
    run = {"engine": "V1", "first": "1.0.0", "last": "1.0.0", "status": status, "switch": "", "note": ""}
    return family, {"type": kind, "runs": [run]}


TABLE = Catalogue({
    "releases": ["1.0.0"],
    "families": dict([
        _run("num_requests_running", "gauge"),
        _run("num_preemptions_total", "counter"),
        _run("gone_total", "counter"),
        _run("queue_seconds", "gauge"),
        _run("old_perc", "gauge"),
        _run("back_perc", "gauge", "hidden"),
        _run("spec_decode_num_drafts_total", "counter"),
        _run("offload_load_bytes_total", "counter"),
        _run("cache_config_info", "gauge"),
    ]),
})  # fmt: skip

SOURCES = """
PREFIX = "vllm:offload"

class Names(str, Enum):
    LOAD = f"{PREFIX}_load_bytes"
    NEW = "vllm:offload_new_seconds"

class Logger:
    def __init__(self):
        self.running = self._gauge_cls(name="vllm:num_requests_running", documentation="")
        self.preempted = Counter("vllm:num_preemptions", "")
        self.queue = self._histogram_cls(name="vllm:queue_seconds", buckets=[1])
        if self.show_hidden_metrics:
            self.old = self._gauge_cls(name="vllm:old_perc")
        else:
            self.back = self._gauge_cls(name="vllm:back_perc")
        for name, text in [("vllm:spec_decode_num_drafts", "")]:
            self._counter_cls(name=name, documentation=text)

    def log(self, kind):
        if kind == "cache_config":
            name = "vllm:cache_config_info"
        self._gauge_cls(name=name)

def definitions():
    unknown_to_us("vllm:mystery")
    metrics = {Names.LOAD: OffloadingCounterMetadata()}
    metrics[Names.NEW] = OffloadingHistogramMetadata()
    return metrics
"""


def _tree(folder: Path, text: str = SOURCES) -> Path:
    (folder / "vllm" / "v1").mkdir(parents=True)
    (folder / "vllm" / "v1" / "loggers.py").write_text(text, encoding="utf-8")
    return folder


def test_every_kind_of_drift_is_found(drift: ModuleType, tmp_path: Path) -> None:
    found = drift.compare(drift.read(_tree(tmp_path)), TABLE, "1.1.0")
    assert found.added == ["offload_new_seconds"]
    assert found.removed == ["gone_total"]
    assert found.retyped == ["queue_seconds: gauge -> histogram"]
    assert found.newly_hidden == ["old_perc"]
    assert found.shown_again == ["back_perc"]
    assert found.unresolved == ["mystery"]
    assert not found.none


def test_nothing_is_drift_against_itself(drift: ModuleType, tmp_path: Path) -> None:
    sources = drift.read(_tree(tmp_path))
    families = dict(
        _run(name, kind, "hidden" if name in sources.hidden else "registered") for name, kind in sources.kinds.items()
    )
    found = drift.compare(sources, Catalogue({"releases": ["1.0.0"], "families": families}), "1.0.0")
    assert found.none
    assert "no drift" in drift.report(found, "1.0.0")


def test_a_file_that_is_no_python_is_passed_over(drift: ModuleType, tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    (tree / "vllm" / "template.py").write_text('Gauge("vllm:x" {{', encoding="utf-8")
    assert "num_requests_running" in drift.read(tree).kinds


def test_exit_codes(drift: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drift.main([str(tmp_path / "none"), "--version", "0.33.0"]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert drift.main([str(_tree(tmp_path)), "--version", "0.33.0"]) == 1
    assert "added (" in capsys.readouterr().out
