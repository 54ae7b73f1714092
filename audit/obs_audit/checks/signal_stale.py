"""A signal that had to move stood still.

During an exercise the client's requests were answered, and the counter of them did not move. The family is there and
its value is old: more harmful than an absent one, because it looks like a quiet server.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_state
from obs_audit.evidence import Exercise, Role
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0",model_name="m"}} {}\n'

CHECK = Check(
    "signal_stale", Severity.ERROR, __doc__,
    "look at what feeds it: a dead replica's series, a metrics logger that is off, another replica behind the URL",
    from_state("signal_stale", Severity.ERROR, "stale"),
    fails=Example(
        _PAGE.format(100), pieces={Role.BEFORE: _PAGE.format(100), Role.AFTER: _PAGE.format(100)},
        exercise=Exercise(requests=6, failed=0, prompt_tokens=60, completion_tokens=96),
    ),
    passes=Example(
        _PAGE.format(160), pieces={Role.BEFORE: _PAGE.format(100), Role.AFTER: _PAGE.format(160)},
        exercise=Exercise(requests=6, failed=0, prompt_tokens=60, completion_tokens=96),
    ),
)  # fmt: skip
