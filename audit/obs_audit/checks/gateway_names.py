"""The Gateway API inference extension looks for other names than this page has.

Its endpoint picker reads queue, running requests and KV cache usage from each model server, by the names of the bare
engine. Where the stack renames them it sees no load at all, and spreads requests blindly. Only with
``--profile gateway``.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity

_REMEDY = (
    "name this family in the endpoint picker's engineConfigs (before: --total-queued-requests-metric and the like)"
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each published signal under a name that the consumer does not look for."""
    for signal, native in case.profile.native.items():
        answer = case.reading.answer(signal)
        if answer.state.publishes and answer.native_name != native:
            called = case.profile.names.get(signal, signal)
            message = f"{called}: the endpoint picker looks for {native}, here it is {answer.native_name}"
            yield Finding("gateway_names", Severity.WARNING, signal, message, _REMEDY, case.places[signal])


CHECK = Check(
    "gateway_names", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.60.0", profile="gateway"),
    passes=Example(stack="vllm", engine_version="0.32.0", profile="gateway"),
)  # fmt: skip
