"""Write the page of each check: ``python -m obs_audit.checks.docs docs/checks``. A test keeps the pages equal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from obs_audit.checks import CHECKS
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Role

_TITLES = {
    Role.LATER: "the same page, some seconds later (--watch)",
    Role.OPENMETRICS: "the same page, asked for as Prometheus 2 does",
    Role.API_PAGE: "/metrics on the API's port (--api-url)",
    Role.BASELINE: "the bare engine's page (--baseline)",
    Role.BASELINE_DOCUMENT: "GET /version of the bare engine",
    Role.DISCOVERY: "service discovery (--ray-sd)",
    Role.ENGINE_LOG: "what is known of the engine's log, with line numbers (--engine-log)",
    Role.ANNOTATIONS: "manifest (--annotations)",
    Role.BEFORE: "the page before the exercise",
    Role.AFTER: "the page after it",
}


def page(check: Check) -> str:
    """Return the page of one check."""
    found = next(finding for finding in check.find(check.fails.case()) if finding.check == check.id)
    remedy = check.remedy[:1].upper() + check.remedy[1:]
    return (
        f"# {check.title}\n\n`{check.id}`, {check.severity}\n\n{_reflowed(check.body)}\n\n"
        f"**What to do.** {remedy}.\n\n"
        f"## Fails\n\n{_example(check.fails)}\n\n> {found.severity}: {found.message}\n\n"
        f"## Passes\n\n{_example(check.passes)}\n"
    )


def index() -> str:
    """Return the list of all checks, in the order of the report."""
    rows = [f"| [{check.id}]({check.id}.md) | {check.severity} | {check.title} |" for check in CHECKS]
    return (
        "# Checks\n\nEach page has an example that fails and one that passes; a test runs both.\n\n"
        "| check | severity | what it finds |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _reflowed(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("``", "`")


def _example(example: Example) -> str:
    """Return an example as the command that would meet it and the texts it would read."""
    flags = [f"--stack {example.stack}"]
    flags += [f"--stack-version {example.stack_version}"] if example.stack_version else []
    flags += [f"--engine-version {example.engine_version}"] if example.engine_version else []
    flags += [f"--profile {example.profile}"] if example.profile != "all" else []
    flags += [f"--expect {name}={value}" for name, value in example.expected.items()]
    flags += ["--file page.txt"] if example.page is not None else []
    parts = [f"`obs-audit {' '.join(flags)}`"]
    if example.page is not None:
        parts.append(_block("page.txt", example.page))
    parts += [_block(_TITLES[role], text) for role, text in example.pieces.items()]
    parts += [_block(f"GET {path}", text) for path, text in example.documents.items()]
    if example.exercise is not None:
        parts.append(_block("what the client counted", json.dumps(json.loads(example.exercise.to_json()))))
    return "\n\n".join(parts)


def _block(title: str, text: str) -> str:
    body = text.rstrip("\n") or "(empty)"
    return f"{title}:\n\n```text\n{body}\n```"


def main(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(index(), encoding="utf-8")
    for check in CHECKS:
        (folder / f"{check.id}.md").write_text(page(check), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
