"""The engine has the signal and it does not come through.

The engine of this version measures it, and no switch of the serving layer shows it, or something on the way dropped it.
Dashboards built for the bare engine show "No data" here, and alerts on it can never fire.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_state
from obs_audit.findings import Severity

CHECK = Check(
    "signal_lost", Severity.ERROR, __doc__, "each finding names its own: another port, a side port, a log, an upgrade",
    from_state("signal_lost", Severity.ERROR, "lost"),
    fails=Example(stack="triton", stack_version="24.12"),
    passes=Example(stack="vllm", engine_version="0.32.0"),
)  # fmt: skip
