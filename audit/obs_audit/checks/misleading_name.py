"""A family's name tells another unit than its values have.

``ray_vllm_engine_stats_time_in_queue_ms`` holds seconds, and ``vllm:kv_cache_usage_perc`` is a ratio from 0 to 1. A
query that trusts the name is wrong by a factor of 1000 or 100.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks import Stack
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.model import Row

_REMEDY = "query it in the unit that its values have, or use obs-exporter's schema, which converts"
_SUFFIXES = {"_ms": ("milliseconds", "seconds", 0.001), "_us": ("microseconds", "seconds", 1e-6),
             "_perc": ("per cent", "ratio", 0.01)}  # fmt: skip
"""Suffix -> the unit that it promises, the schema's unit, and the factor that the promise would ask for."""


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each published signal whose native name promises another unit."""
    for answer in case.answers:
        row = _row(case.evidence.stack, answer.signal.id, answer.native_name) if answer.state.publishes else None
        suffix = next((suffix for suffix in _SUFFIXES if answer.native_name.endswith(suffix)), "")
        if row is None or not suffix:
            continue
        promised, unit, factor = _SUFFIXES[suffix]
        if answer.signal.unit == unit and row.factor != factor:
            held = "a ratio from 0 to 1" if unit == "ratio" else unit
            severity = Severity.INFO if unit == "ratio" else Severity.WARNING
            message = f"{answer.native_name} promises {promised} and holds {held}"
            signal = answer.signal.id
            yield Finding("misleading_name", severity, signal, message, _REMEDY, case.places[signal])


def _row(stack: Stack, signal: str, name: str) -> Row | None:
    rows = [row for row in (*vllm.ROWS, *stack.rows) if row.signal == signal]
    return next((row for row in rows if name.endswith(row.family)), None)


CHECK = Check(
    "misleading_name", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.44.1"),
    passes=Example(
        '# TYPE ray_serve_http_request_latency_ms histogram\n'
        'ray_serve_http_request_latency_ms_bucket{le="+Inf"} 1\n'
        'ray_serve_http_request_latency_ms_sum 20\nray_serve_http_request_latency_ms_count 1\n',
        stack="ray-serve",
    ),
)  # fmt: skip
