"""Another scraper gets other names from this server.

The page that was judged has the engine's names, but the server answers another Accept header with underscores in place
of colons. A Prometheus 2 in front of it stores ``vllm_*`` without types, and a Prometheus 3 stores ``vllm:*``: the same
dashboard works on one and is empty on the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, number
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_REMEDY = "set scrape_protocols: [PrometheusText0.0.4] for this target"
_SCRAPER = {Role.OPENMETRICS: "Prometheus 2", Role.OPENMETRICS_UTF8: "Prometheus 3"}
_PAGE = '# TYPE vllm:num_requests_running gauge\n{}num_requests_running{{engine="0",model_name="m"}} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each Accept header that changes names."""
    for exhibit in case.evidence.readable:
        for role, page in (exhibit.negotiated or {}).items():
            gone = sorted(name for name in exhibit.page.samples if ":" in name and name not in page.samples)
            renamed = [name for name in gone if name.replace(":", "_", 1) in page.samples]
            if renamed:
                message = (
                    f"{_SCRAPER[role]} gets {number(len(renamed), 'name')} with underscores from this server, such as "
                    f"{renamed[0].replace(':', '_', 1)} for {renamed[0]}"
                )
                yield Finding("negotiation_renames", Severity.WARNING, "", message, _REMEDY, exhibit.source)


CHECK = Check(
    "negotiation_renames", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format("vllm:"), pieces={Role.OPENMETRICS: _PAGE.format("vllm_") + "# EOF\n"}),
    passes=Example(_PAGE.format("vllm:"), pieces={Role.OPENMETRICS: _PAGE.format("vllm:") + "# EOF\n"}),
)  # fmt: skip
