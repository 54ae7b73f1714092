"""Several API servers share the page.

With ``--api-server-count`` above 1 (the default follows the data-parallel size from vLLM 0.15 on) the page is put
together from files of several processes: gauges show whichever process wrote last, ``_created`` and process families
are gone, and the periodic log line is off. Told by the absence of ``process_*`` and ``_created`` families.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks.versions import key

_REMEDY = "trust counters and histograms, which are summed; read gauges as one process's view, or use one API server"
_PROCESS = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1000\n"
_FAMILIES = (
    '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
    '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="0",model_name="m"} 500\n'
    '# TYPE http_requests_total counter\nhttp_requests_total{handler="/v1/completions"} 2\n'
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each page of vLLM's own server that was put together from several processes."""
    for exhibit in case.evidence.readable:
        if case.stack == "vllm" and _put_together(exhibit):
            message = "the page is put together from several API server processes: a gauge is the view of one of them"
            yield Finding("several_api_servers", Severity.WARNING, "", message, _REMEDY, exhibit.source)


def _put_together(exhibit: Exhibit) -> bool:
    """Whether a V1 page lacks what one process always prints; the Rust front end never prints it either."""
    types = exhibit.page.types
    engine = exhibit.reading.engine_version.best
    old = bool(engine) and key(engine) < key("0.9.1")
    own = any(name.startswith(("process_", "python_")) or name.endswith("_created") for name in types)
    served = any(name.startswith("http_") for name in types)
    return not own and not old and served and exhibit.reading.generation != "V0" and b"# EOF" not in exhibit.body[-16:]


CHECK = Check(
    "several_api_servers", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_FAMILIES, engine_version="0.32.0"),
    passes=Example(_PROCESS + _FAMILIES, engine_version="0.32.0"),
)  # fmt: skip
