"""The stack runs vLLM's V0 engine where the bare engine of that version runs V1.

Triton 25.04 to 25.09 starts the engine in a background thread, and vLLM 0.8.1 to 0.10.1.1 falls back to V0 there. It is
another engine: other metrics, other scheduling, other speed. A comparison with the bare engine of the same version
compares two different engines.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.versions import matches

_REMEDY = "compare with a bare engine started with VLLM_USE_V1=0, or upgrade Triton to 25.10 or newer"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where the log or the tables say so."""
    marked = [log for log in case.evidence.logs if "v0_fallback" in log.lines]
    reading = case.reading
    engine = reading.engine_version.best
    forced = bool(
        reading.generation == "V0" and engine and vllm.generation_of(engine) == "V1"
        and case.stack == "triton" and case.release and matches(">=25.04,<25.10", case.release)
    )  # fmt: skip
    if marked or forced:
        source = marked[0].source if marked else f"what Triton {case.release} is known to do"
        message = f"vLLM {reading.engine_version} runs its V0 engine here; started alone it runs V1"
        yield Finding("v0_fallback", Severity.WARNING, "", message, _REMEDY, source)


CHECK = Check(
    "v0_fallback", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(
        stack="triton", stack_version="25.06",
        pieces={Role.ENGINE_LOG: "9: Engine in background thread is experimental on VLLM_USE_V1=1. "
                                 "Falling back to V0 Engine\n"},
    ),
    passes=Example(stack="triton", stack_version="25.10"),
)  # fmt: skip
