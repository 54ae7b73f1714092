"""Reports: a result or a comparison as text, markdown or one HTML file. Nothing is fetched, now or when it is read."""

from __future__ import annotations

import importlib
from typing import Any

from obs_exporter.probe.report.document import Document

FORMATS: tuple[str, ...] = ("text", "markdown", "html")


def render_document(document: Document, output_format: str) -> str:
    """Return the document in one of FORMATS."""
    module = importlib.import_module(f"obs_exporter.probe.report.{output_format}")
    return str(module.render(document))


def render(result: dict[str, Any], output_format: str, baseline: dict[str, Any] | None = None) -> str:
    """Return the report of a result, beside a baseline's where one is given."""
    from obs_exporter.probe.report.result import document

    return render_document(document(result, baseline), output_format)
