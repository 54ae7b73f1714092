"""Manifests: which objects send Prometheus to a closed port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from obs_audit.manifests import annotated

Run = Callable[..., Result]
ON = {"serving.kserve.io/enable-prometheus-scraping": "true", "prometheus.io/port": "8080"}


def manifest(kind: str, annotations: dict[str, str], spec: dict[str, object] | None = None) -> str:
    return yaml.safe_dump({"kind": kind, "metadata": {"name": "m", "annotations": annotations}, "spec": spec or {}})


def pod(*containers: str) -> dict[str, object]:
    return {"containers": [{"name": name} for name in containers]}


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        (manifest("InferenceService", {**ON, "serving.kserve.io/deploymentMode": "RawDeployment"}), "error"),
        (manifest("InferenceService", {**ON, "serving.kserve.io/deploymentMode": "Serverless"}), ""),
        (manifest("InferenceService", ON), "warning"),
        (manifest("Pod", {**ON, "prometheus.io/port": "9091"}, pod("kserve-container")), "error"),
        (manifest("Pod", {**ON, "prometheus.io/port": "9091"}, pod("kserve-container", "queue-proxy")), ""),
        (manifest("Pod", {"prometheus.io/port": "8080"}, pod("kserve-container")), ""),
        (yaml.safe_dump(ON), "warning"),
        (yaml.safe_dump({"items": [yaml.safe_load(manifest("InferenceService", ON))]}), "warning"),
        ("", ""),
        ("- a\n- 3\n", ""),
    ],
)
def test_the_closed_port_is_found_where_it_is(text: str, severity: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "isvc.yaml"
    file.write_text(text, encoding="utf-8")
    result = run("--stack", "kserve", "--annotations", file, "--fail-on", "any", "--profile", "seed")
    assert result.exit_code == (1 if severity else 0)
    assert ("kserve_annotation" in result.output) is bool(severity)
    if severity:
        assert f"{severity} " in result.output


def test_the_port_of_an_aggregator_is_another(run: Run, tmp_path: Path) -> None:
    notes = {
        **ON,
        "serving.kserve.io/enable-metric-aggregation": "true",
        "serving.kserve.io/deploymentMode": "Standard",
    }
    (item,) = annotated(manifest("InferenceService", notes))
    assert item.aggregation
    file = tmp_path / "isvc.yaml"
    file.write_text(manifest("InferenceService", notes), encoding="utf-8")
    assert "9088, in place of 8080" in " ".join(run("--stack", "kserve", "--annotations", file).output.split())


def test_what_is_no_yaml_is_an_error_for_people(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "isvc.yaml"
    file.write_text("a: [", encoding="utf-8")
    result = run("--stack", "kserve", "--annotations", file)
    assert result.exit_code == 2
    assert "this is no YAML" in result.output
