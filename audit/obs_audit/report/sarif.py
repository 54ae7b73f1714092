"""The SARIF 2.1.0 report: findings for a code host's security tab. The schema is checked in a test.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from obs_audit.checks import CHECKS
from obs_audit.findings import Finding, Severity
from obs_audit.report import grouping
from obs_audit.verdict import Report
from obs_exporter._version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}
_FURTHER = {
    "required": "A required signal has no value",
    "waiver_expired": "A waiver has ended",
    "waiver_unused": "A waiver covers nothing any more",
}


def render(report: Report) -> str:
    """Return the report as SARIF."""
    ids = [check.id for check in CHECKS] + list(_FURTHER)
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "obs-audit", "semanticVersion": __version__, "rules": _rules()}},
                "invocations": [{"executionSuccessful": report.exit_code != 2, "exitCode": report.exit_code}],
                "results": [_result(finding, ids, report) for finding in report.findings],
                "properties": {
                    "target": ", ".join(name for name, _ in grouping.identity(report)),
                    "summary": grouping.summary(report),
                },
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [
        {
            "id": check.id,
            "shortDescription": {"text": check.title},
            "fullDescription": {"text": " ".join(check.body.split()) or check.title},
            "help": {"text": check.remedy},
            "defaultConfiguration": {"level": _LEVELS[check.severity]},
        }
        for check in CHECKS
    ]
    rules += [{"id": name, "shortDescription": {"text": title}} for name, title in _FURTHER.items()]
    return rules


def _result(finding: Finding, ids: list[str], report: Report) -> dict[str, Any]:
    text = f"{finding.signal}: {finding.message}" if finding.signal else finding.message
    if finding.remedy:
        text += f". What to do: {finding.remedy}"
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "ruleIndex": ids.index(finding.check),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding, report)],
        # The same finding on the next run is the same alert, whatever the page says of numbers.
        "partialFingerprints": {"obsAudit/v1": _fingerprint(finding, report)},
    }
    if finding.waived:
        result["suppressions"] = [{"kind": "external", "justification": finding.waiver}]
    return result


def _location(finding: Finding, report: Report) -> dict[str, Any]:
    """Point at the evidence: a file or a URL; the signal is the logical place."""
    source = finding.source if finding.source and " " not in finding.source else ""
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(source or f"{report.case.stack}.metrics", safe=":/?#")}}
    }
    if finding.signal:
        location["logicalLocations"] = [{"name": finding.signal, "kind": "member"}]
    return location


def _fingerprint(finding: Finding, report: Report) -> str:
    text = "\n".join((report.case.stack, finding.check, finding.signal, finding.source))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
