"""What the derivations share: what they are given beside the page, and what they yield beside the answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from obs_exporter.schema import Histogram, Scalar, Series, State
from obs_exporter.stacks.model import Answer, Reading

Labels = tuple[tuple[str, str], ...]

OPEN_GAUGE = frozenset({State.IDLE, State.HIDDEN, State.LOST, State.NEVER, State.NOT_APPLICABLE, State.UNREACHABLE})
"""States in which a gauge may be filled from elsewhere."""
OPEN_TOTAL = frozenset({State.HIDDEN, State.LOST, State.NEVER, State.NOT_APPLICABLE})
"""The same for counters and histograms. Not while idle or unreachable: the source's own value comes (back) later, and a
series that jumps between two origins would read as a burst."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user says of a target where its page does not.

    ``max_num_seqs``: slots of the engine, of all replicas behind the target together (0: not known). ``block_size``:
    tokens a KV cache block, for start-up lines that count blocks (0: not known). ``kv_capacity``: tokens that the KV
    cache holds, where nothing else tells (0: not known). ``estimate_kv_usage``: publish an estimate of the KV cache
    usage where nothing better exists. ``stale_after``: seconds after which a value that is carried on, or was read from
    a log, is not published any more.
    """

    max_num_seqs: int = 0
    block_size: int = 0
    kv_capacity: float = 0.0
    estimate_kv_usage: bool = False
    stale_after: float = 30.0


AGE, LOWER, UPPER, SUM_LOWER, SUM_UPPER = "age", "lower", "upper", "sum_lower", "sum_upper"


@dataclass(frozen=True, slots=True)
class Extra:
    """A number about a published value, for the exporter's own metrics.

    ``kind``: ``age`` in seconds; ``lower`` and ``upper`` bounds of a gauge in its unit; ``sum_lower`` and ``sum_upper``
    bounds of a histogram's ``_sum``, cumulative like it.
    """

    signal: str
    kind: str
    value: float


@dataclass(slots=True)
class Draft:
    """A reading on its way through the derivations: answers by signal id, in the schema's order, and the extras."""

    reading: Reading
    answers: dict[str, Answer]
    extras: list[Extra] = field(default_factory=list)

    @classmethod
    def of(cls, reading: Reading) -> Draft:
        """Begin with a page's reading."""
        return cls(reading, {answer.signal.id: answer for answer in reading.answers})

    def finish(self) -> Reading:
        """Return the reading with the answers as they are now."""
        return replace(self.reading, answers=tuple(self.answers.values()))

    def series(self, signal: str) -> tuple[Series, ...]:
        """Return the published series of a signal, or none."""
        answer = self.answers[signal]
        return answer.series if answer.state.publishes else ()

    def put(self, answer: Answer) -> None:
        """Replace the answer of a signal."""
        self.answers[answer.signal.id] = answer

    @property
    def model(self) -> str:
        """The one model that the published series name, or ""."""
        found = {
            dict(series.labels).get("model", "") for answer in self.answers.values() for series in answer.series
        } - {""}
        return found.pop() if len(found) == 1 else ""


def labelled(model: str, engine: str = "") -> Labels:
    """Return the schema's labels of a series without further labels."""
    return (("engine", engine), ("model", model))


def scalars(series: Iterable[Series]) -> dict[Labels, float]:
    """Return the values of gauges or counters by their labels."""
    return {one.labels: one.value for one in series if isinstance(one, Scalar)}


def counts(series: Iterable[Series]) -> dict[Labels, float]:
    """Return the numbers of observations of histograms by their labels."""
    return {one.labels: one.count for one in series if isinstance(one, Histogram)}


def sums(series: Iterable[Series]) -> dict[Labels, float]:
    """Return the sums of histograms by their labels."""
    return {one.labels: one.sum for one in series if isinstance(one, Histogram)}
