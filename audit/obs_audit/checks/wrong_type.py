"""A family has a type that its signal cannot have.

A cumulative counter read as a gauge shows "running requests" that only ever grow. The type that the page declares is
held against the signal's; where they contradict, the values are not used.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:num_requests_running {}\nvllm:num_requests_running{{engine="0",model_name="m"}} 1\n'
_REMEDY = "find out what re-types the page: a recording rule, an aggregator, a fork"

CHECK = Check(
    "wrong_type", Severity.ERROR, __doc__, _REMEDY,
    from_oddities("wrong_type", Severity.ERROR, _REMEDY),
    fails=Example(_PAGE.format("counter")),
    passes=Example(_PAGE.format("gauge")),
)  # fmt: skip
