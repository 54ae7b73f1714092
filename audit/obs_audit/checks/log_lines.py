"""A line that the engine writes is not in the log that was given.

Where the metrics pipe is dark, the log is the next best source, and each stack keeps it elsewhere: Ray's replica log
has nothing of the engine, Triton writes to the server's standard output. A missing start-up line means the wrong
file, or a log that was rotated away. Needs ``--engine-log``.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit import loglines
from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, number
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_START = "3: Initializing a V1 LLM engine (v0.32.0)\n"
_SIZE = "9: GPU KV cache size: 247,024 tokens\n9: Maximum concurrency for 4,096 tokens per request: 60.31x\n"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where start-up lines are missing from all logs together, one where several servers mute it."""
    logs = case.evidence.logs
    if not logs:
        return
    reading = case.reading
    place = loglines.place(case.stack, case.release)
    lines = loglines.expected(case.stack, case.release, reading.engine_version.best, reading.generation)
    there = {kind for log in logs for kind in log.lines}
    missing = [line for line in lines if line.id not in there and not line.load]
    source = ", ".join(log.source for log in logs[:3])
    if missing:
        told = "; ".join(dict.fromkeys(line.tells for line in missing))
        message = f"not in it: {number(len(missing), 'start-up line')} of the engine, to tell {told}"
        yield Finding("log_lines", Severity.WARNING, "", message, f"the engine's log is {place}", source)
    if "log_off" in there:
        message = "the periodic line is off: several API servers run"
        yield Finding("log_lines", Severity.INFO, "", message, "use the page; its counters are summed", source)


CHECK = Check(
    "log_lines", Severity.WARNING, __doc__, "give the log that the report names as the engine's", find,
    fails=Example(stack="vllm", engine_version="0.32.0", pieces={Role.ENGINE_LOG: ""}),
    passes=Example(
        stack="vllm", engine_version="0.32.0", pieces={Role.ENGINE_LOG: _START + "3: max_seq_len=4096\n" + _SIZE}
    ),
)  # fmt: skip
