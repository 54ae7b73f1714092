"""Signals that a page does not print and that can be known all the same: one module each, pure, state in and out.

``apply`` goes through them in order of trust. A value that the page has is never touched; what is published says by its
state, provenance and precision how it is known, and the extras say how old it is and between which bounds it lies. The
arithmetic is in the modules here; ``fill`` turns its results into answers.
"""

from obs_exporter.derive.context import Context, Evidence, Memory
from obs_exporter.derive.model import Extra, Settings
from obs_exporter.derive.pipeline import Outcome, apply

__all__ = ["Context", "Evidence", "Extra", "Memory", "Outcome", "Settings", "apply"]
