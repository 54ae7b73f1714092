"""The engine's log: where each stack keeps it, what can be expected there, and what was found in a given log.

The formats of lines are those of ``obs_exporter.stacks.log_lines``; here stands what they tell a reader, and where.
Only the matched part of a line is kept: a log can hold prompts and keys. As there, a line counts only from the
beginning of its logger's message on, so that what a user asked is never taken for what the engine said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from obs_exporter.stacks.log_heads import message
from obs_exporter.stacks.log_lines import BLOCKS, ENGINE_START, FORMATS, Format
from obs_exporter.stacks.stamps import stamp
from obs_exporter.stacks.versions import matches

SETTINGS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "gpu_memory_utilization",
            "num_gpu_blocks_override", "tensor_parallel_size", "data_parallel_size", "enable_prefix_caching",
            "kv_cache_dtype", "disable_log_stats")  # fmt: skip
"""Settings that are read from the line of arguments; no other argument is kept (one of them is the API key)."""


@dataclass(frozen=True, slots=True)
class Telling:
    """Something that lines of the log tell.

    ``names`` are the fields of the formats that tell it. ``stacks`` are those under which the engine writes it, with
    the specifier of their versions and the engine's generation ("" bounds nothing); none means all. ``load``: it needs
    traffic to appear.
    """

    id: str
    text: str
    names: frozenset[str]
    stacks: tuple[tuple[str, str, str], ...] = ()
    load: bool = False

    def expected_at(self, stack: str, release: str, engine: str, generation: str) -> bool:
        """Whether a line that tells it is to be expected of a stack and an engine of these versions."""
        written = any(
            generation in form.generation and bool(engine) and matches(form.versions, engine) for form in self.formats
        )
        here = not self.stacks or any(
            stack == name and generation == wanted and (not release or matches(specifier, release))
            for name, specifier, wanted in self.stacks
        )
        return written and here

    @property
    def formats(self) -> list[Format]:
        """The formats of vLLM's own lines that tell it."""
        return [
            form
            for form in FORMATS
            if form.generation and "Ray" not in form.versions and self.names & {field.name for field in form.fields}
        ]


EXPECTED: tuple[Telling, ...] = (
    Telling("engine_start", "the engine's version and generation", frozenset({ENGINE_START})),
    Telling("kv_capacity", "the size of the KV cache", frozenset({"kv_cache_capacity", BLOCKS})),
    Telling("max_concurrency", "how many requests of full length fit into it", frozenset({"kv_cache_max_concurrency"})),
    Telling("periodic", "running, waiting and KV cache usage, every few seconds while busy",
            frozenset({"requests_running"}),
            (("vllm", "", "V0"), ("vllm", "", "V1"), ("kserve", "", "V0"), ("triton", "<25.10", "V0"),
             ("ray-serve", "<2.48", "V0")), load=True),
)  # fmt: skip
"""What to look for in a log. The V1 engine writes its periodic line only where somebody asks for it: vLLM's own server
does, Triton and Ray Serve never do; KServe was not read for it."""

PREEMPTION = Telling("preemption", "the number of preemptions, once for every 50", frozenset({"preemptions"}))
"""Not to be expected: V0 writes it when it has to preempt, V1 never does."""

_SIGNALS = tuple((telling.id, form) for telling in (*EXPECTED, PREEMPTION) for form in telling.formats)

PASSED_OVER = "(the middle of a large file is passed over; line numbers from here on count only what was read)"

FURTHER: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("context_length", "Initializing a", re.compile(r"\bmax_seq_len=\d{1,12}")),
    ("v0_fallback", "Engine in background thread",
     re.compile(r"Engine in background thread is experimental[^.]*\. Falling back to V0 Engine")),
    ("log_off", "AsyncLLM created",
     re.compile(r"AsyncLLM created with api_server_count more than 1; disabling stats logging")),
    ("arguments", "non-default args", re.compile(r"'({})': ('[\w.-]*'|[\w.]+)".format("|".join(SETTINGS)))),
)  # fmt: skip
"""Messages that carry no signal and say what is wrong, or what took effect: id, how the message begins, and the pattern
of what is kept of it."""

_WITHOUT_HEAD: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("metrics_unsupported", re.compile(r"(?:[^\"']{1,120}\"?)?(?P<kept>\[vllm\] Metrics not supported)")),
    ("passed_over", re.compile(rf"(?P<kept>{re.escape(PASSED_OVER)})$")),
)
"""Lines of other programs, from the beginning of the line: Triton's, and our own."""

PLACES: tuple[tuple[str, str, str], ...] = (
    ("vllm", "", "the server's standard output"),
    ("kserve", "", "the standard output of the pod's kserve-container (LLMInferenceService: container main)"),
    ("triton", "<25.10", "tritonserver's standard output: start-up lines, and the periodic line of the V0 engine"),
    ("triton", "", "tritonserver's standard output: start-up lines only, since the V1 engine writes no periodic line"),
    ("ray-serve", "<2.47", "worker-*.out and .err of the actor _EngineBackgroundProcess under "
     "/tmp/ray/session_latest/logs, not the replica's log"),
    ("ray-serve", "", "the replica's worker-*.out under /tmp/ray/session_latest/logs: start-up lines only, since Serve "
     "LLM never asks the V1 engine for its periodic line"),
)  # fmt: skip
"""Stack, its versions, and where the log is; the first that holds answers."""


def place(stack: str, release: str) -> str:
    """Say where a stack of a release keeps the engine's log; of an unknown release, where the newest does."""
    places = [(specifier, text) for name, specifier, text in PLACES if name == stack]
    fitting = (text for specifier, text in places if not specifier or (release and matches(specifier, release)))
    return next(fitting, "")


def expected(stack: str, release: str, engine: str, generation: str) -> list[Telling]:
    """Return what a log of these versions should tell, in the order of the table."""
    return [telling for telling in EXPECTED if telling.expected_at(stack, release, engine, generation)]


def excerpt(lines: Iterable[str]) -> str:
    """Keep what the tables know of a log: the first and the last match of each kind of line, as ``NUMBER: TIME text``.

    The time is the line's own, or that of the last line before it that has one. The log's last time stands in a row of
    its own: the file's time is that of its last line, and by both the age of every other line is reckoned.
    """
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    time, newest = "", (0, "")
    for number, text in enumerate(lines, 1):
        stamped = stamp(text)
        if stamped is not None:
            time = f"{stamped} "
            newest = (number, f"{time}(the last line)")
        for kind, match in _matches(text):
            key = (kind, match.split(":")[0] if kind == "arguments" else "")
            kept = found.setdefault(key, [])
            if len(kept) == 2:
                kept.pop()
            kept.append((number, time + match))
    rows = {row for kept in found.values() for row in kept} | ({newest} if newest[0] else set())
    return "".join(f"{number}: {text}\n" for number, text in sorted(rows))


def _matches(line: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, matched part) of a log's line."""
    yield from _bare(line)
    found = message(line)
    if found is None:
        return
    for kind, form in _SIGNALS:
        match = form.pattern.match(found.text) if form.marker in found.text and found.level in form.levels else None
        if match is not None:
            yield kind, match.group()
    for kind, opening, pattern in FURTHER:
        if found.text.startswith(opening):
            for match in pattern.finditer(found.text):
                yield kind, match.group()


def _bare(line: str) -> Iterator[tuple[str, str]]:
    for kind, pattern in _WITHOUT_HEAD:
        match = pattern.match(line)
        if match is not None:
            yield kind, match["kept"]


_NUMBERED = re.compile(r"\d+: (?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[+-]\d\d:\d\d)? )?")


def kept(row: str) -> str:
    """Return what an excerpt's row has of its line: all without the number and the time."""
    found = _NUMBERED.match(row)
    return row[found.end() :] if found is not None else row


def _excerpted(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of what an excerpt has of a line."""
    yield from _bare(text)
    for kind, pattern in (*((kind, form.pattern) for kind, form in _SIGNALS), *((one[0], one[2]) for one in FURTHER)):
        match = pattern.match(text)
        if match is not None:
            yield kind, match.group()


@dataclass(frozen=True, slots=True)
class Found:
    """What one log says: for each kind of line the numbered texts, and the settings that took effect."""

    source: str
    lines: dict[str, tuple[str, ...]]
    settings: dict[str, str]


def read(source: str, text: str) -> Found:
    """Read an excerpt."""
    lines: dict[str, list[str]] = {}
    settings: dict[str, str] = {}
    for row in text.splitlines():
        for kind, match in _excerpted(kept(row)):
            if row not in lines.setdefault(kind, []):
                lines[kind].append(row)
            if kind == "arguments":
                name, _, value = match.partition(": ")
                settings[name.strip("'")] = value.strip("'")
            elif kind == "context_length":
                settings["max_model_len"] = match.partition("=")[2]
    return Found(source, {kind: tuple(rows) for kind, rows in lines.items()}, settings)
