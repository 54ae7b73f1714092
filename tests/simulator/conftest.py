"""Reads pages the way a scraper does, and the real pages that simulated ones are held against."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from obs_exporter.simulator import Closed, Config, Engine, Idle, Lengths, Run, Steady, simulate

DATA = Path(__file__).parents[1] / "data"


@dataclass
class Shape:
    """What a scraper can know of a family without its values."""

    kind: str
    labels: set[frozenset[str]] = field(default_factory=set)
    edges: set[str] = field(default_factory=set)


class Scrape:
    """One page, parsed."""

    def __init__(self, page: bytes | str) -> None:
        text = page if isinstance(page, str) else page.decode()
        self.shapes: dict[str, Shape] = {}
        self.values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        kinds = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in kinds, f"{name} is declared twice"
                kinds[name] = kind
                self.shapes[name] = Shape(kind)
        # The parser takes _total off a counter's family; the page's own TYPE lines say what was written.
        for family in text_string_to_metric_families(text):
            shape = self.shapes.get(family.name) or self.shapes[f"{family.name}_total"]
            for sample in family.samples:
                names = set(sample.labels)
                if "le" in names:
                    shape.edges.add(sample.labels["le"])
                shape.labels.add(frozenset(names - {"le"}))
                name = sample.name
                if family.name in self.shapes and self.shapes[family.name].kind == "counter":
                    name = family.name
                key = (name, tuple(sorted(sample.labels.items())))
                assert key not in self.values, f"{key} stands twice on the page"
                self.values[key] = sample.value

    def __contains__(self, name: str) -> bool:
        return any(key[0] == name for key in self.values)

    def all(self, name: str, **labels: str) -> list[float]:
        wanted = labels.items()
        return [value for key, value in self.values.items() if key[0] == name and wanted <= dict(key[1]).items()]

    def get(self, name: str, **labels: str) -> float:
        found = self.all(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {len(found)} series"
        return found[0]


Scraper = Callable[[bytes | str], Scrape]


@pytest.fixture(scope="session")
def scrape() -> Scraper:
    return Scrape


@pytest.fixture(scope="session")
def real() -> Callable[[str], Scrape]:
    def read(name: str) -> Scrape:
        path = DATA / name
        raw = path.read_bytes()
        return Scrape(gzip.decompress(raw) if path.suffix == ".gz" else raw)

    return read


@pytest.fixture(scope="session")
def busy() -> Run:
    """16 clients over 8 slots and a KV cache that is too small for them, then idle, then a light load."""
    engine = Engine(num_blocks=129, block_size=16, max_model_len=2048, max_num_seqs=8)
    phases = (Closed(40.0, 16), Idle(60.0), Steady(20.0, 3.0))
    config = Config(engine=engine, phases=phases, prompt_tokens=Lengths(300.0, 0.4), output_tokens=Lengths(90.0, 0.4))
    return simulate(config, seed=3)
