"""From what the user asked to a finished report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from obs_audit.evidence import collect
from obs_audit.report import FORMATS
from obs_audit.verdict import Report, judge
from obs_exporter import options
from obs_exporter.schema import BY_ID


@dataclass(frozen=True, slots=True)
class Request:
    """An audit as asked for on the command line."""

    stack: str
    stack_version: str = ""
    engine_version: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_url: str = ""
    bearer_token_file: str = ""
    required: str = ""
    fail_on: str = "none"

    @classmethod
    def of(cls, stack: str, asked: Mapping[str, Any]) -> Request:
        """Build it from the command's parameters."""
        return cls(stack, **asked)


def audit(request: Request) -> Report:
    """Gather the evidence and judge it.

    Raises ``click.BadParameter`` for a flag that makes no sense and ``InputError`` for a file that cannot be read.
    """
    required = [signal.strip() for signal in request.required.split(",") if signal.strip()]
    unknown = [signal for signal in required if signal not in BY_ID]
    if unknown:
        raise click.BadParameter(f"no such signal: {', '.join(unknown)}; see obs-audit signals", param_hint="--require")
    claims = options.claims(request.stack_version, request.engine_version)
    targets = [
        options.target(request.stack, url, claims, api_url=request.api_url, bearer_token_file=request.bearer_token_file)
        for url in request.urls
    ]
    return judge(collect(request.stack, request.files, targets, claims), request.fail_on, required)


def rendered(report: Report, form: str) -> str:
    """Return the report in a format."""
    return FORMATS[form](report)
