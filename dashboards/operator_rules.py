"""The alert and recording rules as the Prometheus Operator's resource, made from the plain rule files."""

from __future__ import annotations

from pathlib import Path

import yaml

_HEAD = "# Made of deploy/prometheus/rules/*.yml by: python -m dashboards.build. Change those files, not this one.\n"


def files(deploy: Path) -> dict[Path, str]:
    """Return the resource's text by the path where it belongs."""
    groups = []
    for path in sorted((deploy / "prometheus" / "rules").glob("*.yml")):
        groups += yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "llm-serving", "labels": {"app.kubernetes.io/part-of": "llm-serving-observability"}},
        "spec": {"groups": groups},
    }
    text = yaml.safe_dump(resource, sort_keys=False, width=110, allow_unicode=True)
    return {deploy / "kubernetes" / "rules" / "prometheusrule.yaml": _HEAD + text}
