"""A histogram's sum cannot be that of its buckets.

Each observation lies between the edges of its bucket, so the sum has a least and a greatest possible value. A sum
outside of them is of another unit than the edges (milliseconds beside seconds), or of other observations: a mean as
``rate(_sum) / rate(_count)`` is wrong by that factor, however good the quantiles are. One observation of slack is
given, since a page can be taken while one is counted. Sums that were rebuilt from the buckets are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import Histogram, Precision

_REMEDY = (
    "find what rewrites the sum or the edges on the way (a unit conversion of one of them); until then use no mean"
)
_PAGE = (
    "# TYPE vllm:time_to_first_token_seconds histogram\n"
    'vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.25",model_name="m"}} 1\n'
    'vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.5",model_name="m"}} 4\n'
    'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} 4\n'
    'vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} {}\n'
    'vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} 4\n'
)


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each signal with a sum that cannot be."""
    for answer in case.reading.answers:
        if answer.precision is Precision.BUCKET:
            continue
        said = [problem for one in answer.series if isinstance(one, Histogram) and (problem := _problem(one))]
        if said:
            signal = answer.signal.id
            message = f"{answer.native_name or signal}: {said[0]}"
            yield Finding("impossible_sum", Severity.ERROR, signal, message, _REMEDY, case.places[signal])


def _problem(histogram: Histogram) -> str:
    """Say how the sum is outside what the buckets allow, or ""; observations are taken to be 0 or more."""
    least = most = 0.0
    slack_below = slack_above = 0.0
    for (lower, before), (upper, count) in pairwise(((0.0, 0.0), *histogram.buckets)):
        inside = count - before
        if inside > 0:
            least += inside * max(0.0, lower)
            most += inside * upper
            slack_below, slack_above = max(slack_below, lower), max(slack_above, upper)
    rounding = 1e-6 * abs(histogram.sum)
    if least - slack_below - rounding <= histogram.sum <= most + slack_above + rounding:
        return ""
    between = f"at least {least:.6g}" if math.isinf(most) else f"{least:.6g} to {most:.6g}"
    return (
        f"the sum is {histogram.sum:.6g}; its {histogram.count:.0f} observations add up to {between} by their buckets"
    )


CHECK = Check(
    "impossible_sum", Severity.ERROR, __doc__, _REMEDY, find,
    fails=Example(_PAGE.format(1350)),
    passes=Example(_PAGE.format(1.35)),
)  # fmt: skip
