"""Every expression of every panel, variable, rule and alert is evaluated by a real Prometheus and gives data.

A panel of a signal must answer for **every** target: with a value, or with the state that says why there is none.
"""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from obs_exporter.schema import BY_ID, State
from obs_exporter.stacks import STACKS

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "dashboards" / "generated").glob("*.json"))
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
NAMES = [path.stem for path in BOARDS]
STATE = re.compile(r'signal=~"(?P<signals>[\w|]+)", state!~')

VALUES = {
    "$__rate_interval": "1m", "$__range": "5m", "$stack": ".*", "$target": ".*", "$model": ".*", "$probed": ".*",
    "$baseline": "bare-vllm",
}  # fmt: skip


def board(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "dashboards" / "generated" / f"{name}.json").read_text())
    return found


def filled(text: str) -> str:
    """Put values in for Grafana's variables, as Grafana does."""
    for variable, value in sorted(VALUES.items(), reverse=True):
        text = text.replace(variable, value)
    assert "$" not in text.replace('"$1"', ""), text
    return text


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in board(name)["panels"] if panel.get("targets")]


def is_state(expression: str) -> bool:
    return expression.endswith("* NaN")


def finite(sample: dict[str, Any]) -> bool:
    return math.isfinite(float(sample["value"][1]))


def graph(panel: dict[str, Any]) -> bool:
    return bool(panel["type"] == "timeseries")


def cases(*names: str) -> list[Any]:
    return [pytest.param(panel, id=f"{name}: {panel['title']}") for name in names or NAMES for panel in panels(name)]


@pytest.mark.parametrize("panel", cases())
def test_every_panel_has_data(lab: Any, panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        found = lab.query(filled(target["expr"]))
        assert found, target["expr"]
        if not is_state(target["expr"]):
            assert any(finite(sample) for sample in found), target["expr"]


def _answers(lab: Any, panel: dict[str, Any], *, values: bool) -> set[str]:
    """The targets that a panel's queries for values, or for states, name."""
    found: set[str] = set()
    for target in panel["targets"]:
        if is_state(target["expr"]) is not values:
            found |= {sample["metric"].get("target", "") for sample in lab.query(filled(target["expr"]))}
    return found


@pytest.mark.parametrize(
    "panel",
    [
        case
        for case in cases("overview", "layer")
        if graph(case.values[0]) and "state!~" in str(case.values[0]["targets"])
    ],
)
def test_no_panel_is_silent_about_a_target(lab: Any, panel: dict[str, Any]) -> None:
    wanted = next(match["signals"].split("|") for target in panel["targets"] if (match := STATE.search(target["expr"])))
    shown, excused = _answers(lab, panel, values=True), _answers(lab, panel, values=False)
    assert shown | excused >= set(lab.targets), f"nothing about {set(lab.targets) - shown - excused}"
    published = _published(lab, wanted)
    assert excused >= set(lab.targets) - published, "a state is missing"
    mapped = _mapped(panel)
    assert shown >= published - mapped, f"published and not shown: {published - mapped - shown}"


def _published(lab: Any, signals: list[str]) -> set[str]:
    """The targets that publish all of these signals."""
    words = "|".join(state for state in State if state.publishes)
    found = [
        {sample["metric"]["target"] for sample in lab.query(f'llm_signal_info{{signal="{signal}", state=~"{words}"}}')}
        for signal in signals
    ]
    return set.intersection(*found)


def _mapped(panel: dict[str, Any]) -> set[str]:
    """Targets for which a panel says in words that no value can be made of signals that are there."""
    return {"triton", "triton-off", "triton-sim"} if panel["title"] == "What the layer adds, mean" else set()


@pytest.mark.parametrize("panel", [case for case in cases("overview") if graph(case.values[0])])
def test_the_overview_has_values_for_a_real_vllm(lab: Any, panel: dict[str, Any]) -> None:
    samples = [
        sample
        for target in panel["targets"]
        if not is_state(target["expr"])
        for sample in lab.query(filled(target["expr"]))
        if sample["metric"].get("target") == "vllm"
    ]
    assert any(finite(sample) for sample in samples)


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_has_values(lab: Any, name: str) -> None:
    variables = {entry["name"]: entry for entry in board(name)["templating"]["list"]}
    assert set(variables) >= {"datasource", "stack", "target", "model"}
    for entry in variables.values():
        if entry["type"] != "query":
            continue
        match = re.fullmatch(r"label_values\((?P<selector>.*), (?P<label>\w+)\)", entry["query"]["query"])
        assert match, entry["query"]
        values = {series.get(match["label"], "") for series in lab.series(filled(match["selector"]))} - {""}
        assert values, entry["query"]
        if entry["name"] == "target":
            assert values == set(lab.targets)


def _comes(lab: Any, record: str) -> bool:
    """Whether a record gets a value; one that looks back minute by minute has its first at the next full minute."""
    deadline = time.monotonic() + 90
    while not any(finite(sample) for sample in lab.query(record)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_rule_is_healthy_and_every_record_has_data(lab: Any, path: Path) -> None:
    loaded = {
        (rule["name"], rule["query"]): rule
        for group in lab.get("rules")["groups"]
        if path.name in group["file"]
        for rule in group["rules"]
    }
    written = [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    assert len(loaded) == len(written)
    assert {rule["health"] for rule in loaded.values()} == {"ok"}, [rule.get("lastError") for rule in loaded.values()]
    for rule in written:
        if "record" in rule:
            assert _comes(lab, rule["record"]), rule["record"]
        else:
            lab.query(rule["expr"])


def test_the_records_are_right(lab: Any) -> None:
    (waited,) = lab.query('llm_request_queue_seconds_sum{target="vllm"} / llm_request_queue_seconds_count')
    assert float(waited["value"][1]) == pytest.approx(252.77 / 64, rel=1e-4)
    (mean,) = lab.query('llm:request_queue_seconds:mean5m{target="vllm"}')
    assert float(mean["value"][1]) == pytest.approx(252.77 / 64, rel=0.02)
    (share,) = lab.query('llm:preemptions_per_request:ratio5m{target="vllm"}')
    assert float(share["value"][1]) == pytest.approx(19 / 64, rel=0.02)
    for sample in lab.query("llm:goodput_at_most:ratio5m"):
        assert not finite(sample) or 0 <= float(sample["value"][1]) <= 1


def test_alerts_fire_on_what_really_happened_and_reach_alertmanager(lab: Any) -> None:
    def firing() -> set[tuple[str, str]]:
        return {(a["labels"]["alertname"], a["labels"].get("target", "")) for a in lab.get("alerts")["alerts"]}

    wanted = {("LLMPreemptionStorm", "vllm"), ("LLMQueueWaitEatsTTFT", "vllm"), ("LLMTargetDown", "down")}
    lab.eventually(lambda: wanted <= firing(), f"{wanted} among {firing()}")
    assert ("LLMTargetDown", "vllm") not in firing()
    assert not any(name in ("LLMExporterDown", "LLMExporterAbsent", "LLMSignalGone") for name, _ in firing()), firing()
    lab.eventually(lambda: any(_names(message) == "LLMTargetDown" for message in lab.sent), "the webhook's call")
    message = next(message for message in lab.sent if _names(message) == "LLMTargetDown")
    (alert,) = message["alerts"]
    assert alert["labels"]["target"] == "down"
    assert alert["annotations"]["runbook"] == "docs/runbooks.md#llmtargetdown"
    assert set(alert["annotations"]) == {"summary", "description", "threshold", "runbook"}


def _names(message: dict[str, Any]) -> str:
    return str(message["groupLabels"]["alertname"])


def test_hidden_on_ray_is_named_with_its_switch(lab: Any) -> None:
    """For Ray with metrics off: the provenance board names what is hidden and how to switch it on, signal by signal."""
    (table,) = [panel for panel in panels("provenance") if panel["title"].startswith("Hidden or lost")]
    rows = [sample["metric"] for sample in lab.query(filled(table["targets"][0]["expr"]))]
    places = [(row["target"], row["signal"]) for row in rows]
    assert len(places) == len(set(places)), "one line a signal"
    hidden = {row["signal"]: row for row in rows if (row["target"], row["state"]) == ("ray-off", "hidden")}
    assert hidden.keys() >= {"kv_cache_usage", "preemptions", "queue_wait", "ttft"}
    assert hidden.keys() <= set(BY_ID)
    for row in hidden.values():
        assert "log_engine_metrics is false" in row["reason"]
        assert "set log_engine_metrics: true in the LLMConfig and redeploy" in row["remedy"]


def test_every_line_of_what_can_be_changed_has_its_remedy(lab: Any) -> None:
    (table,) = [panel for panel in panels("provenance") if panel["title"].startswith("Hidden or lost")]
    rows = [sample["metric"] for sample in lab.query(filled(table["targets"][0]["expr"]))]
    judged = lab.query('llm_signal_info{state=~"hidden|lost|never|stale"}')
    assert {(row["target"], row["signal"]) for row in rows} == {
        (sample["metric"]["target"], sample["metric"]["signal"]) for sample in judged
    }
    # Where a table knows no way back, the board makes none up.
    hopeless = {rule.reason for stack in STACKS.values() for rule in stack.rules if not rule.remedy}
    assert {row["reason"] for row in rows if not row.get("remedy")} <= hopeless
    switch = {row["remedy"] for row in rows if (row["target"], row["signal"]) == ("triton-off", "ttft")}
    assert all("REPORT_CUSTOM_METRICS" in text for text in switch)
    assert len(switch) == 1
