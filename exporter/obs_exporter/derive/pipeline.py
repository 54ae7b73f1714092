"""All derivations of one target, in order of trust."""

from __future__ import annotations

from dataclasses import dataclass

from obs_exporter.derive.context import Context
from obs_exporter.derive.fill import WITH_PAGE, WITHOUT_PAGE
from obs_exporter.derive.model import Draft, Extra
from obs_exporter.stacks.model import Reading


@dataclass(frozen=True, slots=True)
class Outcome:
    """A reading with the derived answers, and what is to be said of their age and bounds."""

    reading: Reading
    extras: tuple[Extra, ...] = ()


def apply(reading: Reading, context: Context) -> Outcome:
    """Derive what the page lacks, and remember what the next look needs.

    Without a page there are still the logs and the GPU; the span around it then adds nothing to any counter.
    """
    draft = Draft.of(reading)
    for derivation in WITH_PAGE if reading.reachable else WITHOUT_PAGE:
        derivation(draft, context)
    return Outcome(draft.finish(), tuple(draft.extras))
