"""Requests of the exercise failed.

The audit sent small requests through the stack (``--exercise``) and some were not answered. What its counters should
show is unsure then, and the stack has a problem that is not one of its metrics.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Exercise, Role
from obs_audit.findings import Finding, Severity

_REMEDY = "check the URL and --model with curl; the API may want a token (--bearer-token-file)"
_PAGE = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0",model_name="m"}} {}\n'
_PIECES = {Role.BEFORE: _PAGE.format(100), Role.AFTER: _PAGE.format(160)}


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where a request failed."""
    exercise = case.evidence.exercise
    if exercise is not None and exercise.failed:
        message = f"{exercise.failed} of {exercise.failed + exercise.requests} requests failed: {exercise.error}"
        yield Finding("exercise_failed", Severity.ERROR, "", message, _REMEDY, "exercise")


CHECK = Check(
    "exercise_failed", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format(160), pieces=_PIECES, exercise=Exercise(5, 1, 60, 96, error="answered HTTP 404")),
    passes=Example(_PAGE.format(160), pieces=_PIECES, exercise=Exercise(6, 0, 60, 96)),
)  # fmt: skip
