"""The JUnit report: one test case a signal and one a check, so that a CI shows what failed. Deterministic: no times."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from obs_audit.checks import CHECKS
from obs_audit.findings import Finding, Severity
from obs_audit.report import grouping
from obs_audit.verdict import Report
from obs_exporter.schema import State
from obs_exporter.stacks import Answer

_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML 1.0 cannot hold: a page may have them in its labels."""


def render(report: Report) -> str:
    """Return the report as XML."""
    title = ", ".join(name for name, _ in grouping.identity(report))
    suites = ET.Element("testsuites", name=_clean(f"obs-audit of {title}"))
    signals = _suite(suites, f"signals of {report.case.stack}")
    for answer in report.answers:
        _signal(signals, answer, report)
    checks = _suite(suites, f"checks of {report.case.stack}")
    for check in CHECKS:
        if not check.id.startswith("signal_"):
            _check(checks, check.id, [f for f in report.findings if f.check == check.id])
    for finding in report.findings:
        if finding.check in ("required", "waiver_expired"):
            _check(checks, f"{finding.check} {finding.signal}".strip(), [finding])
    for suite in suites:
        cases = list(suite)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(1 for case in cases if case.find("failure") is not None)))
        suite.set("skipped", str(sum(1 for case in cases if case.find("skipped") is not None)))
        suite.set("errors", "0")
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _suite(parent: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(parent, "testsuite", name=name)


def _case(suite: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", name=_clean(name), classname=f"obs-audit.{suite.get('name')}")


def _signal(suite: ET.Element, answer: Answer, report: Report) -> None:
    """Write a signal: failed where something is to be done, skipped where the question does not arise."""
    case = _case(suite, answer.signal.id)
    waiver = report.waiver(answer.signal.id)
    if answer.state in grouping.TROUBLE and not waiver:
        _failure(case, str(answer.state), answer.reason, answer.remedy)
    elif waiver or answer.state in (State.NEVER, State.NOT_APPLICABLE, State.IDLE):
        ET.SubElement(case, "skipped", message=_clean(f"waived: {waiver}" if waiver else answer.reason))
    else:
        ET.SubElement(case, "system-out").text = _clean(f"{answer.state} as {answer.native_name}")


def _check(suite: ET.Element, name: str, findings: list[Finding]) -> None:
    """Write a check: failed on a warning or an error; what it merely notes is its output."""
    case = _case(suite, name)
    loud = [finding for finding in findings if finding.severity >= Severity.WARNING and not finding.waived]
    for finding in loud:
        _failure(case, str(finding.severity), finding.message, finding.remedy)
    quiet = [finding for finding in findings if finding not in loud]
    if quiet and not loud:
        waived = [finding for finding in quiet if finding.waived]
        if waived:
            ET.SubElement(case, "skipped", message=_clean(f"waived: {waived[0].waiver}"))
        ET.SubElement(case, "system-out").text = _clean("\n".join(finding.message for finding in quiet))


def _failure(case: ET.Element, kind: str, message: str, remedy: str) -> None:
    failure = ET.SubElement(case, "failure", type=kind, message=_clean(message))
    failure.text = _clean(remedy)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
