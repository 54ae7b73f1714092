"""Read Kubernetes manifests for what they say about scraping. Pure: YAML text in, values out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from obs_exporter.errors import InputError

_KSERVE = "serving.kserve.io/"
_CLOSED_PORTS = ("9088", "9091")


@dataclass(frozen=True, slots=True)
class Annotated:
    """One object with KServe's scraping annotations.

    ``standard`` and ``knative`` tell its deployment mode; neither where it does not say. ``port`` is the annotated one.
    """

    name: str
    scraping: bool
    aggregation: bool
    standard: bool
    knative: bool
    port: str


def annotated(text: str) -> Iterator[Annotated]:
    """Yield the objects of a file that carry such annotations; a List is looked into, and a Deployment's template.

    Raises ``InputError`` for text that is no YAML.
    """
    import yaml

    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise InputError(f"--annotations: this is no YAML: {error}") from None
    for document in documents:
        for item in _objects(document):
            yield from _one(item)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item)
    elif isinstance(document, dict):
        yield document
        template = _path(document, "spec", "template")
        if isinstance(template, dict):
            yield {"kind": "Pod template", **template, "of": _path(document, "metadata", "name")}


def _one(item: dict[str, Any]) -> Iterator[Annotated]:
    metadata = item.get("metadata") if isinstance(item.get("metadata"), dict) else {}
    notes = _path(item, "metadata", "annotations")
    if not isinstance(notes, dict):
        # A bare mapping of annotations is accepted as well.
        notes = item if any(str(key).startswith((_KSERVE, "prometheus.io/")) for key in item) else {}
    notes = {str(key): str(value) for key, value in notes.items()}
    port = notes.get("prometheus.io/port", "")
    containers = _path(item, "spec", "containers")
    running = isinstance(containers, list)
    names = [container.get("name") for container in (containers if running else []) if isinstance(container, dict)]
    mode = notes.get(_KSERVE + "deploymentMode", "")
    knative = mode in ("Knative", "Serverless") or "queue-proxy" in names
    standard = mode in ("Standard", "RawDeployment") or (running and not knative)
    asked = notes.get(_KSERVE + "enable-prometheus-scraping", "").lower() == "true"
    rewritten = running and port in _CLOSED_PORTS and _KSERVE + "enable-prometheus-scraping" in notes
    if asked or rewritten:
        name = f"{item.get('kind', 'annotations')} {(metadata or {}).get('name') or item.get('of') or ''}".strip()
        aggregation = notes.get(_KSERVE + "enable-metric-aggregation", "").lower() == "true"
        yield Annotated(name, True, aggregation, standard, knative, port)


def _path(document: Any, *path: str) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document
