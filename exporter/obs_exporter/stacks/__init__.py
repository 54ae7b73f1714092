"""What each serving stack says of the engine's signals: tables first, one module a stack, one line here."""

from __future__ import annotations

from obs_exporter.stacks import kserve, ray_serve, triton, vllm
from obs_exporter.stacks.base import Stack
from obs_exporter.stacks.model import Answer, Claims, Oddity, Reading
from obs_exporter.stacks.reading import read_nothing, read_page, read_paper
from obs_exporter.stacks.versions import UNKNOWN, Known, as_version

STACKS: dict[str, Stack] = {
    module.STACK.name: module.STACK
    for module in (vllm, kserve, triton, ray_serve)
}  # fmt: skip

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
