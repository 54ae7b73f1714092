"""Count what a page exposes, by one rule that is the same for every stack, and say why others count otherwise.

A family is a ``# TYPE`` line that is neither a ``_created`` companion nor the gauge twin of a counter. Other counts of
the same page (every TYPE line, distinct sample names) differ by the state of the server and by ``_created`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from obs_exporter.exposition import Page
from obs_exporter.stacks import Reading, Stack
from obs_exporter.stacks.catalogue import Engine, catalogue


@dataclass(frozen=True, slots=True)
class Counts:
    """How much one page has: families by the rule, those of them that are the engine's, and sample lines.

    ``engine_type_lines`` are the engine's TYPE lines with companions and twins, ``created`` the companions among them.
    """

    families: int
    engine_families: int
    series: int
    type_lines: int
    engine_type_lines: int
    created: int


OTHER_STATES: tuple[tuple[str, str, int, int], ...] = (
    ("0.5.5", "V0", 13, 15),
    ("0.7.2", "V0", 13, 15),
)
"""Release, generation, families on an idle server, and with requests in flight of which none has finished: what a page
of these releases shows in the engine's multi-process mode. From running the releases' own metric modules."""


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
    prefixes, others = stack.engine_prefixes, stack.lookalikes
    own = [name for name in page.types if name.startswith(prefixes) and not name.startswith(others)]
    created = sum(1 for name in own if name.endswith("_created"))
    engine = len(stack.engine_families(page))
    return Counts(len(families), engine, series, len(page.types), len(own), created)


def explained(counts: Counts, reading: Reading) -> list[str]:
    """Say why another way of counting the same server gives another number; [] where there is nothing to explain."""
    sentences = []
    if counts.created:
        sentences.append(
            f"counting every # TYPE line gives {counts.engine_type_lines}: {counts.created} of them are _created "
            "companions, which carry no signal"
        )
    elif counts.engine_type_lines > counts.engine_families:
        twins = counts.engine_type_lines - counts.engine_families
        sentences.append(f"counting every # TYPE line gives {counts.engine_type_lines}: {twins} are doubles of others")
    candidates = reading.engine_version.candidates
    for release, generation, idle, in_flight in OTHER_STATES:
        if release in candidates and reading.generation in (generation, "") and counts.engine_families > in_flight:
            sentences.append(
                f"vLLM {release} ({generation}) shows a family with its first observation: the same server has {idle} "
                f"when idle and {in_flight} while no request has finished yet"
            )
    registered = _registered(reading)
    if registered > counts.engine_families:
        sentences.append(f"the engine registers {registered}; the rest waits for a feature or a first observation")
    return sentences


def _registered(reading: Reading) -> int:
    """How many families the release registers without a switch; 0 where the release is not known exactly."""
    releases = set(reading.engine_version.candidates)
    if len(releases) != 1 or not reading.generation:
        return 0
    table = catalogue()
    engine = Engine(table.nearest(releases.pop()), reading.generation)
    return sum(1 for entry in table.families(engine).values() if entry.status in ("registered", "dead"))
