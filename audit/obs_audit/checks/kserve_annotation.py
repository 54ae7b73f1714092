"""A pod is annotated so that Prometheus scrapes a closed port.

``serving.kserve.io/enable-prometheus-scraping: "true"`` makes KServe write ``prometheus.io/port`` anew: 9091, or 9088
with aggregation. In Standard (raw) mode no queue-proxy is there to listen, whatever port the user had written. Given
a manifest of the InferenceService or of a pod (``--annotations``), this check says so before anything is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity
from obs_audit.manifests import Annotated, annotated

_REMEDY = (
    "leave serving.kserve.io/enable-prometheus-scraping out in Standard mode, and set prometheus.io/scrape, port 8080 "
    "and path /metrics yourself"
)
_MANIFEST = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: chat
  annotations:
    serving.kserve.io/deploymentMode: {}
    serving.kserve.io/enable-prometheus-scraping: "true"
    prometheus.io/port: "8080"
"""


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each object whose annotation leads to a closed port, or may."""
    for source, text in case.evidence.annotations:
        for item in annotated(text):
            problem = _problem(item)
            if problem:
                severity = Severity.ERROR if item.standard else Severity.WARNING
                yield Finding("kserve_annotation", severity, "", f"{item.name}: {problem}", _REMEDY, source)


def _problem(item: Annotated) -> str:
    """Say where Prometheus would be sent, or "" where that is right."""
    if item.knative or not item.scraping:
        return ""
    port = "9088" if item.aggregation else "9091"
    sure = "" if item.standard else " unless it runs in Knative mode"
    wanted = f", in place of {item.port}" if item.port and item.port != port else ""
    return f"KServe sets prometheus.io/port to {port}{wanted}, where nothing listens{sure}"


CHECK = Check(
    "kserve_annotation", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(stack="kserve", pieces={Role.ANNOTATIONS: _MANIFEST.format("Standard")}),
    passes=Example(stack="kserve", pieces={Role.ANNOTATIONS: _MANIFEST.format("Knative")}),
)  # fmt: skip
