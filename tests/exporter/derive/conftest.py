"""Real pages and logs, read as the exporter reads them, and a target whose pages are given one after the other."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from obs_exporter.derive import Context, Evidence, Memory, Outcome, Settings, apply
from obs_exporter.look import parse_body
from obs_exporter.stacks import STACKS, Claims, Known, read_page

DATA = Path(__file__).parents[2] / "data"


def read_data(name: str) -> bytes:
    path = DATA / name
    return path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())


@pytest.fixture
def data() -> Callable[[str], bytes]:
    return read_data


@pytest.fixture
def series() -> list[tuple[float, bytes]]:
    """The real series: (time, page) of a starved server, with the engine's own queue time on the pages."""
    with gzip.open(DATA / "vllm/0.32.0-real-series/steady.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["t"], row["page"].encode()) for row in rows]


@dataclass
class Watched:
    """One target: pages go in, outcomes come out; the memory stays."""

    stack: str
    settings: Settings = field(default_factory=Settings)
    claims: Claims = field(default_factory=Claims)
    memory: Memory = field(default_factory=Memory)

    def see(self, body: bytes, now: float, evidence: Evidence | None = None) -> Outcome:
        page = parse_body(self.stack, body)
        reading = read_page(STACKS[self.stack], page, self.claims)
        context = Context(STACKS[self.stack], page, self.memory, evidence or Evidence(), self.settings, now)
        return apply(reading, context)


@pytest.fixture
def watch() -> Callable[..., Watched]:
    def make(
        stack: str, *, stack_version: str = "", engine_version: str = "", settings: Settings | None = None
    ) -> Watched:
        known = [Known((text,), "given") if text else Known((), "unknown") for text in (stack_version, engine_version)]
        return Watched(stack, settings or Settings(), Claims(*known))

    return make


def without(body: bytes, *families: str) -> bytes:
    """Return a page without some families."""
    names = tuple(family.encode() for family in families)
    kept = (
        line
        for line in body.split(b"\n")
        if not line.removeprefix(b"# TYPE ").removeprefix(b"# HELP ").startswith(names)
    )
    return b"\n".join(kept)


@pytest.fixture
def drop() -> Callable[..., bytes]:
    return without
