"""What the engine's log lines add up to: the latest gauges with their age, capacities, and counters that never fall."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from obs_exporter.derive.counting import Total
from obs_exporter.stacks.log_lines import (
    BLOCKS,
    CONTEXT,
    ENGINE_START,
    PERIODIC,
    QUEUE_TIME,
    START,
    Fact,
    parse_line,
)

Key = tuple[str, str]
"""A file and the engine's index in it."""

SIZES = (8, 16, 32, 64, 128, 256)
"""Block sizes that vLLM's devices use, in tokens."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What is known of one engine from its log: values by name, each with the time of its line."""

    gauges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogView:
    """The sum of all lines read so far. ``generations`` are those whose lines were seen, by file."""

    engines: Mapping[Key, Engine] = field(default_factory=dict)
    preemptions: Total = field(default_factory=Total)
    warned: frozenset[str] = frozenset()
    waits: tuple[float, float] = (0.0, 0.0)
    generations: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def generation(self) -> str:
        """The engine generation that the lines are of, or "" where they are of none or of several."""
        found = frozenset().union(*self.generations.values()) - {"V0, V1"}
        return next(iter(found)) if len(found) == 1 else ""


def read(view: LogView, file: str, text: str, time: float) -> LogView:
    """Return the view after one more line, written at ``time``."""
    for fact in parse_line(text):
        view = fold(view, file, fact, time)
    return view


def fold(view: LogView, file: str, fact: Fact, time: float) -> LogView:
    """Return the view after one more fact."""
    known = view.generations.get(file, frozenset())
    view = replace(view, generations={**view.generations, file: known | {fact.format.generation}})
    if fact.value(ENGINE_START) is not None:
        return replace(view, engines={key: one for key, one in view.engines.items() if key[0] != file})
    waited = fact.value(QUEUE_TIME)
    if waited is not None:
        return replace(view, waits=(view.waits[0] + waited, view.waits[1] + 1)) if _sane(waited) else view
    preempted = fact.value("preemptions")
    if preempted is not None:
        total = view.preemptions.seen({file: preempted})
        return replace(view, preemptions=total, warned=view.warned | {file})
    key = (file, fact.engine)
    engine = view.engines.get(key, Engine())
    if fact.format.when == PERIODIC:
        engine = replace(engine, gauges={**engine.gauges, **{name: (value, time) for name, value in fact.values}})
    elif fact.format.when == START:
        engine = Engine({}, {**engine.start, **dict(fact.values)})
    return replace(view, engines={**view.engines, key: engine})


def without(view: LogView, files: Iterable[str]) -> LogView:
    """Return the view without the gauges of files that are gone; what they counted stays counted."""
    gone = frozenset(files)
    if not any(key[0] in gone for key in view.engines):
        return view
    return replace(view, engines={key: engine for key, engine in view.engines.items() if key[0] not in gone})


def _sane(value: float) -> bool:
    return math.isfinite(value) and 0 <= value < 86400


def capacity(start: Mapping[str, float], block_size: int = 0) -> float | None:
    """Return the tokens that a start-up's lines say the KV cache holds, or None.

    Lines that count blocks tell tokens only with the block size: given, or found from the line about the maximum
    concurrency, which is blocks x size / context length, and fits one size only.
    """
    tokens = start.get("kv_cache_capacity")
    if tokens is not None:
        return tokens
    blocks = start.get(BLOCKS)
    if not blocks:
        return None
    size = block_size or fitting_block_size(start)
    return blocks * size if size else None


def fitting_block_size(start: Mapping[str, float]) -> int:
    """Return the block size that the start-up's numbers agree on, or 0."""
    blocks, context = start.get(BLOCKS), start.get(CONTEXT)
    concurrency = start.get("kv_cache_max_concurrency")
    if not blocks or not context or concurrency is None:
        return 0
    fitting = [size for size in SIZES if abs(blocks * size / context - concurrency) <= 0.0051 + concurrency * 1e-9]
    return fitting[0] if len(fitting) == 1 else 0
