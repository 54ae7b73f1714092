"""What each serving stack says of the engine's signals: tables first, one module a stack, one line here."""

from __future__ import annotations

from obs_exporter.exposition import Page
from obs_exporter.stacks import kserve, ray_serve, triton, vllm
from obs_exporter.stacks import reading as _reading
from obs_exporter.stacks.base import Stack
from obs_exporter.stacks.model import Answer, Claims, Oddity, Reading
from obs_exporter.stacks.reading import read_nothing, read_paper
from obs_exporter.stacks.versions import UNKNOWN, Known, as_version

STACKS: dict[str, Stack] = {
    module.STACK.name: module.STACK
    for module in (vllm, kserve, triton, ray_serve)
}  # fmt: skip


def read_page(stack: Stack, page: Page, claims: Claims) -> Reading:
    """Map one page and judge what it lacks; where it is another stack's page, say whose."""
    reading = _reading.read_page(stack, page, claims)
    if reading.reachable or not page.types:
        return reading
    owners = [other for other in STACKS.values() if any(name.startswith(other.markers) for name in page.types)]
    if page.problem or not owners or owners[-1].engine_prefixes == stack.engine_prefixes or stack.made_up(page)[0]:
        return reading
    return read_nothing(
        stack, claims, f"{reading.problem}; it looks like {owners[-1].title}'s: --stack {owners[-1].name}"
    )


__all__ = [
    "STACKS",
    "UNKNOWN",
    "Answer",
    "Claims",
    "Known",
    "Oddity",
    "Reading",
    "Stack",
    "as_version",
    "read_nothing",
    "read_page",
    "read_paper",
]
