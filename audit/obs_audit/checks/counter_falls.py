"""A counter is smaller on the second page than on the first.

A counter falls only when its process starts anew. Where ``process_start_time_seconds`` did not change, another process
answered: several workers behind one port (KServe's ``--workers``), or replicas behind a load balancer. ``rate()`` takes
every such fall for a restart and shows far too much. Needs ``--watch``.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed, number
from obs_audit.evidence import Exhibit, Role
from obs_audit.findings import Finding, Severity
from obs_exporter.exposition import Wanted, parse
from obs_exporter.schema import Kind
from obs_exporter.stacks.engine import ROWS

_REMEDY = "scrape each process on its own address; with one restart in between, look again"
_START = "process_start_time_seconds"
_PAGE = (
    "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {0}\n"
    '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{{engine="0",model_name="m"}} {1}\n'
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each page on which counters fell."""
    for exhibit in case.evidence.readable:
        fallen = _fallen(exhibit, case)
        if not fallen or exhibit.later is None:
            continue
        first, second = _started(exhibit.body), _started(exhibit.later.body)
        restarted = first is not None and second is not None and second > first
        severity = Severity.INFO if restarted else Severity.ERROR
        why = "the process was started anew in between" if restarted else "another process answered, or the page lies"
        message = f"{number(len(fallen), 'counter')} fell between two looks ({listed(fallen, 3)}): {why}"
        yield Finding("counter_falls", severity, "", message, _REMEDY, exhibit.source)


def _fallen(exhibit: Exhibit, case: Case) -> list[str]:
    """Return the sample names that must not fall and did, sorted."""
    if exhibit.later is None:
        return []
    fallen = set()
    for name, samples in exhibit.page.samples.items():
        if not _cumulative(name, case):
            continue
        before = {frozenset(sample.labels.items()): sample.value for sample in samples}
        for sample in exhibit.later.page.samples.get(name, []):
            if sample.value < before.get(frozenset(sample.labels.items()), sample.value):
                fallen.add(name)
    return sorted(fallen)


def _cumulative(name: str, case: Case) -> bool:
    rows = [*ROWS, *case.evidence.stack.rows]
    for row in rows:
        for family in row.families():
            if row.kind is Kind.COUNTER and name.endswith(family):
                return True
            if row.kind is Kind.HISTOGRAM and name.endswith((f"{family}_bucket", f"{family}_count")):
                return True
    return False


def _started(body: bytes) -> float | None:
    samples = parse(body, Wanted((_START,))).samples.get(_START, [])
    return samples[0].value if samples else None


CHECK = Check(
    "counter_falls", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format(1000, 500), pieces={Role.LATER: _PAGE.format(1000, 420)}),
    passes=Example(_PAGE.format(1000, 500), pieces={Role.LATER: _PAGE.format(1000, 520)}),
)  # fmt: skip
