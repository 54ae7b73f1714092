"""What both Ray faces share: the processes of a Serve LLM application, their labels, and when each shows its numbers.

Every process pushes its numbers to the node's agent every 10 s, each at its own time, so that one page mixes moments
up to 10 s apart. Series of dead replicas stay as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from obs_exporter.simulator.book import Book
from obs_exporter.simulator.clock import to_ns
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import EventLog
from obs_exporter.simulator.faces.base import Face, value_of
from obs_exporter.simulator.faces.tables import COUNTER, GAUGE, HISTOGRAM, Family
from obs_exporter.simulator.ledger import Buckets, Ledger
from obs_exporter.simulator.page import PYTHON, Page, sorted_labels
from obs_exporter.simulator.reader import Reader

PUSH_EVERY_S = 10.0
PUSH_AT_S = {"controller": 0.4, "proxy": 1.7, "ingress": 4.2, "engine": 6.9}
"""When each process first pushes its numbers, in seconds after the start (arbitrary, but never the same)."""

ROUTE = {"application": "default", "route": "/v1/chat/completions"}


def identity(what: str, length: int) -> str:
    """A made-up hexadecimal id, the same on each run."""
    return hashlib.sha256(f"simulated {what}".encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class Row:
    """One series, or one of each engine process: which family, whose numbers, with which labels.

    ``labels`` values may hold ``{replica}``, ``{ingress}``, ``{model}``, ``{actor}`` and ``{node}``. ``ledger`` is
    ``engine`` or ``layer``. ``lifetime_s`` > 0: a gauge that vanishes that long after its last change.
    """

    family: Family
    process: str
    ledger: str
    labels: Mapping[str, str]
    lifetime_s: float = 0.0
    young_s: float = 0.0
    """> 0: shown only that long after the start of its process."""


class RayFace(Face):
    """A node agent's page over the processes of one application."""

    ROWS: tuple[Row, ...] = ()
    VERSION = ""
    SCOPE: Mapping[str, str] = {}
    TWINS = False
    """Whether every counter is shown a second time as a gauge without ``_total`` (before 2.52)."""

    def __init__(self, config: Config, log: EventLog) -> None:
        super().__init__(config, log)
        self._rows = tuple(self.rows())
        flush = to_ns(config.layer.flush_s)
        self._processes: dict[str, Reader[Book]] = {}
        for process in PUSH_AT_S:
            families = [row.family for row in self._rows if row.process == process]
            self._processes[process] = self._book(families, layer_survives=True, flush=flush)

    def rows(self) -> Iterable[Row]:
        """The rows of the page."""
        return self.ROWS

    def total(self, buckets: Buckets) -> float:
        """What the page says is a histogram's sum."""
        return buckets.sum

    def prologue(self, page: Page) -> None:
        """What stands before all families."""
        del page

    def page(self, now: int) -> bytes:
        """The agent's page at ``now`` nanoseconds: it answers while the engine is down, too."""
        page = Page(PYTHON)
        self.prologue(page)
        written: dict[str, list[Row]] = {}
        for row in self._rows:
            written.setdefault(row.family.name, []).append(row)
        for rows in written.values():
            self._family(page, rows, now)
        return page.bytes()

    def _family(self, page: Page, rows: list[Row], now: int) -> None:
        family = rows[0].family
        shown = [item for row in rows for item in self._series(row, now)]
        if not shown:
            return
        page.family(family.name, family.kind, family.meaning)
        for labels, value in shown:
            if isinstance(value, Buckets):
                page.histogram(family.name, labels, value, self.total(value))
            else:
                page.sample(family.name, labels, value)
        if self.TWINS and family.kind == COUNTER:
            twin = family.name.removesuffix("_total")
            page.family(twin, GAUGE, f"(DEPRECATED, use {family.name} metric instead) {family.meaning}")
            for labels, value in shown:
                if not isinstance(value, Buckets):
                    page.sample(twin, labels, value)

    def _series(self, row: Row, now: int) -> Iterable[tuple[dict[str, str], float | Buckets]]:
        pushed = self.pushed(row.process, now)
        if pushed < 0:
            return
        book = self._processes[row.process].at(pushed)
        ledgers = self._ledgers(row, book)
        for generation, ledger in enumerate(ledgers):
            current = generation == len(ledgers) - 1 and (book.up or row.process != "engine")
            if not self._visible(row, ledger, current, now):
                continue
            for own, measure in row.family.series:
                value = self._value(row.family, ledger, measure)
                if value is not None:
                    yield self._labels(row, generation if len(book.engines) > 1 else 0, own), value

    def _ledgers(self, row: Row, book: Book) -> list[Ledger]:
        if row.ledger == "engine":
            return list(book.engines)
        return list(book.replicas) if row.process == "engine" else [book.layer]

    def _visible(self, row: Row, ledger: Ledger, current: bool, now: int) -> bool:
        if row.family.kind != GAUGE:
            return True
        if not current:
            return False
        if row.young_s:
            return now - ledger.started <= to_ns(row.young_s)
        return not row.lifetime_s or (ledger.moved is not None and now - ledger.moved <= to_ns(row.lifetime_s))

    def _value(self, family: Family, ledger: Ledger, measure: str) -> float | Buckets | None:
        """A value to show; histograms and counters do not exist before their first event."""
        if family.kind == HISTOGRAM:
            buckets = ledger.histograms[measure, family.bucket_edges(self.config.engine.max_model_len)]
            return buckets if buckets.count else None
        value = value_of(ledger, family.kind, measure)
        return value if value or family.kind == GAUGE else None

    def _labels(self, row: Row, generation: int, own: Mapping[str, str]) -> dict[str, str]:
        who = f"{row.process} {generation}" if row.process == "engine" else row.process
        filled = {
            "replica": identity(f"replica {generation}", 8),
            "ingress": identity("ingress", 8),
            "model": self.config.engine.model,
            "actor": identity(f"actor {row.process}", 32),
            "node": identity("node", 56),
        }
        common = {
            "Component": "core_worker",
            "NodeAddress": "127.0.0.1",
            "SessionName": "session_2027-01-15_08-00-00_000000_1",
            "Version": self.VERSION,
            "WorkerId": identity(f"worker {who}", 56),
            **self.SCOPE,
        }
        labels = {name: value.format(**filled) for name, value in row.labels.items()}
        return sorted_labels({**common, **labels, **own}.items())

    def pushed(self, process: str, now: int) -> int:
        """When a process last pushed its numbers, in nanoseconds; negative if it has not yet."""
        first, every = to_ns(PUSH_AT_S[process]), to_ns(PUSH_EVERY_S)
        return first + (now - first) // every * every if now >= first else -1

    def _seen(self, reader: Reader[Book], now: int) -> int:
        for process, one in self._processes.items():
            if one is reader:
                return self.pushed(process, now)
        return now
