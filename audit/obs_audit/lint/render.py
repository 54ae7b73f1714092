"""Write a result of the lint: for people, or as JSON."""

from __future__ import annotations

import json
from typing import Any

from obs_audit.lint.linting import Finding, Linted


def text(result: Linted) -> str:
    """Return the result for a terminal."""
    names = "metric name" if result.judged == 1 else "metric names"
    lines = [f"{result.described}: {result.expressions} expressions, {result.judged} {names} judged"]
    if result.not_judged:
        lines.append(f"not judged, since other programs publish them: {', '.join(result.not_judged)}")
    if result.unnamed:
        places = ", ".join(dict.fromkeys(expression.where or "expression" for expression in result.unnamed))
        lines.append(f"no metric name to judge (a variable or a constant stands there): {places}")
    last = None
    for finding in result.findings:
        if (finding.file, finding.expression) != last:
            lines += ["", f"{finding.file}: {finding.expression.where or 'expression'}"]
            lines.append(f"  {_one_line(finding.expression.text)}")
            last = (finding.file, finding.expression)
        lines += [f"  {line}" for line in _finding(finding)]
    lines.append("")
    broken = len({(finding.file, finding.expression) for finding in result.findings})
    verdict = f"{broken} of {result.expressions} expressions cannot be answered"
    lines.append(verdict if broken else "every expression that was judged can be answered")
    return "\n".join(lines) + "\n"


def _finding(finding: Finding) -> list[str]:
    verdict = finding.verdict
    lines = [": ".join(filter(None, (verdict.word, verdict.name, verdict.reason)))]
    if verdict.remedy:
        lines.append(f"  remedy: {verdict.remedy}")
    if finding.native:
        lines.append(f"  ask instead, on the stack's own page: {_one_line(finding.native)}")
    if finding.common:
        lines.append(f"  ask instead, on the common schema: {_one_line(finding.common)}")
    lines += [f"  note: {note}" for note in finding.notes]
    return lines


def _one_line(expression: str) -> str:
    return " ".join(expression.split())


def as_json(result: Linted) -> str:
    """Return the result as JSON."""
    document: dict[str, Any] = {
        "schema_version": 1,
        "judged_for": result.described,
        "expressions": result.expressions,
        "names_judged": result.judged,
        "names_not_judged": list(result.not_judged),
        "without_a_name": [expression.where for expression in result.unnamed],
        "findings": [
            {
                "file": finding.file, "where": finding.expression.where, "expression": finding.expression.text,
                "metric": finding.verdict.name, "verdict": finding.verdict.word, "reason": finding.verdict.reason,
                "remedy": finding.verdict.remedy, "native_expression": finding.native,
                "common_expression": finding.common, "notes": list(finding.notes),
            }
            for finding in result.findings
        ],
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


FORMATS = {"text": text, "json": as_json}
