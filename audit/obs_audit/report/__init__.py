"""Report formats: one file each, one line here. Each turns a report into text; none decides anything."""

from __future__ import annotations

from collections.abc import Callable

from obs_audit.report import machine, terminal
from obs_audit.verdict import Report

FORMATS: dict[str, Callable[[Report], str]] = {"text": terminal.render, "json": machine.render}
