"""The manifests: valid for the versions they claim, and a wrong field is found in every kind of them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from obs_audit.lint.promql import metric_uses
from obs_exporter._version import __version__
from obs_exporter.cli import main
from obs_exporter.schema import SIGNALS

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}

Manifest = dict[str, Any]
Check = Callable[..., list[str]]
Pods = Callable[[Manifest], Iterator[tuple[str, Manifest]]]


def containers(pod: Manifest) -> list[tuple[bool, Manifest]]:
    """Every container of a pod; True for those that start before it."""
    spec = pod["spec"]
    return [(True, one) for one in spec.get("initContainers", [])] + [(False, one) for one in spec["containers"]]


def exporters(pod: Manifest) -> list[tuple[bool, Manifest]]:
    return [(first, one) for first, one in containers(pod) if one["name"] == "obs-exporter"]


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
def test_every_manifest_is_valid(everything: list[Manifest], check: Check, version: str) -> None:
    for manifest in everything:
        assert check(manifest, version) == [], manifest["metadata"]["name"]
    assert len(everything) > 25


def test_a_native_sidecar_is_refused_where_there_is_none(
    render: Callable[[str], tuple[Manifest, ...]], check: Check
) -> None:
    (deployment,) = [manifest for manifest in render("vllm") if manifest["kind"] == "Deployment"]
    assert check(deployment, "1.27") != []


SIDECAR = ("spec", "template", "spec", "initContainers", 0)
WORKER = ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "template", "spec", "containers", 0)
WRONG: dict[str, list[tuple[tuple[str | int, ...], str, object]]] = {
    "Deployment": [(SIDECAR, "restartPolice", "Always"),
                   ((*SIDECAR, "securityContext"), "readonlyRootFilesystem", True),
                   (("spec", "template", "spec"), "serviceAccountname", "x"), (("spec",), "replicas", "one")],
    "Job": [(("spec",), "completionmode", "Indexed"), (("spec", "template", "spec", "containers", 0), "commands", [])],
    "PersistentVolumeClaim": [(("spec",), "accessMode", [])],
    "ScaledObject": [(("spec",), "triggerz", []), (("spec", "triggers", 0, "metadata"), "ignoreNullValue", "false")],
    "Service": [(("spec", "ports", 0), "targetport", 1), (("spec",), "selectors", {})],
    "ServiceAccount": [((), "automountServiceAccountTokens", False)],
    "NetworkPolicy": [(("spec", "ingress", 0), "port", []), (("spec",), "podselector", {})],
    "ConfigMap": [((), "datas", {})],
    "HorizontalPodAutoscaler": [(("spec", "metrics", 0, "pods", "target"), "averageValues", "2")],
    "PodMonitor": [(("spec", "podMetricsEndpoints", 0), "ports", "x"),
                   (("spec", "podMetricsEndpoints", 0), "interval", "30 seconds"), (("spec",), "selectors", {}),
                   (("spec",), "scrapeProtocols", ["Text"])],
    "ServiceMonitor": [(("spec", "endpoints", 0), "portNumber", 1), (("spec", "selector"), "matchLabel", {})],
    "PrometheusRule": [(("spec", "groups", 0, "rules", 0), "expression", "up"), (("spec", "groups", 0), "rule", [])],
    "InferenceService": [(("spec", "predictor"), "initcontainers", []), (("spec",), "predictors", {}),
                         (("spec", "predictor", "containers", 0), "argument", [])],
    "RayService": [(("spec",), "serveConfig", ""), (("spec", "rayClusterConfig", "headGroupSpec"), "templates", {}),
                   (WORKER, "img", "x")],
}  # fmt: skip
NEEDS_CRD = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "InferenceService", "RayService"}


def test_a_wrong_field_is_found_in_every_kind(everything: list[Manifest], check: Check, has_crds: bool) -> None:
    kinds = {manifest["kind"] for manifest in everything}
    assert kinds == set(WRONG)
    tried: set[tuple[str, str]] = set()
    for manifest in everything:
        if manifest["kind"] in NEEDS_CRD and not has_crds:
            continue
        for place, field, value in WRONG.get(manifest["kind"], []):
            changed = copy.deepcopy(manifest)
            node = at(changed, place)
            if node is None:
                continue
            node[field] = value
            tried.add((manifest["kind"], field))
            assert check(changed) != [], (manifest["kind"], place, field)
    judged = [kind for kind in WRONG if has_crds or kind not in NEEDS_CRD]
    assert tried == {(kind, field) for kind in judged for _, field, _ in WRONG[kind]}


def at(node: Any, place: tuple[str | int, ...]) -> Any:
    """What stands at a place, or None."""
    for step in place:
        try:
            node = node[step]
        except (KeyError, IndexError):
            return None
    return node


def test_a_wrong_field_in_a_custom_resources_pod_is_found_without_its_crd(
    everything: list[Manifest], check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(check.__globals__, "crd_schemas", dict)
    for manifest in everything:
        if manifest["kind"] not in ("InferenceService", "RayService"):
            continue
        assert check(manifest) == []
        changed = copy.deepcopy(manifest)
        spec = changed["spec"]
        pod = (
            spec["predictor"] if "predictor" in spec else spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
        )
        pod["containers"][0]["securityContexts"] = {}
        assert check(changed) != []


# -- the sidecar ------------------------------------------------------------------------------------------------------


def test_every_exporter_is_locked_down_and_bounded(
    overlay: str, render: Callable[[str], tuple[Manifest, ...]], pods: Pods
) -> None:
    found = 0
    for manifest in render(overlay):
        for name, pod in pods(manifest):
            for _, exporter in exporters(pod):
                found += 1
                assert exporter["securityContext"] == RESTRICTED, name
                assert exporter["resources"] == {
                    "requests": {"cpu": "10m", "memory": "64Mi"},
                    "limits": {"cpu": "250m", "memory": "128Mi"},
                }
                assert exporter["image"] == f"registry.example.com/llm-serving-observability:{__version__}"
            assert len(exporters(pod)) == 1
            assert pod["spec"]["automountServiceAccountToken"] is False
            assert pod["spec"]["serviceAccountName"] == "llm-serving"
            assert not any("hostPath" in volume for volume in pod["spec"].get("volumes", []))
    assert found == (2 if overlay == "ray-serve" else 1)


def test_no_manifest_asks_for_rights(everything: list[Manifest]) -> None:
    accounts = [manifest for manifest in everything if manifest["kind"] == "ServiceAccount"]
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    assert not {manifest["kind"] for manifest in everything} & {
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
    }


def test_sidecars_are_native_but_on_knative(
    overlay: str, render: Callable[[str], tuple[Manifest, ...]], pods: Pods
) -> None:
    if overlay == "central":
        return
    for manifest in render(overlay):
        for _, pod in pods(manifest):
            ((first, exporter),) = exporters(pod)
            if overlay == "kserve/knative":
                assert not first
                assert not {"ports", "livenessProbe", "readinessProbe", "startupProbe", "restartPolicy"} & set(exporter)
                assert "initContainers" not in pod["spec"]
                assert "securityContext" not in pod["spec"]
                others = [one for _, one in containers(pod) if one["name"] != "obs-exporter"]
                assert [len(one["ports"]) for one in others] == [1]
            else:
                assert first
                assert exporter["restartPolicy"] == "Always"
                assert not {"readinessProbe", "startupProbe"} & set(exporter)
                assert exporter["ports"] == [{"name": "llm-metrics", "containerPort": 9750, "protocol": "TCP"}]


def test_the_commands_are_ones_that_the_program_takes(
    overlay: str, render: Callable[[str], tuple[Manifest, ...]], pods: Pods
) -> None:
    for manifest in render(overlay):
        for _, pod in pods(manifest):
            ((_, exporter),) = exporters(pod)
            name, *arguments = exporter["args"]
            command = main.commands[name]
            context = command.make_context(name, list(arguments), parent=click.Context(main))
            if overlay == "central":
                continue
            assert context.params["listen"] == "0.0.0.0:9750"
            port = re.search(r":(\d+)/metrics$", context.params["url"])
            assert port
            assert int(port[1]) in open_ports(overlay, pod)


def open_ports(overlay: str, pod: Manifest) -> set[int]:
    """The ports on which the serving container of a pod has its metrics page."""
    if overlay == "ray-serve":
        return {8080}  # KubeRay adds it to every node: the agent's --metrics-export-port
    return {port["containerPort"] for first, one in containers(pod) if not first for port in one.get("ports", [])}


def test_ray_shares_its_logs_with_the_sidecar(render: Callable[[str], tuple[Manifest, ...]], pods: Pods) -> None:
    (service,) = [manifest for manifest in render("ray-serve") if manifest["kind"] == "RayService"]
    for _, pod in pods(service):
        mounts = {one["name"]: {m["name"]: m for m in one["volumeMounts"]} for _, one in containers(pod)}
        assert all(found["ray-logs"]["mountPath"] == "/tmp/ray" for found in mounts.values())  # noqa: S108
        assert mounts["obs-exporter"]["ray-logs"]["readOnly"] is True
    config = yaml.safe_load(service["spec"]["serveConfigV2"])
    (llm,) = config["applications"][0]["args"]["llm_configs"]
    assert llm["log_engine_metrics"] is True


def test_triton_switches_the_engines_metrics_on() -> None:
    text = (KUBERNETES / "triton" / "model-repository" / "config.pbtxt").read_text()
    assert re.search(r'key: "REPORT_CUSTOM_METRICS"\s+value: \{ string_value: "true" \}', text)
    model = json.loads((KUBERNETES / "triton" / "model-repository" / "1" / "model.json").read_text())
    assert model["disable_log_stats"] is False
    deployment = (KUBERNETES / "triton" / "deployment.yaml").read_text()
    assert f"--max-num-seqs={model['max_num_seqs']}\n" in deployment


def test_kserve_leaves_out_the_annotation_that_breaks_scraping(render: Callable[[str], tuple[Manifest, ...]]) -> None:
    for overlay, mode in (("kserve/standard", "Standard"), ("kserve/knative", "Knative")):
        (service,) = [manifest for manifest in render(overlay) if manifest["kind"] == "InferenceService"]
        assert service["metadata"]["annotations"] == {"serving.kserve.io/deploymentMode": mode}


def test_names_that_a_scraper_would_change_are_asked_for_as_text(everything: list[Manifest]) -> None:
    monitors = [manifest for manifest in everything if manifest["kind"] in ("PodMonitor", "ServiceMonitor")]
    assert len(monitors) >= 4
    assert all(monitor["spec"]["scrapeProtocols"] == ["PrometheusText0.0.4"] for monitor in monitors)


def test_a_policy_opens_the_metrics_port_to_prometheus_alone(everything: list[Manifest]) -> None:
    policies = [manifest["spec"] for manifest in everything if manifest["kind"] == "NetworkPolicy"]
    opened = [
        rule
        for policy in policies
        for rule in policy["ingress"]
        if {"port": 9750, "protocol": "TCP"} in rule.get("ports", [])
    ]
    assert opened
    for rule in opened:
        (source,) = rule["from"]
        assert source == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_the_rule_resource_is_the_rule_files() -> None:
    resource = yaml.safe_load((KUBERNETES / "rules" / "prometheusrule.yaml").read_text())
    files = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
    assert resource["spec"]["groups"] == [g for path in files for g in yaml.safe_load(path.read_text())["groups"]]


def test_the_autoscalers_ask_for_metrics_of_the_schema() -> None:
    scaled = yaml.safe_load((KUBERNETES / "autoscaling" / "keda.yaml").read_text())
    assert {trigger["metadata"]["ignoreNullValues"] for trigger in scaled["spec"]["triggers"]} == {"false"}
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    hpa = yaml.safe_load((KUBERNETES / "autoscaling" / "hpa.yaml").read_text())
    adapter = (KUBERNETES / "autoscaling" / "prometheus-adapter-values.yaml").read_text()
    asked = {metric["pods"]["metric"]["name"] for metric in hpa["spec"]["metrics"]}
    named = {use.name for query in queries for use in metric_uses(query)}
    assert asked == named <= {signal.metric for signal in SIGNALS}
    assert all(name in adapter for name in asked)


def test_every_overlay_has_a_section_that_says_how_to_apply_it(overlay: str) -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    assert f"kubectl apply -k deploy/kubernetes/{overlay}" in text
