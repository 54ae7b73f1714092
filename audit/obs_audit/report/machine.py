"""The JSON report. Its fields are a contract: they are added to, never renamed without a changelog line."""

from __future__ import annotations

import json
from dataclasses import asdict

from obs_audit.verdict import Report

SCHEMA_VERSION = 1


def document(report: Report) -> dict[str, object]:
    """Return the report as plain data."""
    reading = report.reading
    counts = report.counts
    return {
        "schema_version": SCHEMA_VERSION,
        "stack": {
            "name": reading.stack,
            "version": str(reading.stack_version),
            "version_source": reading.stack_version.source,
        },
        "engine": {
            "name": "vllm",
            "version": str(reading.engine_version),
            "generation": reading.generation or "unknown",
            "version_source": reading.engine_version.source,
        },
        "signals": [
            {
                "id": answer.signal.id,
                "metric": answer.signal.metric,
                "state": str(answer.state),
                "provenance": str(answer.provenance),
                "precision": str(answer.precision),
                "native_name": answer.native_name,
                "reason": answer.reason,
                "remedy": answer.remedy,
                "cost": answer.cost,
                "evidence": report.evidence[answer.signal.id],
                "waived": False,
            }
            for answer in reading.answers
        ],
        "findings": [asdict(finding) | {"severity": str(finding.severity)} for finding in report.findings],
        "counts": {
            "families": counts.families if counts else None,
            "engine_families": counts.engine_families if counts else None,
            "series": counts.series if counts else None,
        },
        "coverage": {"published": report.published, "total": len(reading.answers)},
        "exit_code": report.exit_code,
    }


def render(report: Report) -> str:
    """Return the report as JSON text."""
    return json.dumps(document(report), indent=2, ensure_ascii=False) + "\n"
