"""The closed sets of words that the schema uses. Each member carries what it means, so that docs and reports agree."""

from __future__ import annotations

from enum import StrEnum


class _Word(StrEnum):
    """A word with its meaning; the value is what appears in labels and reports."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> _Word:
        """Build the member from its word and its meaning."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class Kind(_Word):
    """The Prometheus type of a family."""

    GAUGE = "gauge", "a value that goes up and down"
    COUNTER = "counter", "a cumulative value that only grows, or restarts at zero"
    HISTOGRAM = "histogram", "cumulative buckets with a sum and a count"


class Aggregation(_Word):
    """How several series of one target, equal in the schema's labels, become one."""

    SUM = "sum", "the values are added"
    MAX = "max", "the largest value: the fullest replica is the one that hurts"


class Stability(_Word):
    """How much a name may still change."""

    STABLE = "stable", "changes only with a major version and a changelog line old -> new"
    BETA = "beta", "may change with a minor version and a changelog line old -> new"


class State(_Word):
    """What is known about a signal on one target. The first five publish a value, the others never do."""

    NATIVE = "native", "published by its source under the source's own name"
    RENAMED = "renamed", "the engine's own observation, under a name that the stack or a negotiation gave it"
    DERIVED = "derived", "computed from other signals of the same target"
    LOG = "log", "read from a log"
    ESTIMATED = "estimated", "an estimate with stated bounds"
    IDLE = "idle", "registered at this version, nothing observed yet"
    HIDDEN = "hidden", "a switch shows it"
    LOST = "lost", "the engine has it, no way through this stack at this version"
    NEVER = "never", "this engine version does not have it"
    NOT_APPLICABLE = "not_applicable", "the question does not arise on this stack"
    STALE = "stale", "the last value is too old to publish"
    UNREACHABLE = "unreachable", "its source could not be read"

    @property
    def publishes(self) -> bool:
        """Whether a value stands behind this state."""
        return self in _PUBLISHING


_PUBLISHING = frozenset({State.NATIVE, State.RENAMED, State.DERIVED, State.LOG, State.ESTIMATED})


class Provenance(_Word):
    """Where a value comes from, whatever its name."""

    ENGINE = "engine", "the engine's own metric"
    LAYER = "layer", "a metric of the serving layer"
    LOG = "log", "a log line"
    COMPUTED = "computed", "arithmetic over other values"
    DEVICE = "device", "the GPU driver (NVML)"
    NONE = "none", "no value"


class Precision(_Word):
    """How exact a published value is."""

    EXACT = "exact", "as the source counted it"
    BUCKET = "bucket", "counts are exact, the sum was rebuilt from bucket midpoints by the stack"
    SAMPLED = (
        "sampled",
        "reckoned from samples: a time-integral of a gauge, or sums read at equal counts between two looks",
    )
    LOWER_BOUND = "lower_bound", "the true value is at least this"
    UPPER_BOUND = "upper_bound", "the true value is at most this"
    NONE = "none", "no value"
