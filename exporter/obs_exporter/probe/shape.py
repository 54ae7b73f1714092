"""What a result file and a line of a requests file must look like: one table of fields, and the walk over it. Pure.

A field that is not in the table is let through: a newer version may write more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from obs_exporter.probe.outcome import Outcome

_SHOWN = 40
_OUTCOMES = frozenset(map(str, Outcome))


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: in words, for the message, and as a test."""

    words: str
    holds: Callable[[object], bool]


def _finite(value: object) -> bool:
    """Return whether it is a number that can be computed with; a bool is none."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _at_least(low: float, value: object) -> bool:
    return _finite(value) and isinstance(value, int | float) and value >= low


def _whole(low: int, value: object) -> bool:
    return isinstance(value, int) and _at_least(low, value)


def _above_zero(value: object) -> bool:
    return _at_least(0, value) and value != 0


def _share(value: object) -> bool:
    return _at_least(0, value) and isinstance(value, int | float) and value <= 1


def _shard(value: object) -> bool:
    left, slash, right = value.partition("/") if isinstance(value, str) else ("", "", "")
    digits = left.isdecimal() and right.isdecimal() and len(right) < 7
    return bool(slash) and digits and int(left) < int(right)


def _file_name(value: object) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value and "\0" not in value


def _outcome(value: object) -> bool:
    return isinstance(value, str) and value in _OUTCOMES


OBJECT = Kind("an object", lambda value: isinstance(value, dict))
LIST = Kind("a list", lambda value: isinstance(value, list))
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number of at least 0", lambda value: _at_least(0, value))
SIGNED = Kind("a finite number", _finite)
ABOVE_ZERO = Kind("a number above 0", _above_zero)
COUNT = Kind("a whole number of at least 0", lambda value: _whole(0, value))
SLOTS = Kind("a whole number above 0", lambda value: _whole(1, value))
WHOLE = Kind("a whole number", lambda value: type(value) is int and -(2**63) < value < 2**63)
SHARE = Kind("a number from 0 to 1", _share)
SHARD = Kind("a shard i/n", _shard)
FILE_NAME = Kind("the name of a file beside it", _file_name)
OUTCOME = Kind("an outcome", _outcome)


@dataclass(frozen=True, slots=True)
class Row:
    """One field. In ``path`` [] stands for the items of a list and {} for the values of an object with free keys.

    A field that is not ``needed`` may be missing, and null where nothing was measured or known.
    """

    path: str
    kind: Kind
    needed: bool = False


def _stats(path: str) -> tuple[Row, ...]:
    return (Row(f"{path}.n", COUNT), *(Row(f"{path}.{name}", NUMBER) for name in ("mean", "p50", "p90", "p95", "p99")))


_HEAD = (
    Row("target", OBJECT, needed=True),
    *(Row(f"target.{name}", TEXT) for name in (
        "name", "url", "model", "weights", "stack", "stack_version", "engine_version", "engine_version_source",
        "engine_generation", "engine_generation_source", "gpu",
    )),
    Row("target.settings{}", TEXT),
    Row("slo", OBJECT, needed=True), Row("slo.ttft_s", ABOVE_ZERO, needed=True),
    Row("slo.e2e_s", ABOVE_ZERO, needed=True), Row("slo.tpot_s", ABOVE_ZERO),
    Row("partial", FLAG), Row("partial_reason", TEXT), Row("notes[]", TEXT, needed=True),
    Row("requests_file", FILE_NAME), Row("run_id", TEXT), Row("shard", SHARD), Row("seed", WHOLE),
    Row("merged_from[]", SHARD), Row("started_at", NUMBER), Row("finished_at", NUMBER),
    Row("tool.name", TEXT), Row("tool.version", TEXT),
)  # fmt: skip

_LOAD = (
    Row("load.api", TEXT), Row("load.stream", FLAG), Row("load.max_tokens", COUNT), Row("load.ignore_eos", FLAG),
    Row("load.min_tokens", COUNT), Row("load.temperature", NUMBER), Row("load.unique_prefix", FLAG),
    Row("load.warmup", COUNT), Row("load.repeats", COUNT), Row("load.timeout_s", NUMBER),
    Row("load.http2", FLAG), Row("load.fresh_connections", FLAG),
    Row("load.proxied", FLAG), Row("load.usage", FLAG), Row("load.continuous_usage", FLAG), Row("load.restarts", FLAG),
    Row("load.levels[]", OBJECT, needed=True), Row("load.levels[].scenario", TEXT),
    Row("load.levels[].concurrency", SLOTS), Row("load.levels[].rate", ABOVE_ZERO),
    Row("load.levels[].requests", COUNT), Row("load.levels[].duration_s", NUMBER),
)  # fmt: skip

_CALIBRATION = (
    Row("calibration[]", OBJECT, needed=True),
    Row("calibration[].concurrency", SLOTS), Row("calibration[].rate", ABOVE_ZERO),
    Row("calibration[].requests", COUNT),
    Row("calibration[].ttft_error_p50_s", SIGNED), Row("calibration[].ttft_error_p99_s", SIGNED),
    Row("calibration[].rate_ratio", NUMBER), Row("calibration[].ambiguous", COUNT),
    Row("calibration[].lag_p99_s", NUMBER), Row("calibration[].cpu_s", NUMBER), Row("calibration[].failed", COUNT),
    Row("calibration[].limit_s", NUMBER), Row("calibration[].tls", FLAG), Row("calibration[].http2", FLAG),
    Row("calibration[].client_limited", FLAG), Row("calibration[].reason", TEXT),
)  # fmt: skip

LEVEL: tuple[Row, ...] = (
    Row("scenario", TEXT, needed=True), Row("concurrency", SLOTS), Row("rate", ABOVE_ZERO), Row("repeat", COUNT),
    Row("started_at", NUMBER), Row("requests", COUNT), Row("good", COUNT), Row("goodput", SHARE),
    Row("errors{}", COUNT, needed=True), Row("cancelled", COUNT), Row("duration_s", NUMBER),
    Row("output_tokens", COUNT), Row("output_tokens_per_s", NUMBER), Row("requests_per_s", NUMBER),
    Row("token_source{}", COUNT, needed=True),
    *_stats("ttft_s"), Row("ttft_s.curve[]", SIGNED, needed=True), *_stats("tpot_s"), *_stats("itl_s"),
    *_stats("e2e_s"), *_stats("engine_queue_wait_s"),
    Row("ambiguous_first_tokens", COUNT), Row("not_streamed", COUNT), Row("connections", COUNT), Row("redone", COUNT),
    Row("shape.waves", NUMBER), Row("shape.ceiling", NUMBER),
    Row("shape.steady.duration_s", NUMBER), Row("shape.steady.output_tokens_per_s", NUMBER),
    *_stats("schedule.late_s"), *_stats("schedule.own_late_s"), *_stats("schedule.ttft_from_schedule_s"),
    Row("schedule.ttft_from_schedule_s.curve[]", SIGNED, needed=True), *_stats("schedule.e2e_from_schedule_s"),
    Row("client_limited", FLAG),
    Row("client.calibrated", FLAG), Row("client.ttft_error_p50_s", SIGNED), Row("client.ttft_error_p99_s", SIGNED),
    Row("client.cpu_share", NUMBER), Row("client.limited", TEXT), Row("client.shards", COUNT),
    Row("client.shard_overlap", SHARE),
    Row("client.lag_s.count", COUNT), Row("client.lag_s.sum_s", NUMBER), Row("client.lag_s.by_edge_s{}", COUNT, True),
    # What a server's own page says may be any number.
    Row("server.samples", COUNT), Row("server.failed_samples", COUNT), Row("server.error", TEXT),
    Row("server.signals{}", OBJECT, needed=True), Row("server.signals{}.value", SIGNED),
    Row("server.signals{}.reason", TEXT), Row("server.signals{}.count", SIGNED), Row("server.signals{}.p95", SIGNED),
    Row("server.signals{}.samples", COUNT),
    Row("server.lost_s.value", SIGNED), Row("server.lost_s.reason", TEXT), Row("server.lost_s.warning", TEXT),
    Row("server.lost_s.client_mean_ttft_s", SIGNED), Row("server.lost_s.engine_mean_ttft_s", SIGNED),
    Row("server.prefix_cache_hit_ratio.value", SIGNED), Row("server.prefix_cache_hit_ratio.reason", TEXT),
)  # fmt: skip
"""One entry of ``levels``. A time in seconds may be negative only where a clock that was set may make it so."""

RESULT: tuple[Row, ...] = (
    Row("schema_version", SLOTS, needed=True), *_HEAD, *_LOAD, *_CALIBRATION,
    Row("levels", LIST, needed=True), Row("levels[]", OBJECT, needed=True),
    *(Row(f"levels[].{row.path}", row.kind, row.needed) for row in LEVEL),
)  # fmt: skip
"""A whole result file."""

RECORD: tuple[Row, ...] = (
    Row("scenario", TEXT, True), Row("concurrency", SLOTS), Row("rate", ABOVE_ZERO), Row("repeat", COUNT, True),
    Row("index", COUNT, True), Row("id", TEXT, True), Row("outcome", OUTCOME, True), Row("good", FLAG, True),
    Row("started_at", NUMBER, True), Row("detail", TEXT), Row("status", COUNT), Row("late_s", NUMBER),
    Row("own_late_s", NUMBER), Row("connect_s", NUMBER), Row("ttft_s", SIGNED), Row("last_s", SIGNED),
    Row("e2e_s", NUMBER), Row("tokens", COUNT), Row("token_source", TEXT), Row("first_tokens", COUNT),
    Row("events", COUNT),
    Row("streamed", FLAG), Row("ambiguous", FLAG), Row("finish_reason", TEXT), Row("lag_s", NUMBER),
    Row("queue_wait_s", NUMBER), Row("redone", FLAG), Row("gaps_us[]", WHOLE, True),
)  # fmt: skip
"""One line of a requests file."""


@dataclass(slots=True)
class Node:
    """The rows as a tree; a node that has parts is an object, one that has ``items`` a list."""

    kind: Kind | None = None
    needed: bool = False
    parts: dict[str, Node] = field(default_factory=dict)
    items: Node | None = None
    values: Node | None = None

    def all_hold(self, values: list[object]) -> bool:
        """Return whether all are fine and nothing is in them to look at: most lists are thousands of plain numbers."""
        if self.kind is None or self.parts or self.items or self.values:
            return False
        return all(map(self.kind.holds, values))


def tree(rows: Iterable[Row]) -> Node:
    """Return the rows as a tree."""
    root = Node(OBJECT, needed=True)
    for row in rows:
        at = root
        for step in row.path.replace("[]", ".[]").replace("{}", ".{}").split("."):
            at = _child(at, step)
        at.kind, at.needed = row.kind, row.needed
    return root


def _child(at: Node, step: str) -> Node:
    if step == "[]":
        at.kind, at.items = LIST, at.items or Node()
        return at.items
    at.kind = OBJECT
    if step == "{}":
        at.values = at.values or Node()
        return at.values
    return at.parts.setdefault(step, Node())


def problems(value: object, node: Node, path: str = "") -> Iterator[str]:
    """Yield what is not as the tree wants it: 'levels[3].ttft_s.p50 is "abc": expected a number of at least 0'."""
    if value is None and not node.needed:
        return
    if node.kind is not None and not node.kind.holds(value):
        yield f"{path or 'it'} is {_shown(value)}: expected {node.kind.words}"
    elif isinstance(value, dict):
        yield from _in_object(value, node, path)
    elif isinstance(value, list) and node.items is not None and not node.items.all_hold(value):
        for number, item in enumerate(value):
            yield from problems(item, node.items, f"{path}[{number}]")


def _in_object(value: dict[str, object], node: Node, path: str) -> Iterator[str]:
    dot = f"{path}." if path else ""
    for name, part in node.parts.items():
        if name in value:
            yield from problems(value[name], part, dot + name)
        elif part.needed:
            yield f"{dot}{name} is missing: expected {part.kind.words if part.kind else 'a value'}"
    if node.values is not None:
        for name, item in value.items():
            yield from problems(item, node.values, dot + (name if name.isprintable() else json.dumps(name)))


def _shown(value: object) -> str:
    """Return a value as JSON, cut when it is long."""
    text = "null" if value is None else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
