"""What no schema says: labels that selectors mean, ports, volumes and accounts that are there.

With the schemas and these, any key that is spelled wrong anywhere in a manifest is found.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
Manifest = dict[str, Any]
Check = Callable[..., list[str]]
Pods = Callable[[Manifest], Iterator[tuple[str, Manifest]]]
Wiring = Callable[[str, list[Manifest]], list[str]]

RESOURCES = {"cpu", "memory", "storage", "nvidia.com/gpu"}
RAY_START = {"num-cpus", "num-gpus", "dashboard-host", "metrics-export-port", "resources"}
"""Flags of ``ray start`` that KubeRay passes on, without their dashes."""
CONTROLLERS = {"serving.kserve.io/deploymentMode"}
"""Annotations that a controller acts on."""
KNATIVE_PORTS = {"", "h2c", "http1"}
"""Names that Knative Serving allows for a container's port (runtime contract; anything else is refused)."""


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def fits(selector: Manifest, labels: Manifest) -> bool:
    wanted = selector.get("matchLabels", {})
    return bool(wanted) and wanted.items() <= labels.items()


def ports_of(pod: Manifest) -> list[Manifest]:
    return [port for container in containers(pod) for port in container.get("ports", [])]


@pytest.fixture
def wiring(pods: Pods, controller_labels: dict[str, dict[str, str]]) -> Wiring:
    """What is wrong between the manifests of an overlay, as far as no schema can say."""

    def problems(overlay: str, manifests: list[Manifest]) -> list[str]:
        made = []
        for manifest in manifests:
            for _, pod in pods(manifest):
                labels = {**pod["metadata"].get("labels", {}), **controller_labels.get(overlay, {})}
                made.append({**pod, "metadata": {"labels": labels}})
        named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
        found = [text for pod in made for text in _pod(pod, named, elsewhere=overlay == "probe/merge")]
        monitors = [one["spec"]["selector"] for one in manifests if one["kind"] == "PodMonitor"]
        watched = [any(fits(selector, pod["metadata"]["labels"]) for selector in monitors) for pod in made]
        found += ["no monitor selects a pod"] if monitors and not all(watched) else []
        for manifest in manifests:
            found += [f"{manifest['kind']}: {text}" for text in _manifest(manifest, made, named, overlay)]
        return found

    return problems


def _manifest(
    manifest: Manifest, made: list[Manifest], named: dict[tuple[str, str], Manifest], overlay: str
) -> Iterator[str]:
    spec, kind = manifest.get("spec", {}), manifest["kind"]
    if kind == "NetworkPolicy":
        yield from _policy(spec, made)
    elif kind == "Service":
        chosen = [pod for pod in made if fits({"matchLabels": spec["selector"]}, pod["metadata"]["labels"])]
        names = {port.get("name") for pod in chosen for port in ports_of(pod)}
        yield from (f"no port {port['targetPort']}" for port in spec["ports"] if port["targetPort"] not in names)
    elif kind == "Deployment":
        if not fits(spec["selector"], spec["template"]["metadata"].get("labels", {})):
            yield "selects none of its own pods"
    elif kind == "PodMonitor":
        chosen = [pod for pod in made if fits(spec["selector"], pod["metadata"]["labels"])]
        if not chosen:
            yield "selects no pod"
        for endpoint in spec["podMetricsEndpoints"]:
            names = {port.get("name") for pod in chosen for port in ports_of(pod)}
            if "port" in endpoint and endpoint["port"] not in names:
                yield f"no port {endpoint['port']}"
    elif kind == "ServiceMonitor":
        services = [one for one in named.values() if one["kind"] == "Service"]
        chosen = [one for one in services if fits(spec["selector"], one["metadata"].get("labels", {}))]
        names = {port["name"] for one in chosen for port in one["spec"]["ports"]}
        yield from (f"no port {end['port']}" for end in spec["endpoints"] if end["port"] not in names)
    elif kind == "InferenceService":
        yield from (f"unknown annotation {key}" for key in set(manifest["metadata"]["annotations"]) - CONTROLLERS)
        if overlay == "kserve/knative":
            names = {port.get("name", "") for pod in made for port in ports_of(pod)}
            yield from (f"Knative refuses a port named {name}" for name in names - KNATIVE_PORTS)
    elif kind == "RayService":
        cluster = spec["rayClusterConfig"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield from (f"ray start has no --{key}" for key in set(group["rayStartParams"]) - RAY_START)
    elif kind == "PersistentVolumeClaim":
        yield from _unknown_resources(spec["resources"])


def _policy(spec: Manifest, made: list[Manifest]) -> Iterator[str]:
    chosen = [pod for pod in made if fits(spec["podSelector"], pod["metadata"]["labels"])]
    if not chosen:
        yield "protects no pod"
    declared = {(port["containerPort"], port.get("protocol", "TCP")) for pod in chosen for port in ports_of(pod)}
    for rule in spec["ingress"]:
        for port in rule.get("ports", []):
            if (port["port"], port["protocol"]) not in declared:
                yield f"opens {port['port']}, on which no container of its pods listens"
        for source in rule.get("from", []):
            inside = source.get("podSelector")
            if inside is not None and not any(fits(inside, pod["metadata"]["labels"]) for pod in made):
                yield "lets pods in that there are not"
            outside = source.get("namespaceSelector")
            if outside and set(outside["matchLabels"]) != {"kubernetes.io/metadata.name"}:
                yield "chooses namespaces by a label that the API server does not set"


def _pod(pod: Manifest, named: dict[tuple[str, str], Manifest], *, elsewhere: bool) -> Iterator[str]:
    spec = pod["spec"]
    account = spec.get("serviceAccountName")
    if account and ("ServiceAccount", account) not in named:
        yield f"no ServiceAccount {account}"
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    for volume in volumes.values():
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim and not elsewhere and ("PersistentVolumeClaim", claim) not in named:
            yield f"no claim {claim}"
        if "configMap" in volume:
            data = named.get(("ConfigMap", volume["configMap"]["name"]), {}).get("data", {})
            wanted = {item["key"] for item in volume["configMap"].get("items", [])} or {"targets.yml"}
            if set(data) != wanted:
                yield f"the ConfigMap of {volume['name']} has {sorted(data)}"
    for spread in spec.get("topologySpreadConstraints", []):
        if not fits(spread["labelSelector"], pod["metadata"]["labels"]):
            yield "spreads other pods than itself"
    for container in containers(pod):
        yield from (f"no volume {m['name']}" for m in container.get("volumeMounts", []) if m["name"] not in volumes)
        yield from _unknown_resources(container["resources"])
        names = {port.get("name") for port in container.get("ports", [])}
        numbers = {port["containerPort"] for port in container.get("ports", [])}
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            if probe in container and container[probe]["httpGet"]["port"] not in names | numbers:
                yield f"{probe} of {container['name']} asks a port that is not there"
        if container["image"].startswith("vllm/vllm-openai:") and container["command"][0] != "python3":
            yield "the image vllm/vllm-openai has python3 alone"


def _unknown_resources(resources: Manifest) -> Iterator[str]:
    for part in resources.values():
        yield from (f"unknown resource {name}" for name in set(part) - RESOURCES)


def test_selectors_ports_volumes_and_accounts_fit(
    each_overlay: str, render: Callable[[str], tuple[Manifest, ...]], wiring: Wiring
) -> None:
    assert wiring(each_overlay, list(render(each_overlay))) == []


PORT = ("spec", "ingress", 0, "ports", 0, "port")


@pytest.mark.parametrize(
    ("name", "kind", "place", "value"),
    [
        ("triton", "NetworkPolicy", PORT, 9999),
        ("vllm", "NetworkPolicy", ("spec", "podSelector", "matchLabels", "app.kubernetes.io/name"), "chats"),
        ("central", "NetworkPolicy", PORT, 9751),
        ("ray-serve", "NetworkPolicy", ("spec", "podSelector", "matchLabels", "app.kubernetes.io/name"), "ray"),
        ("kserve/standard", "NetworkPolicy", PORT, 8000),
        ("vllm", "Service", ("spec", "ports", 0, "targetPort"), "https"),
        ("kserve/knative", "InferenceService", ("spec", "predictor", "containers", 0, "ports", 0, "name"), "http"),
        ("kserve/standard", "InferenceService", ("spec", "predictor", "containers", 0, "command", 0), "python"),
        ("vllm", "Deployment", ("spec", "template", "spec", "containers", 0, "command", 0), "python"),
        ("vllm", "Deployment", ("spec", "template", "spec", "serviceAccountName"), "other"),
        ("probe", "Job", ("spec", "template", "spec", "volumes", 0, "persistentVolumeClaim", "claimName"), "x"),
        ("central", "Deployment", ("spec", "template", "spec", "volumes", 0, "configMap", "name"), "x"),
    ],
)
def test_a_wrong_value_is_found(
    render: Callable[[str], tuple[Manifest, ...]], wiring: Wiring, name: str, kind: str, place: tuple[Any, ...],
    value: object,
) -> None:  # fmt: skip
    manifests = copy.deepcopy(list(render(name)))
    spoilt = 0
    for manifest in manifests:
        node: Any = manifest
        if manifest["kind"] == kind:
            for step in place[:-1]:
                node = node[step]
            node[place[-1]] = value
            spoilt += 1
    assert spoilt
    assert wiring(name, manifests) != []


# -- any key ----------------------------------------------------------------------------------------------------------

FREE = {
    "app.kubernetes.io/part-of": "says what belongs together; nothing selects by it",
    ("Job", "app.kubernetes.io/name"): "says what a Job is; nothing selects the Jobs, nor the pod that merges",
    ("PersistentVolumeClaim", "app.kubernetes.io/name"): "as above",
}
"""Keys that may be anything, with the reason."""


def test_any_key_that_is_spelled_wrong_is_found(
    each_overlay: str, render: Callable[[str], tuple[Manifest, ...]], check: Check, wiring: Wiring,
    misspelled: Callable[[Any], Iterator[tuple[tuple[Any, ...], Any]]], has_crds: bool,
) -> None:  # fmt: skip
    manifests = list(render(each_overlay))
    tried, missed = 0, []
    for index, manifest in enumerate(manifests):
        if manifest["apiVersion"].partition("/")[0] in NEEDS_CRDS and not has_crds:
            continue
        for place, wrong in misspelled(manifest):
            tried += 1
            if check(wrong) or wiring(each_overlay, [*manifests[:index], wrong, *manifests[index + 1 :]]):
                continue
            if place[-1] not in FREE and (manifest["kind"], place[-1]) not in FREE:
                missed.append((manifest["kind"], place))
    assert missed == []
    if has_crds:  # without them little is left of an overlay that holds custom resources alone
        assert tried > (30 if each_overlay != "probe/merge" else 20)


NEEDS_CRDS = {"monitoring.coreos.com", "serving.kserve.io", "ray.io"}


def test_any_key_of_rays_configuration_that_is_spelled_wrong_is_found(
    schema: Callable[[str, Any], list[str]], misspelled: Callable[[Any], Iterator[tuple[tuple[Any, ...], Any]]]
) -> None:
    text = (ROOT / "deploy" / "kubernetes" / "ray-serve" / "rayservice.yaml").read_text()
    config = yaml.safe_load(yaml.safe_load(text)["spec"]["serveConfigV2"])
    assert schema("ray-serve-config", config) == []
    assert [place for place, wrong in misspelled(config) if not schema("ray-serve-config", wrong)] == []
    assert re.search(r"rayproject/ray-llm:2\.58\.0-", text)
