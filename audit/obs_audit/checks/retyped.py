"""A counter is declared a gauge.

KServe's aggregator (qpext) re-types counters that it got without a type. ``rate()`` still works on them; tools that ask
for the type before they take a rate do not.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:num_preemptions_total {}\nvllm:num_preemptions_total{{engine="0",model_name="m"}} 3\n'
_REMEDY = "scrape the engine's own port with Accept: text/plain;version=0.0.4"

CHECK = Check(
    "retyped", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("retyped", Severity.WARNING, _REMEDY),
    fails=Example(_PAGE.format("gauge"), stack="kserve"),
    passes=Example(_PAGE.format("counter"), stack="kserve"),
)  # fmt: skip
