"""A family has a name that the engine of this version does not use.

It carries a signal under the name of another release: an adapter, a private build, or a wrong version. The value is
used; rules written for this version will not find it.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:{0} gauge\nvllm:{0}{{engine="0",model_name="m"}} 0.5\n'
_REMEDY = "check the engine's version; look for an adapter that renames"

CHECK = Check(
    "foreign_version_name", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("foreign_version_name", Severity.WARNING, _REMEDY),
    fails=Example(_PAGE.format("gpu_cache_usage_perc"), engine_version="0.20.0"),
    passes=Example(_PAGE.format("kv_cache_usage_perc"), engine_version="0.20.0"),
)  # fmt: skip
