"""The monitors really select: Prometheus' own relabelling over the targets that the pods of each stack become.

The pods of our manifests, with the labels that KServe, Knative and KubeRay add, stand among pods that must not be
chosen. They become targets as Prometheus' pod discovery makes them (Debian's build has no Kubernetes discovery, so a
file hands them over), and the scrape configuration is what the Prometheus Operator makes of a PodMonitor.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(not PROMETHEUS and not os.environ.get("CI"), reason="no prometheus here")

Manifest = dict[str, Any]

QUEUE_PROXY = {
    "name": "queue-proxy", "image": "queue",
    "ports": [{"name": name, "containerPort": port} for name, port in
              (("queue-port", 8012), ("http-autometric", 9090), ("http-usermetric", 9091))],
}  # fmt: skip


def cluster(
    render: Callable[[str], Any], pods: Callable[[Manifest], Iterator[tuple[str, Manifest]]],
    added: dict[str, dict[str, str]],
) -> list[Manifest]:  # fmt: skip
    """Every pod of our manifests as it would run, and two that have nothing to do with us."""
    found: list[Manifest] = []
    for overlay in ("vllm", "triton", "ray-serve", "kserve/standard", "kserve/knative"):
        for manifest in render(overlay):
            for name, made in pods(manifest):
                pod = copy.deepcopy(made)
                pod["metadata"] = {"name": f"{overlay} {name}".replace("/", "-").replace(" ", "-").lower(),
                                   "labels": {**made["metadata"]["labels"], **added.get(overlay, {})}}  # fmt: skip
                if overlay == "kserve/knative":
                    pod["spec"]["containers"].append(QUEUE_PROXY)
                found.append(pod)
    for name, labels in (("other", {}), ("plain-kserve", added["kserve/standard"])):
        container = {"name": "kserve-container", "image": "x", "ports": [{"name": "http", "containerPort": 8080}]}
        found.append({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}})
    for index, pod in enumerate(found):
        pod["status"] = {"phase": "Running", "podIP": f"127.0.1.{index + 1}"}
    return found


def targets(pod: Manifest) -> Iterator[Manifest]:
    """The targets that a pod becomes: one for each declared port of each container, native sidecars among them, and one
    with a bare address for a container that declares none."""
    spec, meta, address = pod["spec"], pod["metadata"], pod["status"]["podIP"]
    common = {"__meta_kubernetes_pod_name": meta["name"], "__meta_kubernetes_pod_phase": pod["status"]["phase"]}
    for name, value in meta["labels"].items():
        common[f"__meta_kubernetes_pod_label_{_label(name)}"] = value
        common[f"__meta_kubernetes_pod_labelpresent_{_label(name)}"] = "true"
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        named = {**common, "__meta_kubernetes_pod_container_name": container["name"]}
        for port in container.get("ports", []):
            labels = {
                "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                "__meta_kubernetes_pod_container_port_number": str(port["containerPort"]),
            }
            yield {"targets": [f"{address}:{port['containerPort']}"], "labels": {**named, **labels}}
        if not container.get("ports"):
            yield {"targets": [address], "labels": named}


def _label(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def scrape_config(monitor: Manifest, file: Path) -> Manifest:
    """The scrape configuration of a PodMonitor with one endpoint, as the operator (0.93) writes it."""
    spec = monitor["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    relabel: list[Manifest] = [
        {"action": "keep", "source_labels": [f"__meta_kubernetes_pod_label_{_label(name)}"], "regex": value}
        for name, value in spec["selector"]["matchLabels"].items()
    ]
    if "port" in endpoint:
        relabel.append(
            {
                "action": "keep",
                "source_labels": ["__meta_kubernetes_pod_container_port_name"],
                "regex": endpoint["port"],
            }
        )
    relabel.append({"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)"})
    relabel.append({"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"})
    relabel += [{_snake(name): value for name, value in given.items()} for given in endpoint.get("relabelings", [])]
    return {
        "job_name": monitor["metadata"]["name"],
        "scrape_interval": "1h",
        "file_sd_configs": [{"files": [str(file)]}],
        "relabel_configs": relabel,
    }


@pytest.fixture
def selected(
    render: Callable[[str], Any], pods: Any, tmp_path: Path, controller_labels: dict[str, dict[str, str]]
) -> Iterator[Callable[[list[Manifest]], dict[str, dict[str, str]]]]:
    """Start Prometheus with monitors; returns, by job, which pod is scraped at which address."""
    file = tmp_path / "pods.json"
    file.write_text(json.dumps([target for pod in cluster(render, pods, controller_labels) for target in targets(pod)]))
    running: list[subprocess.Popen[bytes]] = []

    def start(monitors: list[Manifest]) -> dict[str, dict[str, str]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = tmp_path / "prometheus.yml"
        config.write_text(yaml.safe_dump({"scrape_configs": [scrape_config(monitor, file) for monitor in monitors]}))
        assert PROMETHEUS
        running.append(subprocess.Popen(
            [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ))  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/targets", timeout=5) as response:
                    data = json.load(response)["data"]
            except OSError:
                data = {}
            if data.get("droppedTargets") and data.get("activeTargets"):
                return _by_job(data["activeTargets"])
            time.sleep(0.3)
        raise AssertionError("no target was ever discovered")

    yield start
    for process in running:
        process.terminate()
        process.wait(20)


def _by_job(targets: list[Manifest]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for target in targets:
        jobs = found.setdefault(target["scrapePool"], {})
        assert target["labels"]["pod"] not in jobs, "one pod is scraped twice"
        jobs[target["labels"]["pod"]] = target["scrapeUrl"]
    return found


@needs_prometheus
def test_the_monitors_select_the_sidecars_and_nothing_else(
    selected: Callable[..., Any], render: Callable[[str], Any]
) -> None:
    monitors = {
        manifest["metadata"]["name"]: manifest
        for overlay in ("vllm", "kserve/knative")
        for manifest in render(overlay)
        if manifest["kind"] == "PodMonitor"
    }
    assert set(monitors) == {"llm-serving", "chat-native", "llm-serving-knative"}
    found = selected(list(monitors.values()))
    with_port = {
        "vllm-deployment-chat", "triton-deployment-chat", "ray-serve-rayservice-chat-head",
        "ray-serve-rayservice-chat-gpu", "kserve-standard-inferenceservice-chat",
    }  # fmt: skip
    assert set(found["llm-serving"]) == with_port
    # On Knative nobody declares the exporter's port: the monitor writes it, and leaves queue-proxy's ports alone.
    assert set(found["llm-serving-knative"]) == {"kserve-knative-inferenceservice-chat"}
    for job in ("llm-serving", "llm-serving-knative"):
        assert all(url.endswith(":9750/metrics") for url in found[job].values()), found[job]
    assert set(found["chat-native"]) == {"vllm-deployment-chat", "triton-deployment-chat"}
    assert all(url.endswith(":8000/metrics") for url in found["chat-native"].values())


def test_the_service_monitor_selects_the_service_that_selects_the_pods(
    render: Callable[[str], Any], pods: Callable[[Manifest], Iterator[tuple[str, Manifest]]]
) -> None:
    by_kind = {manifest["kind"]: manifest for manifest in render("central")}
    monitor, service = by_kind["ServiceMonitor"]["spec"], by_kind["Service"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ((_, pod),) = pods(by_kind["Deployment"])
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert port["name"] == monitor["endpoints"][0]["port"]
    declared = {one["name"] for container in pod["spec"]["containers"] for one in container.get("ports", [])}
    assert port["targetPort"] in declared
