"""The rule files: promtool's own tests, every alert explained, and the tests able to fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules"
TESTS = ROOT / "deploy" / "prometheus" / "tests"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(not PROMTOOL and not os.environ.get("CI"), reason="no promtool here")


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((RULES / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = rules("llm-alerts.yml")


def promtool(*arguments: str | Path) -> tuple[int, str]:
    assert PROMTOOL
    done = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    code, output = promtool("check", "rules", "--lint=all", "--lint-fatal", *sorted(RULES.glob("*.yml")))
    assert code == 0, output


@needs_promtool
@pytest.mark.parametrize("path", sorted(TESTS.glob("*.test.yml")), ids=lambda path: path.stem)
def test_the_alerts_fire_and_do_not_fire(path: Path) -> None:
    code, output = promtool("test", "rules", path)
    assert code == 0, output


def _mutated(folder: Path, change: Any) -> tuple[int, str]:
    """Run all tests against changed alerts."""
    document = yaml.safe_load((RULES / "llm-alerts.yml").read_text())
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        change(rule)
    (folder / "rules").mkdir()
    (folder / "tests").mkdir()
    (folder / "rules" / "llm-alerts.yml").write_text(yaml.safe_dump(document))
    shutil.copy(RULES / "llm-recording.yml", folder / "rules")
    shutil.copy(TESTS / "alerts.test.yml", folder / "tests")
    shutil.copy(TESTS / "goodput.test.yml", folder / "tests")
    return promtool("test", "rules", *sorted((folder / "tests").glob("*.yml")))


@needs_promtool
def test_an_alert_that_never_fires_is_found(tmp_path: Path) -> None:
    code, output = _mutated(tmp_path, lambda rule: rule.update(expr=f"({rule['expr']}) and vector(0) > 1"))
    assert code == 1
    failed = set(re.findall(r'alertname[=:]\\?"?(\w+)', output))
    assert failed >= {rule["alert"] for rule in ALERTS}


@needs_promtool
def test_an_alert_that_fires_at_once_is_found(tmp_path: Path) -> None:
    code, output = _mutated(tmp_path, lambda rule: rule.pop("for", None))
    assert code == 1
    assert "LLMKVCacheSaturated" in output


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    assert set(alert["annotations"]) == {"summary", "description", "threshold", "runbook"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    file, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / file).read_text(), re.MULTILINE)
    assert anchor == alert["alert"].lower()
    assert alert["alert"] in headings


def test_the_slo_agrees_with_sloths_description() -> None:
    spec = yaml.safe_load((ROOT / "deploy" / "prometheus" / "sloth" / "goodput.yml").read_text())
    (slo,) = spec["slos"]
    records = {rule["record"]: rule for rule in rules("llm-recording.yml") if rule["record"].startswith("slo:")}
    assert records["slo:objective:ratio"]["expr"] == f"vector({slo['objective'] / 100})"
    windows = {name.rpartition("ratio_rate")[2] for name in records if "ratio_rate" in name}
    assert windows == {"5m", "30m", "1h", "2h", "6h", "1d", "3d"}
    for window in windows:
        rule = records[f"slo:sli_error:ratio_rate{window}"]
        assert rule["labels"] == {
            "sloth_id": f"{spec['service']}-{slo['name']}", "sloth_service": spec["service"], "sloth_slo": slo["name"],
            "sloth_window": window,
        }  # fmt: skip
        assert set(re.findall(r"\[(\w+)\]", rule["expr"])) == {window}


def test_a_pattern_for_an_edge_fits_that_edge_alone() -> None:
    """A dot that is no escaped one would fit any letter."""
    folders = (RULES, ROOT / "dashboards" / "generated")
    texts = [path.read_text() for folder in folders for path in sorted(folder.iterdir())]
    edges = {edge for text in texts for edge in re.findall(r'\ble=~\\?"(.+?)\\?"', text)}
    assert edges == {"0[.]5", "10([.]0)?"}
    assert all(
        re.fullmatch(edge, fits) for edge, fits in (("0[.]5", "0.5"), ("10([.]0)?", "10"), ("10([.]0)?", "10.0"))
    )
