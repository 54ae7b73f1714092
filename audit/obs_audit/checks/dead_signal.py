"""A family is there and was never filled, although requests have finished.

Each finished request adds to the token counters and is observed by the latency histograms. A family that is still at
zero then is registered and fed by nothing: a metrics logger that is switched off, or a name that lives on without code.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_audit.movement import total
from obs_exporter.schema import State

_REMEDY = "do not build on it; check --disable-log-stats, and that this page is the engine's that served the requests"
_FILLED = ("prompt_tokens", "generation_tokens", "ttft", "request_duration", "queue_wait")
"""Signals that every finished request fills."""
_DONE = (
    '# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason="stop",model_name="m"} 40\n'
)
_TOKENS = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{model_name="m"}} {}\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each such signal, where the page itself shows finished requests."""
    finished = case.reading.answer("requests_finished")
    if not finished.state.publishes or not total(finished):
        return
    done = f"{total(finished):g} requests have finished"
    for signal in _FILLED:
        answer = case.reading.answer(signal)
        same_page = case.places[signal] == case.places["requests_finished"]
        if answer.state is State.LOST or not answer.native_name or not same_page:
            continue
        if not total(answer) and (answer.state.publishes or answer.state is State.IDLE):
            message = f"{answer.native_name} is still at zero, and {done}"
            yield Finding("dead_signal", Severity.ERROR, signal, message, _REMEDY, case.places[signal])


CHECK = Check(
    "dead_signal", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_DONE + _TOKENS.format(0)),
    passes=Example(_DONE + _TOKENS.format(900)),
)  # fmt: skip
