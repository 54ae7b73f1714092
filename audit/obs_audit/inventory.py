"""Count what a page exposes, by one rule that is the same for every stack.

A family is a ``# TYPE`` line that is neither a ``_created`` companion nor the gauge twin of a counter. Other counts of
the same page (every TYPE line, distinct sample names) differ by the state of the server and by ``_created`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from obs_exporter.exposition import Page
from obs_exporter.stacks import Stack


@dataclass(frozen=True, slots=True)
class Counts:
    """How much one page has: families by the rule, those of them that are the engine's, and sample lines."""

    families: int
    engine_families: int
    series: int
    type_lines: int


def real_families(types: Iterable[str]) -> list[str]:
    """Return the families of a page without companions and twins, sorted."""
    names = set(types)
    return sorted(
        name
        for name in names
        if not name.endswith("_created") and not (not name.endswith("_total") and f"{name}_total" in names)
    )


def count(stack: Stack, page: Page, body: bytes) -> Counts:
    """Count one page."""
    families = real_families(page.types)
    lines = body.split(b"\n")
    series = sum(1 for line in lines if line.strip() and not line.startswith(b"#"))
    return Counts(len(families), len(stack.engine_families(page)), series, len(page.types))
