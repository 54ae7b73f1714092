"""What the engine's log lines add up to: the latest gauges with their age, capacities, and counters that never fall."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from obs_exporter.derive.counting import Runs
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
from obs_exporter.stacks.stamps import stamp

Key = tuple[str, str, str]
"""A file, the engine's index in it, and the process that wrote (of start-up lines "": several processes write them)."""

SIZES = (8, 16, 32, 64, 128, 256)
"""Block sizes that vLLM's devices use, in tokens."""
_PACE = timedelta(seconds=3)
"""V0 writes its periodic line every 5 s at most, and stamps are whole seconds: lines closer than this are of two."""
_LEAST = frozenset({BLOCKS, "kv_cache_capacity", "kv_cache_max_concurrency"})
"""Numbers of start-up lines of which the least holds where they differ: ranks take the least of theirs as their own."""
_REMEMBERED, _MODELS = 64, 8
"""The last warnings of a file that are known again, and the most models of one file that are told apart."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What is known of one engine from its log.

    ``gauges`` are values by name, each with the time of its line; ``start`` the numbers of its start-up lines, and
    ``started`` the time of the last of them. ``unlike``: they told different numbers without a start in between.
    """

    gauges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    start: Mapping[str, float] = field(default_factory=dict)
    started: float = -math.inf
    unlike: bool = False

    @property
    def newest(self) -> float:
        """The time of its last periodic line."""
        return max((time for _, time in self.gauges.values()), default=-math.inf)


@dataclass(frozen=True, slots=True)
class LogView:
    """The sum of all lines read so far, by file where nothing else is said.

    ``runs`` are the preemptions of V0's warnings, and ``warnings`` the last of these lines. ``generations`` are those
    whose lines were seen, ``models`` those that engines started with. ``paced`` is when each engine wrote its last
    periodic line by its stamp, and ``crowded`` are files in which two engines write without names. ``waits`` are sum
    and number of the queue times; ``short``: some may not have been counted.
    """

    engines: Mapping[Key, Engine] = field(default_factory=dict)
    runs: Mapping[str, Runs] = field(default_factory=dict)
    warnings: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    waits: tuple[float, float] = (0.0, 0.0)
    short: bool = False
    generations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)
    paced: Mapping[Key, datetime] = field(default_factory=dict)
    crowded: frozenset[str] = frozenset()

    @property
    def generation(self) -> str:
        """The engine generation that the lines are of, or "" where they are of none or of several."""
        found = frozenset().union(*self.generations.values()) - {"V0, V1"}
        return next(iter(found)) if len(found) == 1 else ""

    @property
    def preemptions(self) -> float:
        """The least number of preemptions that the warnings of all files prove."""
        return sum(runs.value for runs in self.runs.values())

    def mixed(self, file: str) -> str:
        """Say why engines of a file cannot be told apart by its lines, or ""."""
        if file in self.crowded:
            return "two engines write into one log without saying which (lines come faster than one writes them)"
        if len(self.models.get(file, ())) > 1:
            return f"engines of {len(self.models[file])} models started in one log"
        return ""


def read(view: LogView, file: str, text: str, time: float, *, counted: bool = True, unsure: bool = False) -> LogView:
    """Return the view after one more line, written at ``time``.

    Not ``counted`` are lines that were counted before, or may have been (``unsure``): of them only what holds now is
    taken, and where something may be missing in the sums then, they are ``short``.
    """
    for fact in parse_line(text):
        found = stamp(text)
        clock = found.clock if found is not None else None
        if fact.value("preemptions") is not None:
            known = view.warnings.get(file, ())
            if not counted or (found is not None and hash(text) in known):
                continue  # no line with a time and a request's id is written twice: it is shown twice
            view = replace(view, warnings={**view.warnings, file: (*known, hash(text))[-_REMEMBERED:]})
        if counted or fact.value(QUEUE_TIME) is None:
            view = fold(view, file, fact, time, clock)
        elif unsure:
            view = replace(view, short=True)
    return view


def fold(view: LogView, file: str, fact: Fact, time: float, clock: datetime | None = None) -> LogView:
    """Return the view after one more fact; ``clock`` is the line's own stamp, where it has one."""
    known = view.generations.get(file, frozenset())
    view = replace(view, generations={**view.generations, file: known | {fact.format.generation}})
    if fact.value(ENGINE_START) is not None:
        return _start(view, file, fact)
    waited = fact.value(QUEUE_TIME)
    if waited is not None:
        return replace(view, waits=(view.waits[0] + waited, view.waits[1] + 1)) if _sane(waited) else view
    preempted = fact.value("preemptions")
    if preempted is not None:
        return replace(view, runs={**view.runs, file: view.runs.get(file, Runs()).seen(preempted)})
    key = (file, fact.engine, fact.origin if fact.format.when == PERIODIC else "")
    engine = view.engines.get(key, Engine())
    if fact.format.when == PERIODIC:
        engine = replace(engine, gauges={**engine.gauges, **{name: (value, time) for name, value in fact.values}})
        view = _pace(view, key, fact, clock)
    elif fact.format.when == START:
        engine = _started(engine, dict(fact.values), time)
    return replace(view, engines={**view.engines, key: engine})


def _start(view: LogView, file: str, fact: Fact) -> LogView:
    """Forget what holds no more when an engine starts: all of its file, or all of its index where it has one."""

    def over(key: Key) -> bool:
        return key[0] == file and (not fact.engine or key[1] == fact.engine)

    models = view.models.get(file, frozenset())
    if fact.model and len(models) < _MODELS:
        models |= {fact.model}
    return replace(
        view,
        engines={key: one for key, one in view.engines.items() if not over(key)},
        paced={key: clock for key, clock in view.paced.items() if not over(key)},
        crowded=view.crowded - {file},
        models={**view.models, file: models},
    )


def _pace(view: LogView, key: Key, fact: Fact, clock: datetime | None) -> LogView:
    """Notice that V0's periodic line comes faster than one engine writes it."""
    if clock is None or fact.format.generation != "V0":
        return view
    before = view.paced.get(key)
    if before is not None and abs(clock - before) <= _PACE:
        view = replace(view, crowded=view.crowded | {key[0]})
    return replace(view, paced={**view.paced, key: clock})


def _started(engine: Engine, values: dict[str, float], time: float) -> Engine:
    """Return an engine after a start-up line: of numbers that differ the least."""
    unlike = any(engine.start.get(name, value) != value for name, value in values.items() if name in _LEAST)
    start = {**engine.start, **values}
    if unlike:
        start |= {name: min(engine.start.get(name, start[name]), start[name]) for name in _LEAST & start.keys()}
    return Engine({}, start, time, unlike or engine.unlike)


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
