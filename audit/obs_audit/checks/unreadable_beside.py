"""What was given beside the page cannot be read.

``--ray-sd``, ``--baseline`` and ``--api-url`` were asked for by name. Where Ray's service discovery cannot be fetched,
is no list of targets or names none, nothing tells whether every node was read; where the bare engine's page has
nothing, nothing was compared; an API that answers nothing tells no versions and no settings. A report that passed over
this in silence would look like one without a difference. Exit code 2.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.evidence import Role
from obs_audit.findings import Finding, Severity

_REMEDY = "open the address with curl, or look into the file; check host, port, path and whether the server runs"
_PAGE = '# TYPE ray_node_mem_used gauge\nray_node_mem_used{SessionName="s",Version="2.60.0"} 1\n'


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each source that was asked for and tells nothing."""
    for source, problem in case.evidence.failed_beside:
        yield Finding("unreadable_beside", Severity.ERROR, "", problem, _REMEDY, source)


CHECK = Check(
    "unreadable_beside", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_PAGE, stack="ray-serve", pieces={Role.DISCOVERY: "<html>Not Found</html>"}),
    passes=Example(_PAGE, stack="ray-serve", pieces={Role.DISCOVERY: '[{"labels":{},"targets":[":44217"]}]'}),
)  # fmt: skip
