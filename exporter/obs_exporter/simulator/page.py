"""Text exposition in the handwriting of each server: order of samples, of labels, and how numbers look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.utils import floatToGoString

from obs_exporter.simulator.ledger import Buckets

INF = float("inf")

_GO: Callable[[float], str] = floatToGoString


def go_number(value: float) -> str:
    """As prometheus_client writes it: ``40.0``, ``1.8e+09``."""
    return _GO(value)


def plain_number(value: float) -> str:
    """As prometheus-cpp writes it: ``40``, ``0.05``."""
    if value == INF:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


@dataclass(frozen=True, slots=True)
class Hand:
    """How one library writes: numbers, the order of a histogram's samples, and where ``le`` stands."""

    number: Callable[[float], str]
    order: tuple[str, ...]
    le_last: bool = False


PYTHON = Hand(go_number, ("bucket", "count", "sum"))
MULTIPROCESS = Hand(go_number, ("sum", "bucket", "count"))
CPP = Hand(plain_number, ("count", "sum", "bucket"), le_last=True)


class Page:
    """A page being written."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self._lines: list[str] = []

    def family(self, name: str, kind: str, meaning: str) -> None:
        """Write HELP and TYPE; samples follow."""
        self._lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]

    def sample(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Write one sample."""
        self._lines.append(f"{name}{_labels(labels)} {self._hand.number(value)}")

    def histogram(self, name: str, labels: Mapping[str, str], buckets: Buckets, total: float) -> None:
        """Write a histogram's samples; ``total`` is what the server says is the sum."""
        for part in self._hand.order:
            if part == "sum":
                self.sample(f"{name}_sum", labels, total)
            elif part == "count":
                self.sample(f"{name}_count", labels, buckets.count)
            else:
                self._buckets(name, labels, buckets)

    def _buckets(self, name: str, labels: Mapping[str, str], buckets: Buckets) -> None:
        cumulative = 0
        for edge, count in zip((*buckets.edges, INF), buckets.counts, strict=True):
            cumulative += count
            le = {"le": self._hand.number(edge)}
            self.sample(f"{name}_bucket", dict(labels) | le if self._hand.le_last else _sorted(labels, le), cumulative)

    def raw(self, text: str) -> None:
        """Write lines as they are."""
        self._lines.append(text.rstrip("\n"))

    def bytes(self) -> bytes:
        """The page."""
        return ("\n".join(self._lines) + "\n").encode() if self._lines else b""


def _sorted(*parts: Mapping[str, str]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for part in parts:
        merged.update(part)
    return dict(sorted(merged.items()))


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def one_two_five(limit: int) -> tuple[float, ...]:
    """Edges 1, 2, 5, 10, ... up to ``limit``: vLLM's token histograms, up to max_model_len."""
    edges: list[float] = []
    decade = 1
    while True:
        for step in (1, 2, 5):
            if step * decade > limit:
                return tuple(edges)
            edges.append(float(step * decade))
        decade *= 10


def sorted_labels(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Labels in the order of their names."""
    return dict(sorted(labels))
