"""Report formats: one file each, one line here. Each turns a report into text; none decides anything."""

from __future__ import annotations

from importlib import import_module

from obs_audit.verdict import Report

FORMATS: dict[str, str] = {
    "text": "terminal",
    "json": "machine",
    "markdown": "markdown",
    "html": "page",
    "junit": "junit",
    "sarif": "sarif",
}
"""Format -> the module here that has its ``render``; loaded only when it is asked for."""


def rendered(report: Report, form: str) -> str:
    """Return the report in a format."""
    text: str = import_module(f"obs_audit.report.{FORMATS[form]}").render(report)
    return text
