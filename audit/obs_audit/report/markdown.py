"""The Markdown report: for a pull request, an issue or a wiki. The same order as the text report."""

from __future__ import annotations

from obs_audit.report import grouping
from obs_audit.verdict import Report
from obs_exporter.schema import Precision


def render(report: Report) -> str:
    """Return the report as Markdown."""
    (title, source), *rest = grouping.identity(report)
    lines = [f"# Audit of {_text(title)}", "", f"Version: {_text(source)}."]
    lines += [f"{_text(name)} ({_text(how)})." for name, how in rest]
    if report.paper:
        lines.append("Paper audit: no page was read; this is what is known of these versions.")
    if report.asked.profile.name != "all":
        lines.append(f"Profile `{report.asked.profile.name}`: {_text(report.asked.profile.meaning)}")
    if report.reading.reachable:
        lines += ["", f"**{_text(grouping.summary(report))}**"]
        lines += _groups("Lost or hidden, and what to do", grouping.groups(report, grouping.TROUBLE))
        lines += _published(report)
        lines += _groups("Without a value, and nothing to repair", grouping.groups(report, grouping.ABSENT))
    else:
        lines += ["", "**Nothing can be said of any signal: no page could be read.**"]
    lines += _findings(report)
    for title, sentences in grouping.notes(report) if report.reading.reachable else []:
        lines += ["", f"## {title}", "", *(f"- {_text(sentence)}" for sentence in sentences)]
    lines += _evidence(report)
    return "\n".join(lines) + "\n"


def _groups(title: str, groups: list[grouping.Group]) -> list[str]:
    if not groups:
        return []
    lines = ["", f"## {title}", "", "| state | signals | why | what to do |", "|---|---|---|---|"]
    for group in groups:
        signals = ", ".join(f"`{signal}`" for signal in group.signals)
        remedy = group.remedy + (f" (costs: {group.cost})" if group.cost else "")
        waived = f" (waived: {group.waiver})" if group.waiver else ""
        lines.append(f"| {group.state}{_cell(waived)} | {signals} | {_cell(group.reason)} | {_cell(remedy)} |")
    return lines


def _published(report: Report) -> list[str]:
    answers = grouping.published(report)
    if not answers:
        return []
    lines = [
        "",
        "## Published",
        "",
        "| signal | state | precision | name on the page | note |",
        "|---|---|---|---|---|",
    ]
    for answer in answers:
        precision = "" if answer.precision is Precision.NONE else str(answer.precision)
        name = f"`{answer.native_name}`"
        lines.append(f"| `{answer.signal.id}` | {answer.state} | {precision} | {name} | {_cell(answer.reason)} |")
    return lines


def _findings(report: Report) -> list[str]:
    findings = grouping.other_findings(report)
    if not findings:
        return []
    lines = ["", "## Findings", "", "| severity | check | finding | what to do |", "|---|---|---|---|"]
    for finding in findings:
        about = f"`{finding.check}`" + (f" `{finding.signal}`" if finding.signal else "")
        severity = f"waived ({_cell(finding.waiver)})" if finding.waived else str(finding.severity)
        lines.append(f"| {severity} | {about} | {_cell(finding.message)} | {_cell(finding.remedy)} |")
    return lines


def _evidence(report: Report) -> list[str]:
    rows = grouping.evidence(report)
    return ["", "## Evidence", "", *(f"- `{source}`: {_text(said)}" for source, said, _ in rows)] if rows else []


def _text(text: str) -> str:
    """Escape what Markdown would take for markup."""
    for char in "\\*_<>[]":
        text = text.replace(char, f"\\{char}")
    return text


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")
