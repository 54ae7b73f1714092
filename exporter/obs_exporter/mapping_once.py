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
from obs_exporter.errors import InputError
from obs_exporter.look import Look, Looker, read_body
from obs_exporter.sources.scrape import MAX_BYTES, Access
from obs_exporter.stacks import Claims


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


def from_files(stack: str, claims: Claims, names: Sequence[str]) -> list[tuple[Target, Look]]:
    """Read successive pages, oldest first, and return the look at the last; its target is called "file"."""
    readings = [read_body(stack, read_file(name), claims) for name in names]
    reading = readings[-1]
    target = Target("file", stack, Access("file"), claims)
    return [(target, Look(reading, 0.0, "" if reading.reachable else "not_metrics"))]


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
