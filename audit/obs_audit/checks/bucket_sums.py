"""Sums of histograms were rebuilt from bucket midpoints.

Ray's OpenTelemetry path (2.52 and newer) hands on the bucket counts and makes the sum up from the middle of each
bucket. Against access logs it was off by 2 to 88 per cent. Buckets and counts are exact, so quantiles are as good as
the buckets; a mean as ``rate(_sum) / rate(_count)`` is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, listed, number
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import Precision

_REMEDY = "use quantiles and shares below a bucket's edge, not means; exact sums need the engine's own page"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for all of them together."""
    rebuilt = [a.signal.id for a in case.answers if a.state.publishes and a.precision is Precision.BUCKET]
    if rebuilt:
        message = f"sums rebuilt from bucket midpoints in {number(len(rebuilt), 'histogram')}: {listed(rebuilt)}"
        yield Finding("bucket_sums", Severity.WARNING, "", message, _REMEDY, case.source)


CHECK = Check(
    "bucket_sums", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(stack="ray-serve", stack_version="2.60.0"),
    passes=Example(stack="ray-serve", stack_version="2.51.1"),
)  # fmt: skip
