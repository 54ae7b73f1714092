"""A histogram has lost its sum or its last bucket.

Without the last bucket no quantile is right, without the sum no mean. Relabelling rules that keep "a few buckets" and
filters that drop ``_sum`` do this.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_PAGE = (
    "# TYPE vllm:time_to_first_token_seconds histogram\n"
    'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} 3\n'
    'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4\n'
)
_SUM = 'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2.5\n'
_REMEDY = "keep every bucket, _sum and _count of a histogram, or none"

CHECK = Check(
    "incomplete_histogram", Severity.ERROR, __doc__, _REMEDY,
    from_oddities("incomplete_histogram", Severity.ERROR, _REMEDY),
    fails=Example(_PAGE),
    passes=Example(_PAGE + _SUM),
)  # fmt: skip
