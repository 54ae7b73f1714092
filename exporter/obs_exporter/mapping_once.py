"""``obs-exporter map``: the sidecar's path, once, over a file or a URL."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from obs_exporter.collector import families, own_families
from obs_exporter.config import Target
from obs_exporter.derive import Evidence, Memory
from obs_exporter.errors import InputError
from obs_exporter.look import Look, Looker, derived, parse_body
from obs_exporter.sources.beside import Beside
from obs_exporter.sources.scrape import MAX_BYTES
from obs_exporter.stacks import STACKS, read_page


def read_file(name: str) -> bytes:
    """Read a page from a file, or from standard input for ``-``.

    Raises ``InputError`` where it cannot be read or is larger than any page.
    """
    try:
        if name == "-":
            body = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as handle:
                body = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    if len(body) > MAX_BYTES:
        raise InputError(f"{name}: more than {MAX_BYTES} bytes: this is no metrics page")
    return body


def from_files(target: Target, names: Sequence[str], interval: float = 15.0) -> list[tuple[Target, Look]]:
    """Read successive pages, oldest first and ``interval`` seconds apart, and return the look at the last.

    The target's logs are taken to end when the last page was fetched. Raises ``InputError`` for a page that cannot be
    read.
    """
    beside = Beside(target.engine_logs, gpu=target.gpu)
    memory = Memory()
    look: Look | None = None
    for index, name in enumerate(names):
        now = index * interval
        page = parse_body(target.stack, read_file(name))
        reading = read_page(STACKS[target.stack], page, target.claims)
        evidence = beside.read(now, None) if index == len(names) - 1 else Evidence()
        outcome = derived(target.stack, reading, page, memory, evidence, target.settings, now)
        look = Look(outcome.reading, 0.0, "" if reading.reachable else "not_metrics", outcome.extras)
    beside.close()
    return [(target, look)] if look is not None else []


def from_url(target: Target) -> list[tuple[Target, Look]]:
    """Fetch one page and return the look at it."""
    looker = Looker(target)
    try:
        return [(target, looker.look())]
    finally:
        looker.close()


class _Fixed(Collector):
    """Families of looks that were already taken."""

    def __init__(self, looks: Sequence[tuple[Target, Look]]) -> None:
        self._looks = looks

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from families(self._looks)
        yield from own_families(self._looks)


def rendered(looks: Sequence[tuple[Target, Look]]) -> str:
    """Return the exposition of looks, as /metrics would show them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(looks))
    return generate_latest(registry).decode()
