"""Findings are values; reports render them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How loud a finding is."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    def __str__(self) -> str:
        """Return the word in lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, or that a reader of the numbers has to know.

    ``check`` is the id of the check that found it, ``signal`` is "" where the page as a whole is meant, ``source`` says
    where the evidence is: a page, or the table of facts. ``waiver`` is the reason for which it was waived, or "".
    """

    check: str
    severity: Severity
    signal: str
    message: str
    remedy: str = ""
    source: str = ""
    waiver: str = ""

    @property
    def waived(self) -> bool:
        """Whether somebody has accepted it for now."""
        return bool(self.waiver)
