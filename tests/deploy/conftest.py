"""Rendered manifests, and strict schemas to hold them against.

Kinds of Kubernetes itself are checked with the schemas that ``kubernetes-validate`` carries. Custom resources are
checked with their CRDs where those lie beside the checkout (``../shared/data/crds``); the pods inside them are checked
always.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate.utils
import pytest
import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
CRDS = ROOT.parent / "shared" / "data" / "crds"
OVERLAYS = ("vllm", "triton", "ray-serve", "kserve/standard", "kserve/knative", "central")
"""The overlays that run an exporter."""
PROBES = ("probe", "probe/merge")
PLAIN = ("rules/prometheusrule.yaml", "autoscaling/keda.yaml", "autoscaling/hpa.yaml")
"""Manifests that are applied by themselves."""
VERSIONS = ("1.29", "1.33", "1.37")
"""Native sidecars are on by default from 1.29; the newest schema is checked, too."""

Manifest = dict[str, Any]

kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)  # 1 MB of JSON a call


def tool(name: str) -> str:
    """The path of a program that the dev extra installs beside Python; skips where there is none for this system."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing: the dev extra installs it")
        pytest.skip(f"no {name} for this system")
    return found


@pytest.fixture(name="tool")
def tool_fixture() -> Callable[[str], str]:
    return tool


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    """What ``kubectl apply -k`` would send."""
    command = [tool("kubectl"), "kustomize", str(MANIFESTS / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def plain_files() -> list[Manifest]:
    """Manifests that no overlay renders."""
    return [document for path in PLAIN for document in yaml.safe_load_all((MANIFESTS / path).read_text())]


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


ADDED = {
    "kserve/standard": {"serving.kserve.io/inferenceservice": "chat", "component": "predictor",
                        "app": "isvc.chat-predictor"},
    "kserve/knative": {"serving.kserve.io/inferenceservice": "chat", "component": "predictor",
                       "serving.knative.dev/service": "chat"},
    "ray-serve": {"ray.io/cluster": "chat-x", "ray.io/is-ray-node": "yes", "app.kubernetes.io/name": "kuberay"},
}  # fmt: skip
"""Labels that the controllers put on the pods that they make."""


@pytest.fixture
def controller_labels() -> dict[str, dict[str, str]]:
    return ADDED


@pytest.fixture(params=[*OVERLAYS, *PROBES])
def each_overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def overlays() -> list[str]:
    return [*OVERLAYS, *PROBES]


@pytest.fixture
def plain() -> list[str]:
    return list(PLAIN)


@pytest.fixture
def render() -> Callable[[str], tuple[Manifest, ...]]:
    return rendered


@pytest.fixture
def everything() -> list[Manifest]:
    return [*(manifest for name in (*OVERLAYS, *PROBES) for manifest in rendered(name)), *plain_files()]


def pods(manifest: Manifest) -> Iterator[tuple[str, Manifest]]:
    """The pods that a manifest makes, as pod manifests, each with the name of what it is made from."""
    spec, name = manifest.get("spec", {}), f"{manifest['kind']} {manifest['metadata']['name']}"
    if manifest["kind"] in ("Deployment", "Job"):
        yield name, _pod(spec["template"])
    elif manifest["kind"] == "RayService":
        cluster = spec["rayClusterConfig"]
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield f"{name} {group.get('groupName', 'head')}", _pod(group["template"])
    elif manifest["kind"] == "InferenceService":
        own = ("labels", "annotations", "minReplicas", "maxReplicas", "deploymentStrategy")
        predictor = {key: value for key, value in spec["predictor"].items() if key not in own}
        yield name, _pod({"metadata": {"labels": spec["predictor"].get("labels", {})}, "spec": predictor})


def _pod(template: Manifest) -> Manifest:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **template.get("metadata", {})},
        "spec": template["spec"],
    }  # fmt: skip


@pytest.fixture(name="pods")
def pods_fixture() -> Callable[[Manifest], Iterator[tuple[str, Manifest]]]:
    return pods


# -- schemas ----------------------------------------------------------------------------------------------------------


def strict(schema: Any) -> Any:
    """Turn a CRD's schema into a JSON schema that knows every field there may be."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    kept = {key: strict(value) for key, value in schema.items() if not key.startswith("x-") and key != "properties"}
    if "properties" in schema:
        kept["properties"] = {name: strict(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            kept["additionalProperties"] = False
    if kept.pop("nullable", False):
        kept = {"anyOf": [kept, {"type": "null"}]}
    return kept


@cache
def crd_schemas() -> dict[tuple[str, str], Any]:
    """Strict schemas by apiVersion and kind."""
    found: dict[tuple[str, str], Any] = {}
    for path in sorted(CRDS.glob("*.json")):
        crd = json.loads(path.read_text())
        for version in crd["spec"]["versions"]:
            key = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}  # checked as any object's metadata
            found[key] = schema
    return found


def check(manifest: Manifest, version: str = VERSIONS[-1]) -> list[str]:
    """Return what is wrong with a manifest; a kind without a schema here is checked as far as its pods go."""
    if not {"apiVersion", "kind", "metadata"} <= manifest.keys() or "name" not in manifest["metadata"]:
        return ["no apiVersion, kind or name"]
    problems = []
    known = _custom(manifest["apiVersion"], manifest["kind"])
    if known is not None:
        problems += [f"{error.json_path}: {error.message}" for error in known.iter_errors(manifest)]
        problems += _native({"apiVersion": "v1", "kind": "ConfigMap", "metadata": manifest["metadata"]}, version)
    elif "." not in manifest["apiVersion"] or manifest["apiVersion"].split("/")[0].endswith("k8s.io"):
        problems += _native(manifest, version)
    if manifest["kind"] == "ScaledObject":
        problems += against("scaledobject", manifest)
    for _, pod in () if problems else pods(manifest):
        problems += _native(pod, version)
    return problems


@cache
def _custom(api_version: str, kind: str) -> jsonschema.Draft7Validator | None:
    schema = crd_schemas().get((api_version, kind))
    return None if schema is None else jsonschema.Draft7Validator(schema)


def _native(manifest: Manifest, version: str) -> list[str]:
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'/'.join(map(str, error.path))}: {error.message}"]
    return []


@pytest.fixture(name="check")
def check_fixture() -> Callable[..., list[str]]:
    return check


@pytest.fixture
def has_crds() -> bool:
    return bool(crd_schemas())


@cache
def _written(name: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(
        yaml.safe_load((Path(__file__).parent / "schemas" / f"{name}.yaml").read_text(encoding="utf-8"))
    )


def against(name: str, document: Any) -> list[str]:
    """Hold a document against a schema of ``schemas/``; each says which release of which source it follows."""
    return [f"{error.json_path}: {error.message}" for error in _written(name).iter_errors(document)]


@pytest.fixture
def schema() -> Callable[[str, Any], list[str]]:
    return against


def wrong_keys(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the document once for each key in it, with that key spelled wrong, and where the key stands."""
    if isinstance(document, dict):
        for key in document:
            yield (*place, key), {f"{k}x" if k == key else k: v for k, v in document.items()}
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for step, child in children:
        if isinstance(child, (dict, list)):
            for where, wrong in wrong_keys(child, (*place, step)):
                copied: Any = document.copy()
                copied[step] = wrong
                yield where, copied


@pytest.fixture
def misspelled() -> Callable[[Any], Iterator[tuple[tuple[Any, ...], Any]]]:
    return wrong_keys
