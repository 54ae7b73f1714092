"""The signal is there, behind a switch that is off.

Nothing has to be built or upgraded: one setting of the engine or of the layer shows it. The finding names the setting
for this version, since the same switch has had other values and other defaults.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_state
from obs_audit.findings import Severity

CHECK = Check(
    "signal_hidden", Severity.WARNING, __doc__, "each finding names its own switch, for this version",
    from_state("signal_hidden", Severity.WARNING, "hidden"),
    fails=Example(stack="ray-serve", stack_version="2.50.1"),
    passes=Example(stack="ray-serve", stack_version="2.51.1"),
)  # fmt: skip
