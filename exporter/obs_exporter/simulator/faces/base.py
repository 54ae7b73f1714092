"""What every face has: a name, a page at a time, log lines up to a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from obs_exporter.simulator.book import Book
from obs_exporter.simulator.config import Config, Engine
from obs_exporter.simulator.events import EventLog
from obs_exporter.simulator.faces.tables import COUNTER, HISTOGRAM, Family
from obs_exporter.simulator.ledger import Ledger
from obs_exporter.simulator.logs import LogBook, LogLine
from obs_exporter.simulator.page import Page
from obs_exporter.simulator.reader import Reader

CONSTANTS = {"off": -1.0, "sleep:awake": 1.0}
"""Measures that never move and are not 0."""


class PageUnavailableError(ConnectionError):
    """The metrics page does not answer at that time: an outage, or the process that serves it is down."""


@dataclass(frozen=True, slots=True)
class FaceInfo:
    """What a face is: the stack that it shows, and the versions that the stack would report."""

    name: str
    stack: str
    stack_version: str
    engine_version: str
    meaning: str


class Face(ABC):
    """One stack's pages and logs over one event record."""

    INFO: FaceInfo
    GENERATE = False
    """Whether the stack has Triton's generate extension beside the OpenAI API."""

    def __init__(self, config: Config, log: EventLog) -> None:
        self.config = config
        self._log = log
        self._readers: list[Reader[Book]] = []
        self._log_reader = Reader(log, self._log_book)

    @abstractmethod
    def page(self, now: int) -> bytes:
        """The page at ``now`` nanoseconds. Raises PageUnavailableError while its process is down."""

    def log_lines(self, until: int) -> list[LogLine]:
        """The lines of all log files up to ``until`` nanoseconds, in order of time."""
        return list(self._log_reader.at(until).until(until))

    def settle(self, now: int) -> list[LogLine]:
        """For a live server: read all events, let the record forget them, and hand out the new log lines."""
        book = self._log_reader.at(now)
        lines = list(book.until(now))
        book.lines.clear()
        for reader in self._readers:
            reader.at(max(0, self._seen(reader, now)))
        self._log.drop(min([self._log_reader.position, *(reader.position for reader in self._readers)]))
        return lines

    def _seen(self, reader: Reader[Book], now: int) -> int:
        """Up to when a reader's process has shown its numbers at ``now``."""
        del reader
        return now

    @abstractmethod
    def _log_book(self) -> LogBook: ...

    def _book(
        self,
        families: Iterable[Family],
        layer_survives: bool = False,
        flush: int = 0,
        first: tuple[tuple[str, float], ...] = (),
    ) -> Reader[Book]:
        """A reader that keeps the numbers that these families need; ``first`` is observed when the engine starts."""
        engine = self.config.engine
        edges = [
            (family.measure, family.bucket_edges(engine.max_model_len))
            for family in families
            if family.kind == HISTOGRAM
        ]
        reader = Reader(self._log, lambda: Book(edges, engine.usable_blocks, layer_survives, flush, first))
        self._readers.append(reader)
        return reader


def value_of(ledger: Ledger, kind: str, measure: str) -> float:
    """A counter's or gauge's value; measures that are never booked are constants, or 0."""
    if measure in CONSTANTS:
        return CONSTANTS[measure]
    if kind == COUNTER:
        return ledger.counters.get(measure, 0.0)
    return ledger.gauges.get(measure, 0.0)


def write_family(
    page: Page,
    family: Family,
    ledger: Ledger,
    labels: Callable[[Mapping[str, str]], dict[str, str]],
    max_model_len: int,
) -> None:
    """Write one family with all its series from one process; ``labels`` makes a series' labels from its own."""
    page.family(family.name, family.kind, family.meaning)
    for own, measure in family.series:
        if family.kind == HISTOGRAM:
            buckets = ledger.histograms[measure, family.bucket_edges(max_model_len)]
            page.histogram(family.name, labels(own), buckets, buckets.sum)
            continue
        value = value_of(ledger, family.kind, measure)
        if value or not family.lazy:
            page.sample(family.name, labels(own), value)


def is_empty(family: Family, ledger: Ledger, max_model_len: int) -> bool:
    """Whether a family has nothing to show yet where servers hide such families."""
    if family.kind == HISTOGRAM:
        return not ledger.histograms[family.measure, family.bucket_edges(max_model_len)].count
    return not any(value_of(ledger, family.kind, measure) for _, measure in family.series)


def max_concurrency(engine: Engine) -> float:
    """Requests of full context that fit at once, as vLLM V1 reckons: whole blocks per request."""
    return engine.num_blocks / -(-engine.max_model_len // engine.block_size)
