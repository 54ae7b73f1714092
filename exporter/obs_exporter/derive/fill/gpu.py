"""Answers from the GPU driver."""

from __future__ import annotations

from obs_exporter.derive import gpu
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import OPEN_GAUGE, Draft


def fill(draft: Draft, context: Context) -> None:
    """Fill the GPU signals where the driver was asked and the page has none."""
    if context.evidence.gpus is None:
        return
    for answer in gpu.answers(context.evidence.gpus):
        if draft.answers[answer.signal.id].state in OPEN_GAUGE:
            draft.put(answer)
