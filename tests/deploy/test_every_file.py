"""Every file under deploy/ is held against something that finds a key spelled wrong: nothing there is only text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from obs_exporter import config
from obs_exporter.errors import InputError
from obs_exporter.stacks import STACKS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
PROMTOOL = shutil.which("promtool")

Misspelled = Callable[[Any], Iterator[tuple[tuple[Any, ...], Any]]]
Schema = Callable[[str, Any], list[str]]

TARGETS = ("compose/targets.yml", "kubernetes/central/targets.yml")
WITH_SCHEMA = {
    "kubernetes/autoscaling/prometheus-adapter-values.yaml": "prometheus-adapter-values",
    "prometheus/sloth/goodput.yml": "sloth",
    "compose/grafana/provisioning/datasources/prometheus.yml": "grafana-datasources",
    "compose/grafana/provisioning/dashboards/llm-serving.yml": "grafana-dashboards",
}
ELSEWHERE = {
    "prometheus/tests/alerts.test.yml": "input of promtool test rules, which refuses unknown keys",
    "prometheus/tests/goodput.test.yml": "as above",
    "kubernetes/triton/model-repository/1/model.json": "the last test: the backend takes any engine argument",
}
PROMETHEUS = ("compose/prometheus.yml", "prometheus/rules/llm-alerts.yml", "prometheus/rules/llm-recording.yml")


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_no_file_is_left_out(render: Callable[[str], tuple[Any, ...]], overlays: list[str], plain: list[str]) -> None:
    checked = {*TARGETS, *WITH_SCHEMA, *ELSEWHERE, *PROMETHEUS, "compose/compose.yaml"}
    checked |= {f"kubernetes/{path}" for path in plain}
    for overlay in overlays:
        folder = KUBERNETES / overlay
        checked.add(f"kubernetes/{overlay}/kustomization.yaml")
        todo = [(folder, "kustomization.yaml")]
        while todo:
            place, name = todo.pop()
            for resource in yaml.safe_load((place / name).read_text())["resources"]:
                path = (place / resource).resolve()
                if path.is_dir():
                    todo.append((path, "kustomization.yaml"))
                    path /= "kustomization.yaml"
                checked.add(str(path.relative_to(DEPLOY)))
    there = {
        str(path.relative_to(DEPLOY)) for suffix in ("yaml", "yml", "json") for path in DEPLOY.rglob(f"*.{suffix}")
    }
    assert there == checked


@pytest.mark.parametrize("name", TARGETS)
def test_the_exporter_takes_its_targets_and_no_key_spelled_wrong(
    name: str, misspelled: Misspelled, tmp_path: Path
) -> None:
    loaded = config.load(DEPLOY / name)
    assert loaded.targets
    assert {target.stack for target in loaded.targets} <= set(STACKS)
    path = tmp_path / "targets.yml"
    for place, wrong in misspelled(load(name)):
        path.write_text(yaml.safe_dump(wrong))
        with pytest.raises(InputError):
            config.load(path)
        assert place


def test_the_central_exporter_listens_where_its_service_leads() -> None:
    loaded = config.load(KUBERNETES / "central" / "targets.yml")
    deployment = load("kubernetes/central/deployment.yaml")
    (exporter,) = deployment["spec"]["template"]["spec"]["containers"]
    assert loaded.listen == ("0.0.0.0", exporter["ports"][0]["containerPort"])  # noqa: S104


@pytest.mark.parametrize("name", WITH_SCHEMA)
def test_a_key_spelled_wrong_is_found(name: str, schema: Schema, misspelled: Misspelled) -> None:
    document = load(name)
    assert schema(WITH_SCHEMA[name], document) == []
    assert [place for place, wrong in misspelled(document) if not schema(WITH_SCHEMA[name], wrong)] == []


def test_a_key_spelled_wrong_is_found_in_the_manifests_that_stand_alone(
    plain: list[str], check: Callable[..., list[str]], misspelled: Misspelled, has_crds: bool
) -> None:
    generated = load("kubernetes/rules/prometheusrule.yaml")
    for name in plain:
        document = load(f"kubernetes/{name}")
        if document["kind"] == "PrometheusRule" and not has_crds:
            continue
        for place, wrong in misspelled(document):
            # Names of labels and annotations are free there; that this file is the rule files is a test of its own.
            free = document == generated and place[-2:-1] and place[-2] in ("labels", "annotations")
            assert free or check(wrong), (name, place)


def test_the_adapter_asks_prometheus_what_prometheus_can_read() -> None:
    (rule,) = load("kubernetes/autoscaling/prometheus-adapter-values.yaml")["rules"]["custom"]
    query = rule["metricsQuery"]
    assert set(re.findall(r"<<(.+?)>>", query)) == {".GroupBy", ".Series", ".LabelMatchers"}
    for template, text in ((".GroupBy", "pod"), (".Series", "llm_x"), (".LabelMatchers", 'pod="a"')):
        query = query.replace(f"<<{template}>>", text)
    promql_parser.parse(query)
    promql_parser.parse(rule["seriesQuery"])
    hpa = load("kubernetes/autoscaling/hpa.yaml")
    for metric in (one["pods"]["metric"]["name"] for one in hpa["spec"]["metrics"]):
        assert re.fullmatch(rule["name"]["matches"], metric)
        assert re.search(rf"[\"|]{metric}[\"|]", rule["seriesQuery"])


def test_the_autoscalers_scale_what_the_overlays_deploy(render: Callable[[str], tuple[Any, ...]]) -> None:
    deployed = {(m["apiVersion"], m["kind"], m["metadata"]["name"]) for o in ("vllm", "triton") for m in render(o)}
    for name in ("hpa", "keda"):
        target = load(f"kubernetes/autoscaling/{name}.yaml")["spec"]["scaleTargetRef"]
        assert (target["apiVersion"], target["kind"], target["name"]) in deployed


# -- files that only a program reads: one attempt for each shape of place ----------------------------------------------


def shapes(document: Any, misspelled: Misspelled) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each kind of place once: the third container is spelled wrong as the first is."""
    seen = set()
    for place, wrong in misspelled(document):
        shape = tuple(step for step in place if isinstance(step, str))
        shape = shape[2:] if shape[0] == "services" and len(shape) > 2 else shape  # one compose service for all
        if shape not in seen:
            seen.add(shape)
            yield place, wrong


def succeeds(*command: str | Path) -> bool:
    return subprocess.run([*map(str, command)], capture_output=True, check=False).returncode == 0


def test_kustomize_refuses_a_key_spelled_wrong(
    overlays: list[str], misspelled: Misspelled, tool: Callable[[str], str], tmp_path: Path
) -> None:
    shutil.copytree(KUBERNETES, tmp_path / "k")
    seen: set[tuple[Any, ...]] = set()
    for overlay in ("base", *overlays):
        path = tmp_path / "k" / overlay / "kustomization.yaml"
        text = path.read_text()
        for place, wrong in shapes(yaml.safe_load(text), misspelled):
            if place in seen:
                continue
            seen.add(place)
            path.write_text(yaml.safe_dump(wrong))
            # A label of the pairs is free; test_wiring finds those that a selector means.
            free = place[-2:-1] == ("pairs",)
            assert free or not succeeds(tool("kubectl"), "kustomize", path.parent), (overlay, place)
        path.write_text(text)
    assert len(seen) > 8


COMPOSE_FREE = {
    "environment": "any variable may be set; test_compose says which",
    "volumes": "test_compose: every mounted file is there",
    "services": "test_compose: the names are those that the configurations have",
}


def test_docker_compose_refuses_a_key_spelled_wrong(
    misspelled: Misspelled, tool: Callable[[str], str], tmp_path: Path
) -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    path = tmp_path / "compose.yaml"
    tried = 0
    for place, wrong in shapes(yaml.safe_load(text), misspelled):
        if str(place[0]).startswith("x-") or (len(place) > 1 and place[-2] in COMPOSE_FREE) or place == ("name",):
            continue  # what x-... holds is merged into the services, where it is tried
        path.write_text(yaml.safe_dump(wrong))
        tried += 1
        assert not succeeds(tool("docker-compose"), "-f", path, "config", "--quiet"), place
    assert tried > 15


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here")
@pytest.mark.parametrize("name", PROMETHEUS)
def test_promtool_refuses_a_key_spelled_wrong(name: str, misspelled: Misspelled, tmp_path: Path) -> None:
    document = load(name)
    kind = "config" if "compose" in name else "rules"
    document.pop("rule_files", None)
    path = tmp_path / "file.yml"
    assert PROMTOOL
    path.write_text(yaml.safe_dump(document))
    assert succeeds(PROMTOOL, "check", kind, path)
    for place, wrong in shapes(document, misspelled):
        path.write_text(yaml.safe_dump(wrong))
        # test_rules: annotations are a fixed set; alerts and recorded series are tested with their labels.
        free = place[-2:-1] in (("labels",), ("annotations",))
        assert free or not succeeds(PROMTOOL, "check", kind, path), place


def test_tritons_model_has_the_engine_arguments_that_it_is_meant_to_have() -> None:
    model = json.loads((KUBERNETES / "triton" / "model-repository" / "1" / "model.json").read_text())
    assert set(model) == {"model", "max_model_len", "gpu_memory_utilization", "max_num_seqs", "disable_log_stats"}
    pbtxt = (KUBERNETES / "triton" / "model-repository" / "config.pbtxt").read_text()
    keys = set(re.findall(r"^\s*([a-z_]+)\s*[:\[{]", pbtxt, re.MULTILINE))
    assert keys == {"backend", "instance_group", "count", "kind", "parameters", "key", "value"}
