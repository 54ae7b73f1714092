"""The types that stack tables are written in, and the values that reading a page yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from obs_exporter.schema import Kind, Precision, Provenance, Series, Signal, State
from obs_exporter.stacks.versions import UNKNOWN, Known, matches


@dataclass(frozen=True, slots=True)
class Row:
    """One native family that carries a signal.

    ``family`` is the name as exposed (counters with ``_total`` where the page has it). With ``engine`` set it is the
    engine's own name without prefix, since the prefix belongs to the stack; otherwise it is the whole name.
    ``factor`` turns the native unit into the schema's base unit. ``where`` selects series by label. ``labels`` names
    the native label of each schema label beyond model and engine; ``constants`` are schema labels that the row itself
    knows. ``count`` turns two counters into a histogram of sum (``family``) and count. ``product`` takes the value from
    labels of an info family instead of from its sample. ``versions`` bounds the version of whoever prints it: the
    engine's for engine rows, else the stack's. ``optional`` rows are used where a page has them and never expected.
    ``state``, ``provenance`` and ``precision`` are those of its values.
    """

    signal: str
    family: str
    kind: Kind
    engine: bool = False
    factor: float = 1.0
    where: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    count: str = ""
    product: tuple[str, ...] = ()
    versions: str = ""
    optional: bool = False
    state: State = State.NATIVE
    provenance: Provenance = Provenance.LAYER
    precision: Precision = Precision.EXACT
    note: str = ""

    def families(self) -> tuple[str, ...]:
        """The families that it reads."""
        return (self.family, self.count) if self.count else (self.family,)


@dataclass(frozen=True, slots=True)
class Point:
    """One possible truth: a stack release and an engine release of one generation. "" means unknown."""

    stack: str
    engine: str
    generation: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What a stack does to some signals at some versions, where no value is to be had or a name is changed.

    The first rule that holds at a point answers for its signals; where none holds, the engine's own table does.
    ``source`` says where the fact was read; ``cost`` what the remedy costs.
    """

    signals: frozenset[str]
    state: State
    reason: str
    remedy: str = ""
    cost: str = ""
    stack_versions: str = ""
    engine_versions: str = ""
    source: str = ""

    def holds(self, signal: str, point: Point) -> bool:
        """Whether the rule answers for a signal at a point; an unknown version satisfies no bound."""
        return (
            signal in self.signals
            and _inside(self.stack_versions, point.stack)
            and _inside(self.engine_versions, point.engine)
        )


@dataclass(frozen=True, slots=True)
class Regained:
    """How signals come back that a stack does not publish at some versions: what the exporter derives or reads.

    ``how`` is the way, ``needs`` what the user has to give or switch on for it ("" where nothing). ``precision`` is
    that of the values. ``generation`` is the engine's, "" for any. The first that holds answers.
    """

    signals: frozenset[str]
    state: State
    precision: Precision
    how: str
    needs: str = ""
    stack_versions: str = ""
    engine_versions: str = ""
    generation: str = ""

    def holds(self, signal: str, point: Point) -> bool:
        """Whether the signal comes back so at a point; an unknown version satisfies no bound."""
        return (
            signal in self.signals
            and self.generation in ("", point.generation)
            and _inside(self.stack_versions, point.stack)
            and _inside(self.engine_versions, point.engine)
        )


def _inside(specifier: str, version: str) -> bool:
    return not specifier or bool(version and matches(specifier, version))


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one signal on one target: the unit of every report.

    ``native_name`` is the family as the page prints it; ``also`` lists further families of the same page that carry the
    same signal and were not used. ``series`` is empty unless ``state`` publishes.
    """

    signal: Signal
    state: State
    reason: str
    provenance: Provenance = Provenance.NONE
    precision: Precision = Precision.NONE
    native_name: str = ""
    remedy: str = ""
    cost: str = ""
    series: tuple[Series, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Oddity:
    """Something about a page that is wrong or surprising; a report decides how loud it is.

    ``code`` is one of the words in ``ODDITIES``; ``signal`` is "" where the whole page is meant.
    """

    code: str
    message: str
    signal: str = ""
    remedy: str = ""


ODDITIES: Mapping[str, str] = MappingProxyType(
    {
        "unreadable": "the page is empty, cut, another program's, or no metrics page",
        "damaged_lines": "lines that do not follow the format",
        "renamed_by_negotiation": "colons became underscores on the way",
        "doubled": "one signal under several names on one page",
        "retyped": "a family whose declared type is not the engine's",
        "wrong_type": "a family of a type that the mapping refuses",
        "out_of_range": "a ratio outside 0 to 1, or a negative count",
        "incomplete_histogram": "a histogram without its last bucket",
        "foreign_version_name": "a name that the engine of this version does not have",
        "router_series": "engine names that a router made up from its own view",
        "version_mismatch": "the page and the version given do not agree",
        "destructive_scrape": "a page whose scrape takes values away from every other scraper",
        "dropped": "a family that this version registers is not on the page",
    }
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that one look at one target yields: an answer for every signal, in the schema's order."""

    stack: str
    stack_version: Known
    engine_version: Known
    generation: str
    answers: tuple[Answer, ...]
    oddities: tuple[Oddity, ...] = ()
    problem: str = ""

    @property
    def reachable(self) -> bool:
        """Whether the page could be read as this stack's."""
        return not self.problem

    def answer(self, signal: str) -> Answer:
        """Return the answer for a signal id. Raises ``KeyError`` for an unknown id."""
        for answer in self.answers:
            if answer.signal.id == signal:
                return answer
        raise KeyError(signal)


@dataclass(frozen=True, slots=True)
class Claims:
    """What was told about a target before its page was read: versions from flags or from its other endpoints."""

    stack_version: Known = UNKNOWN
    engine_version: Known = UNKNOWN
