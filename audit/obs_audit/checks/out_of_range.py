"""A value cannot be.

A ratio above 1, a negative count, buckets of a histogram that do not rise. Such a value is not used: it is either in
another unit than the name says, or it was put together from several processes in the wrong way.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = '# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {}\n'
_REMEDY = "look at how the value was made: a sum of ratios, per cent for a ratio"

CHECK = Check(
    "out_of_range", Severity.ERROR, __doc__, _REMEDY,
    from_oddities("out_of_range", Severity.ERROR, _REMEDY),
    fails=Example(_PAGE.format("37.5")),
    passes=Example(_PAGE.format("0.375")),
)  # fmt: skip
