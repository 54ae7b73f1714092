"""A family begins like the engine's and is in no release of it.

Private builds add families of their own, and some use names that look official. They are not judged here, and no rule
of anybody else knows them.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed, number
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.catalogue import catalogue

_REMEDY = "ask who built the engine what they mean; a newer release than this table knows may have them"
_PAGE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each page with such families."""
    known = catalogue().types
    for exhibit in case.evidence.readable:
        families = case.evidence.stack.engine_families(exhibit.page)
        unknown = sorted(name for stem, name in families.items() if stem not in known)
        if unknown:
            message = f"{number(len(unknown), 'family')} that no release of vLLM up to {catalogue().releases[-1]} has: "
            yield Finding("unknown_family", Severity.INFO, "", message + listed(unknown), _REMEDY, exhibit.source)


CHECK = Check(
    "unknown_family", Severity.INFO, __doc__, _REMEDY, find,
    fails=Example(_PAGE + '# TYPE vllm:kv_cache_usage_ratio gauge\nvllm:kv_cache_usage_ratio{model_name="m"} 0.5\n'),
    passes=Example(_PAGE),
)  # fmt: skip
