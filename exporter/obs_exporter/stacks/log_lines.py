"""The engine's log lines that carry signals: a table of formats by version, and the parser that walks it. Pure.

Read in the sources of vLLM 0.2.7 to 0.33.0 (V0 and V1) and of Ray 2.44 to 2.48; seen in the logs of vLLM 0.32.0, of Ray
2.44.1 and of Ray 2.60.0. A format is searched inside a line, so whatever stands before it (process names, a container
runtime's own stamp) does not matter. Prefix cache hit rates are not here: over how many requests they go differs by
version. V1's ``Preemptions:`` part is not here either: the release that prints it zeroes the number first, so that it
never appears (0.11.1 to 0.33.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PERIODIC, START, EVENT = "periodic", "start", "event"
"""When a line is written: every few seconds under load, once at the start of the engine, or when something happens."""


@dataclass(frozen=True, slots=True)
class Field:
    """A number in a line: the regex group, what it is, and the factor into the schema's unit.

    ``name`` is a signal id, or one of the auxiliary names below. Two fields of one name are added up.
    """

    group: str
    name: str
    factor: float = 1.0


BLOCKS = "blocks"
"""KV cache blocks: capacity in tokens once the block size is known."""
CONTEXT = "context_tokens"
"""The context length that a "maximum concurrency" line is about, in tokens."""
QUEUE_TIME = "queue_time"
"""One request's wait in the engine's queue, in seconds."""
MEMORY = "memory_bytes"
"""Memory given to the KV cache, per worker, in bytes."""
ENGINE_START = "engine_start"
"""An engine starts: what was known of the one before it is over."""


@dataclass(frozen=True, slots=True)
class Format:
    """One line format.

    ``marker`` is text that every such line has, looked for before the regex. ``versions`` and ``generation`` say which
    engine prints it, for the reader; a line is recognised whatever version was claimed. ``what`` names the line in
    reasons.
    """

    what: str
    when: str
    marker: str
    pattern: re.Pattern[str]
    fields: tuple[Field, ...]
    generation: str
    versions: str


_NUMBER = r"[\d,]+"
_USAGE = r"[\w+ ]+? KV cache usage: (?P<usage>[\d.]+)%"
_ENGINE = r"(?:Engine (?P<engine>\d+): |(?P<all>\d+) Engines Aggregated: )?"
_GIB = 1024.0**3

FORMATS: tuple[Format, ...] = (
    Format(
        "V0 periodic line", PERIODIC, "Swapped:",
        re.compile(rf"Running: (?P<running>\d+) reqs, Swapped: (?P<swapped>\d+) reqs, Pending: (?P<waiting>\d+) reqs, "
                   rf"{_USAGE}"),
        (Field("running", "requests_running"), Field("waiting", "requests_waiting"),
         Field("usage", "kv_cache_usage", 0.01)),
        "V0", ">=0.2.7,<0.11",
    ),
    Format(
        "V1 periodic line", PERIODIC, "Waiting:",
        re.compile(rf"{_ENGINE}Avg prompt throughput: .*?Running: (?P<running>\d+) reqs, Waiting: (?P<waiting>\d+) reqs"
                   rf"(?:.*?Deferred: (?P<deferred>\d+) reqs)?(?:.*?,? {_USAGE})?"),
        (Field("running", "requests_running"), Field("waiting", "requests_waiting"),
         Field("deferred", "requests_waiting"), Field("usage", "kv_cache_usage", 0.01)),
        "V1", ">=0.7.1",
    ),
    Format(
        "V1 line of one step", PERIODIC, "Iteration(",
        re.compile(rf"(?:Engine (?P<engine>\d+): )?Iteration\(\d+\): .*?{_USAGE}"),
        (Field("usage", "kv_cache_usage", 0.01),),
        "V1", ">=0.26",
    ),
    Format(
        "start-up line", START, "KV cache size:",
        re.compile(rf"KV cache size: (?P<tokens>{_NUMBER}) tokens(?:, Maximum concurrency for (?P<context>{_NUMBER}) "
                   r"tokens per request: (?P<concurrency>[\d.]+)x)?"),
        (Field("tokens", "kv_cache_capacity"), Field("context", CONTEXT),
         Field("concurrency", "kv_cache_max_concurrency")),
        "V1", ">=0.8",
    ),
    Format(
        "start-up line", START, "Maximum concurrency for",
        re.compile(rf"(?<!tokens, )Maximum concurrency for (?P<context>{_NUMBER}) tokens per request: "
                   r"(?P<concurrency>[\d.]+)x"),
        (Field("context", CONTEXT), Field("concurrency", "kv_cache_max_concurrency")),
        "V0, V1", ">=0.6.3,<0.28",
    ),
    Format(
        "start-up line", START, " blocks: ",
        re.compile(r"# (?!CPU blocks: \d+$)(?P<device>\w+) blocks: (?P<blocks>\d+)(?:, # CPU blocks: \d+)?"),
        (Field("blocks", BLOCKS),),
        "V0, V1", ">=0.2.7,<0.11",
    ),
    Format(
        "start-up line of a CPU build", START, "# CPU blocks:",
        re.compile(r"(?<!, )# CPU blocks: (?P<blocks>\d+)\s*$"),
        (Field("blocks", BLOCKS),),
        "V0", ">=0.4.1,<0.7",
    ),
    Format(
        "start-up line", START, "after num_gpu_blocks is:",
        re.compile(r"vllm cache_config_info with initialization after num_gpu_blocks is: (?P<blocks>\d+)"),
        (Field("blocks", BLOCKS),),
        "V1", ">=0.9",
    ),
    Format(
        "start-up line", START, "Available KV cache memory:",
        re.compile(r"Available KV cache memory: (?P<memory>[\d.]+) GiB"),
        (Field("memory", MEMORY, _GIB),),
        "V1", ">=0.9.1",
    ),
    Format(
        "start of an engine", EVENT, "LLM engine (v",
        re.compile(r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[\w.+]+)\)"),
        (Field("", ENGINE_START),),
        "V0, V1", ">=0.2.7",
    ),
    Format(
        "V0 preemption warning", EVENT, "total_num_cumulative_preemption=",
        re.compile(r"total_num_cumulative_preemption=(?P<preemptions>\d+)"),
        (Field("preemptions", "preemptions"),),
        "V0", ">=0.4.3,<0.11",
    ),
    Format(
        "line of a finished request (Ray 2.44 to 2.48)", EVENT, "Queue time:",
        re.compile(r"Request \S+ finished \(\w+\)\. Total time: [\d.e+-]+s, Queue time: (?P<queue>[\d.e+-]+)s"),
        (Field("queue", QUEUE_TIME),),
        "V0", "Ray >=2.44,<2.49",
    ),
)  # fmt: skip
"""All formats. The V0 warning is written at preemption 1, 51, 101 and so on: its number counts, not its lines."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 4096
"""Characters of a line that are looked at: signal lines are far shorter, config dumps far longer."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What one line says: the format, the engine's index ("" where not named), and the numbers in schema units."""

    format: Format
    engine: str
    values: tuple[tuple[str, float], ...]

    def value(self, name: str) -> float | None:
        """Return one number, or None."""
        return dict(self.values).get(name)


def parse_line(text: str) -> Iterator[Fact]:
    """Yield what a line says; nothing for a line that carries no signal, and never an error, whatever the line is."""
    for form in FORMATS:
        if form.marker not in text:
            continue
        match = form.pattern.search(_COLOUR.sub("", text[:_LONGEST]).rstrip())
        if match is None:
            continue
        values: dict[str, float] = {}
        for field in form.fields:
            number = _number(match.groupdict().get(field.group) if field.group else "1")
            if number is not None:
                values[field.name] = values.get(field.name, 0.0) + float(f"{number * field.factor:.12g}")
        if values and values.get("kv_cache_usage", 0.0) <= 1:
            yield Fact(form, _engine(match), tuple(values.items()))


def _number(text: str | None) -> float | None:
    """Read a number with or without thousands separators; None for text that is none (such as "1.2.3")."""
    try:
        return float(text.replace(",", "")) if text else None
    except ValueError:
        return None


def _engine(match: re.Match[str]) -> str:
    index = match.groupdict().get("engine")
    return str(int(index)) if index else ""
