"""Gauges that the stack clears at every scrape."""

from __future__ import annotations

from obs_exporter.derive import carried
from obs_exporter.derive.context import Context
from obs_exporter.derive.model import AGE, Draft, Extra


def fill(draft: Draft, context: Context) -> None:
    """Carry the last values on where the stack's version clears its gauges."""
    memory = context.memory
    if context.stack.cadence_of(draft.reading.stack_version) is None:
        return
    memory.carried = carried.step(memory.carried, draft.answers, context.now)
    limit = context.settings.stale_after
    for answer, age in carried.fill(memory.carried, draft.answers, context.now, limit).values():
        draft.put(answer)
        draft.extras.append(Extra(answer.signal.id, AGE, age))
