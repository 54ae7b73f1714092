"""The schema keeps the rules of metric names, and its table in the docs is the schema's."""

from __future__ import annotations

import re
from pathlib import Path

from obs_exporter.schema import SIGNALS, Kind, State
from obs_exporter.schema.table import markdown

DOC = Path(__file__).parents[3] / "docs" / "schema.md"
OPERATOR_LABELS = {"namespace", "pod", "container", "service", "job", "instance", "endpoint", "node"}


def test_ids_and_metrics_are_unique() -> None:
    assert len({signal.id for signal in SIGNALS}) == len({signal.metric for signal in SIGNALS}) == len(SIGNALS)


def test_names_follow_prometheus_rules() -> None:
    units = {"seconds": "_seconds", "bytes": "_bytes", "ratio": "_ratio"}
    for signal in SIGNALS:
        assert re.fullmatch(r"llm_[a-z_]+", signal.metric)
        assert (signal.kind is Kind.COUNTER) == signal.metric.endswith("_total")
        assert signal.metric.endswith(units.get(signal.unit, signal.metric))
        assert signal.meaning.endswith(".")


def test_labels_never_collide_with_those_of_the_operator() -> None:
    for signal in SIGNALS:
        assert not OPERATOR_LABELS & set(signal.label_names)


def test_exactly_these_states_publish() -> None:
    assert [state.value for state in State if state.publishes] == ["native", "renamed", "derived", "log", "estimated"]


def test_the_docs_carry_the_table() -> None:
    text = DOC.read_text(encoding="utf-8")
    start, end = "<!-- made by: obs-exporter signals --format markdown -->\n", "<!-- end -->"
    assert text.split(start)[1].split(end)[0] == markdown()
