"""Another scraper gets other names or types from this server.

The page that was judged has the engine's families, but the server answers another Accept header with underscores in
place of colons, which leaves the types behind under the old names. A Prometheus 2 in front of it stores untyped
``vllm_*``, a Prometheus 3 stores ``vllm:*``: the same dashboard works on one and is empty on the other. KServe's
aggregator reads such a page by its types: gauges and histograms vanish from what it hands on, counters become gauges.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, number
from obs_audit.evidence import Role, engine_names
from obs_audit.findings import Finding, Severity
from obs_exporter.exposition import SUFFIXES, Page, parse

_REMEDY = "set scrape_protocols: [PrometheusText0.0.4] for this target"
_SCRAPER = {Role.OPENMETRICS: "Prometheus 2", Role.OPENMETRICS_UTF8: "Prometheus 3"}
_Families = dict[str, tuple[str, str]]
_PAGE = '# TYPE vllm:num_requests_running gauge\n{}num_requests_running{{engine="0",model_name="m"}} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each Accept header that changes names or types, or loses families."""
    for exhibit in case.evidence.readable:
        for role, page in (exhibit.negotiated or {}).items():
            here = families(parse(exhibit.body, engine_names(case.evidence.stack)))
            message = _message(_SCRAPER[role], here, families(page), case.stack)
            if message:
                yield Finding("negotiation_renames", Severity.WARNING, "", message, _REMEDY, exhibit.source)


def families(page: Page) -> _Families:
    """Return the families of a page that was parsed for the engine's names: with colon -> (name as sampled, type).

    The type is the one declared for the very name of the samples ("" where there is none): a scraper knows no other.
    """
    found: _Families = {}
    for sample in sorted(page.samples):
        stems = [sample.removesuffix(suffix) for suffix in SUFFIXES if sample.endswith(suffix)]
        name = next((stem for stem in stems if _declared(page, stem) in ("histogram", "summary")), "")
        name = name or next((stem for stem in stems if stem + "_bucket" in page.samples), sample)
        if not name.endswith("_created"):
            found.setdefault(name.replace("_", ":", 1) if ":" not in name else name, (name, _declared(page, name)))
    return found


def _declared(page: Page, name: str) -> str:
    """Return the type of a name; OpenMetrics declares counters without ``_total``."""
    return page.types.get(name) or page.types.get(name.removesuffix("_total"), "")


def _message(scraper: str, here: _Families, there: _Families, stack: str) -> str:
    """Say what becomes of this page's families under another Accept header, or ""."""
    renamed = [there[name][0] for name in here if name in there and there[name][0] != here[name][0]]
    gone = [here[name][0] for name in here if name not in there]
    both = [(here[name], there[name]) for name in here if name in there and here[name][1]]
    untyped = [old for (old, _), (_, kind) in both if not kind]
    retyped = [f"{old} ({was} as {kind})" for (old, was), (_, kind) in both if kind not in ("", was)]
    parts = []
    if renamed:
        example = f"{renamed[0]} for {renamed[0].replace('_', ':', 1)}"
        parts.append(f"{number(len(renamed), 'name')} with underscores, such as {example}")
    if untyped:
        parts.append(f"{number(len(untyped), 'family')} without a type")
    if retyped:
        parts.append(f"{number(len(retyped), 'family')} of another type, such as {retyped[0]}")
    if gone:
        parts.append(f"{number(len(gone), 'family')} not at all, such as {gone[0]}")
    if not parts:
        return ""
    typed = [old for (old, was), (_, kind) in both if not kind and was != "counter"]
    behind = f"; behind KServe's aggregator the {len(typed)} gauges and histograms of these would vanish"
    return f"{scraper} gets {', '.join(parts)} from this server" + (behind if stack == "kserve" and typed else "")


CHECK = Check(
    "negotiation_renames", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format("vllm:"), pieces={Role.OPENMETRICS: _PAGE.format("vllm_") + "# EOF\n"}),
    passes=Example(_PAGE.format("vllm:"), pieces={Role.OPENMETRICS: _PAGE.format("vllm:") + "# EOF\n"}),
)  # fmt: skip
