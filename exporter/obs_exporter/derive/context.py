"""What a derivation is given: the page and its table, what was seen beside it, and what is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field

from obs_exporter.derive import carried, from_logs, in_flight, layer_queue, queue_wait
from obs_exporter.derive.gpu import DeviceReading
from obs_exporter.derive.model import Settings
from obs_exporter.exposition import Page
from obs_exporter.stacks.base import Stack


@dataclass(slots=True)
class Memory:
    """What is remembered of one target from look to look. Gone with the process: counters then start anew."""

    queue: queue_wait.State = field(default_factory=queue_wait.State)
    flight: in_flight.State = field(default_factory=in_flight.State)
    layer: layer_queue.State = field(default_factory=layer_queue.State)
    carried: carried.Carried = field(default_factory=carried.Carried)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen beside the page. ``logs`` is None where no log is followed, ``gpus`` where no GPU is asked.

    ``gone`` are log files that were followed and are there no more; ``problems`` say why a log cannot be read.
    """

    logs: from_logs.LogView | None = None
    gone: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    gpus: DeviceReading | None = None


@dataclass(slots=True)
class Context:
    """Everything that a derivation may use. ``now`` is in seconds, on the clock of the memory.

    ``took`` is how many seconds the page let us wait, None where that is not known.
    """

    stack: Stack
    page: Page
    memory: Memory
    evidence: Evidence
    settings: Settings
    now: float
    took: float | None = None
