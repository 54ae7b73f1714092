"""A counter moved by another amount than the client counted.

The audit sent requests and added up what ``usage`` told it (``--exercise``). A counter that moved by less lost some;
one that moved by more counts other traffic as well, counts twice, or counts something else than its name says.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Exercise, Role
from obs_audit.findings import Finding, Severity
from obs_audit.movement import Movement

_REMEDY = "repeat it without other traffic; with several replicas, read the page of each"
_PAGE = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0",model_name="m"}} {}\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each signal that moved by another amount."""
    for move in case.movements:
        if move.wrong and move.moved is not None:
            less = move.moved < move.expected
            severity = Severity.ERROR if less or move.moved == 2 * move.expected else Severity.WARNING
            yield Finding("moved_wrong", severity, move.signal, _message(move), _REMEDY, case.places[move.signal])


def _message(move: Movement) -> str:
    moved = move.moved or 0.0
    if moved == 2 * move.expected:
        return f"{move.name} moved by {moved:g}, twice the {move.expected} that the client counted"
    difference = moved - move.expected
    share = f" ({difference / move.expected:+.0%})" if move.expected else ""
    other = "" if difference < 0 else "; other traffic would do that"
    return f"{move.name} moved by {moved:g}, and the client counted {move.expected}{share}{other}"


CHECK = Check(
    "moved_wrong", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(
        _PAGE.format(130), pieces={Role.BEFORE: _PAGE.format(100), Role.AFTER: _PAGE.format(130)},
        exercise=Exercise(6, 0, 60, 96),
    ),
    passes=Example(
        _PAGE.format(160), pieces={Role.BEFORE: _PAGE.format(100), Role.AFTER: _PAGE.format(160)},
        exercise=Exercise(6, 0, 60, 96),
    ),
)  # fmt: skip
