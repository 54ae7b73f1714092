"""The engine's log lines that carry signals: a table of formats by version, and the parser that walks it. Pure.

Read in the sources of vLLM 0.2.7 to 0.33.0 (V0 and V1) and of Ray 2.44 to 2.48; seen in the logs of vLLM 0.32.0, of Ray
2.44.1 and of Ray 2.60.0. A format begins with the first character of a logger's message, right behind what stands
before it (``log_heads``): prompts are logged as well, and what a user writes must not become a metric. In no version
does a stack print one of these lines without a logger's head. What cannot be told apart is said there.

Prefix cache hit rates are not here: over how many requests they go differs by version. V1's ``Preemptions:`` part is
not here either: the release that prints it zeroes the number first, so that it never appears (0.11.1 to 0.33.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from obs_exporter.stacks.log_heads import message

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
    """One line format, from the beginning of the message.

    ``levels`` are those at which it is logged. ``marker`` is text that every such line has, looked for before the
    regex. ``versions`` and ``generation`` say which
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
    levels: tuple[str, ...] = ("INFO", "DEBUG")


_COUNT = r"\d{1,15}"
_NUMBER = r"[\d,]{1,20}"
_FLOAT = r"[\d.]{1,20}"
_SECONDS = r"[\d.e+-]{1,30}"
_USAGE = rf"[\w+ ]{{1,40}}? KV cache usage: (?P<usage>{_FLOAT})%"
_ENGINE = r"(?:Engine (?P<engine>\d{1,6}): |\d{1,6} Engines Aggregated: )?"
_RATES = "Avg prompt throughput: "
_REPEATED = r"(?: \[repeated \d{1,9}x [^\]]*\].*)?$"
"""Ray's driver adds this to a line that several of its processes wrote."""
_GIB = 1024.0**3

FORMATS: tuple[Format, ...] = (
    Format(
        "V0 periodic line", PERIODIC, "Swapped:",
        re.compile(rf"(?:{_RATES}.*?)?Running: (?P<running>{_COUNT}) reqs, Swapped: {_COUNT} reqs, "
                   rf"Pending: (?P<waiting>{_COUNT}) reqs, {_USAGE}"),
        (Field("running", "requests_running"), Field("waiting", "requests_waiting"),
         Field("usage", "kv_cache_usage", 0.01)),
        "V0", ">=0.2.7,<0.11",
    ),
    Format(
        "V1 periodic line", PERIODIC, "Waiting:",
        re.compile(rf"{_ENGINE}{_RATES}.*?Running: (?P<running>{_COUNT}) reqs, Waiting: (?P<waiting>{_COUNT}) reqs"
                   rf"(?:.*?Deferred: (?P<deferred>{_COUNT}) reqs)?(?:.*?,? {_USAGE})?"),
        (Field("running", "requests_running"), Field("waiting", "requests_waiting"),
         Field("deferred", "requests_waiting"), Field("usage", "kv_cache_usage", 0.01)),
        "V1", ">=0.7.1",
    ),
    Format(
        "V1 line of one step", PERIODIC, "Iteration(",
        re.compile(rf"{_ENGINE}Iteration\({_COUNT}\): .*?{_USAGE}"),
        (Field("usage", "kv_cache_usage", 0.01),),
        "V1", ">=0.26",
    ),
    Format(
        "start-up line", START, "KV cache size:",
        re.compile(rf"(?:[\w+ ]{{1,40}} )?KV cache size: (?P<tokens>{_NUMBER}) tokens(?:, Maximum concurrency for "
                   rf"(?P<context>{_NUMBER}) tokens per request: (?P<concurrency>{_FLOAT})x)?"),
        (Field("tokens", "kv_cache_capacity"), Field("context", CONTEXT),
         Field("concurrency", "kv_cache_max_concurrency")),
        "V1", ">=0.8",
    ),
    Format(
        "start-up line", START, "Maximum concurrency for",
        re.compile(rf"Maximum concurrency for (?P<context>{_NUMBER}) tokens per request: (?P<concurrency>{_FLOAT})x"),
        (Field("context", CONTEXT), Field("concurrency", "kv_cache_max_concurrency")),
        "V0, V1", ">=0.6.3,<0.28",
    ),
    Format(
        "start-up line", START, " blocks: ",
        re.compile(rf"# (?!CPU blocks: {_COUNT}$)(?P<device>\w{{1,20}}) blocks: (?P<blocks>{_COUNT})"
                   rf"(?:, # CPU blocks: {_COUNT})?"),
        (Field("blocks", BLOCKS),),
        "V0, V1", ">=0.2.7,<0.11",
    ),
    Format(
        "start-up line of a CPU build", START, "# CPU blocks:",
        re.compile(rf"# CPU blocks: (?P<blocks>{_COUNT})\s*$"),
        (Field("blocks", BLOCKS),),
        "V0", ">=0.4.1,<0.7",
    ),
    Format(
        "start-up line", START, "after num_gpu_blocks is:",
        re.compile(r"(?:Engine (?P<engine>\d{1,6}): |\d{1,6} Engines: )?"
                   rf"vllm cache_config_info with initialization after num_gpu_blocks is: (?P<blocks>{_COUNT})"),
        (Field("blocks", BLOCKS),),
        "V1", ">=0.9",
    ),
    Format(
        "start-up line", START, "Available KV cache memory:",
        re.compile(rf"Available KV cache memory: (?P<memory>{_FLOAT}) GiB"),
        (Field("memory", MEMORY, _GIB),),
        "V1", ">=0.9.1",
    ),
    Format(
        "start of an engine", EVENT, "LLM engine (v",
        re.compile(r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[\w.+]{1,60})\)"
                   r"(?: with config: (?:.{0,60}?\b)?model=(?P<model>'[^']{1,300}'|\"[^\"]{1,300}\"))?"),
        (Field("", ENGINE_START),),
        "V0, V1", ">=0.2.7",
    ),
    Format(
        "V0 preemption warning", EVENT, "total_num_cumulative_preemption=",
        re.compile(r"(?:Sequence group .* is preempted .*)?"
                   rf"total_num_cumulative_preemption=(?P<preemptions>{_COUNT}){_REPEATED}"),
        (Field("preemptions", "preemptions"),),
        "V0", ">=0.4.3,<0.11", ("WARNING",),
    ),
    Format(
        "line of a finished request (Ray 2.44 to 2.48)", EVENT, "Queue time:",
        re.compile(rf"Request \S+ finished \(\w+\)\. Total time: {_SECONDS}s, Queue time: (?P<queue>{_SECONDS})s"
                   rf"(?:, [A-Za-z+/ ]{{1,40}}: {_SECONDS}s?){{0,8}}\.?{_REPEATED}"),
        (Field("queue", QUEUE_TIME),),
        "V0", "Ray >=2.44,<2.49",
    ),
)  # fmt: skip
"""All formats. The V0 warning is written at preemption 1, 51, 101 and so on: its number counts, not its lines."""

_LARGEST = float(2**53)
"""More than any number in a log line: beyond it not every whole number is one."""
_RANK = re.compile(r"\bEngineCore_(?:DP)?(\d{1,6})(?!\w)")


@dataclass(frozen=True, slots=True)
class Fact:
    """What one line says: the format, the engine's index ("" where not named), and the numbers in schema units.

    ``origin`` is the process or container that the line names, ``model`` the model that a starting engine names; ""
    where there is none.
    """

    format: Format
    engine: str
    values: tuple[tuple[str, float], ...]
    origin: str = ""
    model: str = ""

    def value(self, name: str) -> float | None:
        """Return one number, or None."""
        return dict(self.values).get(name)


def parse_line(text: str) -> Iterator[Fact]:
    """Yield what a line says; nothing for a line that carries no signal, and never an error, whatever the line is."""
    if not any(form.marker in text for form in FORMATS):
        return
    found = message(text)
    if found is not None:
        yield from parse_message(found.text, found.level, found.origin)


def parse_message(text: str, level: str = "", origin: str = "") -> Iterator[Fact]:
    """Yield what a logger's message says; ``level`` "" fits every format. Never an error."""
    for form in FORMATS:
        if form.marker not in text or (level and level not in form.levels):
            continue
        match = form.pattern.match(text)
        values = _values(form, match) if match is not None else None
        if match is not None and values and values.get("kv_cache_usage", 0.0) <= 1:
            named = match.groupdict()
            model = (named.get("model") or "").strip("'\"")
            yield Fact(form, _engine(named.get("engine"), origin), tuple(values.items()), origin, model)


def _values(form: Format, match: re.Match[str]) -> dict[str, float] | None:
    """Return the numbers of a line; None where one of them cannot be, since then the engine did not write it."""
    values: dict[str, float] = {}
    for field in form.fields:
        text = match.groupdict().get(field.group) if field.group else "1"
        if text is None:
            continue
        number = _number(text)
        if number is None:
            return None
        values[field.name] = values.get(field.name, 0.0) + float(f"{number * field.factor:.12g}")
    return values


def _number(text: str) -> float | None:
    """Read a number with or without thousands separators; None for what is none (such as "1.2.3") or is too large."""
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if abs(number) <= _LARGEST else None


def _engine(index: str | None, origin: str) -> str:
    """Return the engine's index: the line names it, or the process that wrote it."""
    rank = _RANK.search(origin)
    found = index or (rank[1] if rank is not None else "")
    return str(int(found)) if found else ""
