"""The version is outside those whose facts are known.

The tables were read from releases up to a newest one. A newer release is judged as if nothing had changed since, an
older one as if everything were already there: both can be wrong.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_REMEDY = "check the version; upgrade this project for a newer one"

CHECK = Check(
    "unknown_version", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("unknown_version", Severity.WARNING, _REMEDY),
    fails=Example(stack="ray-serve", stack_version="2.99.0"),
    passes=Example(stack="ray-serve", stack_version="2.60.0"),
)  # fmt: skip
