"""The JSON report. Its fields are a contract: they are added to, never renamed without a changelog line."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from obs_audit import loglines
from obs_audit.baseline import compare
from obs_audit.inventory import explained
from obs_audit.verdict import Report
from obs_exporter.stacks import Answer

SCHEMA_VERSION = 1


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain data."""
    reading = report.reading
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
        "profile": report.asked.profile.name,
        "signals": [_signal(answer, report) for answer in reading.answers],
        "findings": [
            asdict(finding) | {"severity": str(finding.severity), "waived": finding.waived}
            for finding in report.findings
        ],
        "counts": _counts(report),
        "coverage": {"published": report.published, "total": len(report.answers)},
        "baseline": _baseline(report),
        "exercise": asdict(report.case.evidence.exercise) if report.case.evidence.exercise else None,
        "engine_log": _log(report),
        "exit_code": report.exit_code,
    }


def _signal(answer: Answer, report: Report) -> dict[str, Any]:
    signal = answer.signal
    return {
        "id": signal.id,
        "metric": signal.metric,
        "state": str(answer.state),
        "provenance": str(answer.provenance),
        "precision": str(answer.precision),
        "native_name": answer.native_name,
        "reason": answer.reason,
        "remedy": answer.remedy,
        "cost": answer.cost,
        "evidence": report.case.places[signal.id],
        "waived": bool(report.waiver(signal.id)),
        "in_profile": report.asked.profile.asks_for(signal.id),
    }


def _counts(report: Report) -> dict[str, Any]:
    counts = report.counts
    return {
        "families": counts.families if counts else None,
        "engine_families": counts.engine_families if counts else None,
        "series": counts.series if counts else None,
        "type_lines": counts.type_lines if counts else None,
        "engine_type_lines": counts.engine_type_lines if counts else None,
        "created": counts.created if counts else None,
        "explained": explained(counts, report.reading) if counts else [],
    }


def _baseline(report: Report) -> dict[str, Any] | None:
    comparison = compare(report.case.evidence, report.reading)
    return asdict(comparison) if comparison else None


def _log(report: Report) -> dict[str, Any]:
    case = report.case
    lines = loglines.expected(case.stack, case.release, case.reading.engine_version.best, case.reading.generation)
    found = {kind: text for log in case.evidence.logs for kind, text in log.lines.items()}
    return {
        "place": loglines.place(case.stack, case.release),
        "given": [log.source for log in case.evidence.logs],
        "expected": [
            {"id": line.id, "tells": line.tells, "under_load": line.load, "found": list(found.get(line.id, ()))}
            for line in lines
        ],
    }


def render(report: Report) -> str:
    """Return the report as JSON text."""
    return json.dumps(document(report), indent=2, ensure_ascii=False) + "\n"
