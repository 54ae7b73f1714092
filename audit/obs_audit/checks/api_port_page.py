"""The API port has a page of the engine's own, beside the one that was judged.

Under Ray's direct streaming, and on some builds of Triton's OpenAI front end, ``/metrics`` on the API port answers with
families that the metrics port lacks. It was fetched from ``--api-url``, and the answer is worth a second scrape job.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, number
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity
from obs_exporter.stacks import engine as vllm

_REMEDY = "scrape this page, too, and audit both: give it as a second --url"
_RAY = '# TYPE ray_serve_num_ongoing_http_requests gauge\nray_serve_num_ongoing_http_requests{Version="2.60.0"} 0\n'
_ENGINE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where that page publishes signals that the others do not."""
    page = case.evidence.api_page
    if page is None or not page.reading.reachable or not case.evidence.readable:
        return
    more = [
        answer.signal.id for answer in page.reading.answers
        if answer.state.publishes and answer.signal.id in vllm.SIGNALS
        and not case.reading.answer(answer.signal.id).state.publishes
    ]  # fmt: skip
    if more:
        message = f"{page.source} publishes {number(len(more), 'signal')} that the judged page lacks, such as {more[0]}"
        yield Finding("api_port_page", Severity.WARNING, "", message, _REMEDY, page.source)


CHECK = Check(
    "api_port_page", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_RAY, stack="ray-serve", pieces={Role.API_PAGE: _ENGINE}),
    passes=Example(_RAY, stack="ray-serve", pieces={Role.API_PAGE: '{"detail":"Not Found"}\n'}),
)  # fmt: skip
