"""The tables of docs/probe.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from obs_exporter.probe.compare import Verdict
from obs_exporter.probe.metrics import ProbeMetrics
from obs_exporter.probe.outcome import MEANINGS, SLO

TEXT = (Path(__file__).parents[2] / "docs" / "probe.md").read_text(encoding="utf-8")


def test_every_metric_is_in_the_table_with_its_type() -> None:
    documented = dict(re.findall(r"^\| (llm_probe_\w+) \| (\w+) \|", TEXT, re.MULTILINE))
    published = {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in ProbeMetrics(SLO()).registry.collect()
    }
    assert documented == published


def test_every_outcome_is_in_the_table_with_its_meaning() -> None:
    for outcome, meaning in MEANINGS.items():
        assert f"| {outcome} | {meaning} |" in TEXT


def test_every_verdict_is_explained() -> None:
    for verdict in Verdict:
        assert re.search(rf"^\| [^|]*{re.escape(str(verdict))}", TEXT, re.MULTILINE), verdict
