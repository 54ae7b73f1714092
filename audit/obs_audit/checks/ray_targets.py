"""Ray has more nodes than pages were read.

Each Ray node has an agent with a page of its own, and the engine's families are on the node that runs the replica.
Ray's service discovery (``--ray-sd``) names all of them; a scrape job for the head node alone sees no engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_REMEDY = "scrape every address: file_sd_configs with /tmp/ray/prom_metrics_service_discovery.json does"
_OWN_PORTS = (":44217", ":44227")
"""The autoscaler's and the dashboard's pages, which never have engine families."""
_PAGE = '# TYPE ray_node_mem_used gauge\nray_node_mem_used{SessionName="s",Version="2.60.0"} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding where agents are named that no page was read of."""
    if case.evidence.discovery is None or not case.evidence.exhibits:
        return
    agents = [target for target in case.evidence.discovery if not target.endswith(_OWN_PORTS)]
    read = [exhibit.source for exhibit in case.evidence.exhibits]
    missed = [agent for agent in agents if not any(f"//{agent}/" in source for source in read)]
    if len(missed) > max(len(agents) - len(read), 0) or (missed and len(agents) > len(read)):
        message = f"service discovery names {len(agents)} agents, and {len(missed)} were not read: {listed(missed)}"
        yield Finding("ray_targets", Severity.WARNING, "", message, _REMEDY, "service discovery")


CHECK = Check(
    "ray_targets", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(
        _PAGE, stack="ray-serve",
        pieces={Role.DISCOVERY: '[{"labels":{"job":"ray"},"targets":["10.0.0.1:8080","10.0.0.2:8080",":44217"]}]'},
    ),
    passes=Example(_PAGE, stack="ray-serve", pieces={Role.DISCOVERY: '[{"labels":{},"targets":[":44217"]}]'}),
)  # fmt: skip
