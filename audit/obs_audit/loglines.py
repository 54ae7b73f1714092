"""The engine's log: where each stack keeps it, which lines can be expected there, and what was found in a given log.

Only the matched part of a line is kept: a log can hold prompts and keys. Formats were read in the source distributions
of vLLM 0.2.7 to 0.33.0 and seen in the logs of 0.29.0 and 0.32.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from obs_exporter.stacks.versions import matches

SETTINGS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "gpu_memory_utilization",
            "num_gpu_blocks_override", "tensor_parallel_size", "data_parallel_size", "enable_prefix_caching",
            "kv_cache_dtype", "disable_log_stats")  # fmt: skip
"""Settings that are read from the line of arguments; no other argument is kept (one of them is the API key)."""

_MARKERS = ("LLM engine (v", "max_seq_len=", "blocks: ", "KV cache", "Maximum concurrency", "Avg prompt",
            "is preempted", "V0 Engine", "AsyncLLM created", "Metrics not supported", "non-default args")  # fmt: skip
"""Text of which every known line has some: a log of gigabytes is searched for these first."""

_ARGUMENT = re.compile(r"'({})': ('[\w.-]*'|[\w.]+)".format("|".join(SETTINGS)))


@dataclass(frozen=True, slots=True)
class Line:
    """One line that the engine can write.

    ``generation`` is "" where both have it. ``stacks`` are those under which it appears ("" bounds nothing):
    pairs of stack and the specifier of its versions. ``load`` says that it needs traffic to appear.
    """

    id: str
    pattern: re.Pattern[str]
    tells: str
    generation: str = ""
    engine: str = ""
    stacks: tuple[tuple[str, str], ...] = ()
    load: bool = False
    expected: bool = True

    def expected_at(self, stack: str, release: str, engine: str, generation: str) -> bool:
        """Whether the line is to be expected of a stack and an engine of these versions."""
        if not self.expected or (self.generation and generation != self.generation):
            return False
        if self.engine and not (engine and matches(self.engine, engine)):
            return False
        bounds = dict(self.stacks)
        return not bounds or (stack in bounds and (not release or matches(bounds[stack], release)))


_V0_STACKS = (("vllm", ""), ("kserve", ""), ("triton", "<25.10"), ("ray-serve", "<2.48"))

LINES: tuple[Line, ...] = (
    Line("engine_start", re.compile(r"Initializing an? (?:V\d )?LLM engine \(v[\w.+-]+\)"),
         "the engine's version and generation"),
    Line("context_length", re.compile(r"\bmax_seq_len=\d+"), "the context length that took effect (max_model_len)"),
    Line("kv_blocks", re.compile(r"# \w+ blocks: \d+(?:, # CPU blocks: \d+)?"), "the size of the KV cache in blocks",
         generation="V0"),
    Line("kv_blocks_v1", re.compile(r"# GPU blocks: \d+(?!\d|, #)"), "the size of the KV cache in blocks",
         generation="V1", engine="<0.8"),
    Line("kv_size", re.compile(r"\w+ KV cache size: [\d,]+ tokens"), "the size of the KV cache in tokens",
         generation="V1", engine=">=0.8"),
    Line("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: [\d.]+x"),
         "how many requests of full length fit into the KV cache", generation="V0", engine=">=0.6.3"),
    Line("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: [\d.]+x"),
         "how many requests of full length fit into the KV cache", generation="V1", engine=">=0.8"),
    Line("periodic", re.compile(r"Avg prompt throughput: [\d.]+ tokens/s.*?KV cache usage: [\d.]+%"),
         "running, waiting and KV cache usage, every 5 s while busy", generation="V0", stacks=_V0_STACKS, load=True),
    Line("periodic", re.compile(r"Avg prompt throughput: [\d.]+ tokens/s.*?KV cache usage: [\d.]+%"),
         "running, waiting and KV cache usage, every 10 s while busy", generation="V1", stacks=(("vllm", ""),),
         load=True),
    Line("preemption", re.compile(r"is preempted by [\w.]+ mode.*?total_num_cumulative_preemption=\d+"),
         "the number of preemptions, once for every 50 (V0 only: V1 writes none)", generation="V0",
         engine=">=0.4.3", load=True, expected=False),
    Line("v0_fallback", re.compile(r"Engine in background thread is experimental[^.]*\. Falling back to V0 Engine"),
         "that the V0 engine runs in place of V1", stacks=(("triton", ">=25.04,<25.10"),), expected=False),
    Line("log_off", re.compile(r"AsyncLLM created with api_server_count more than 1; disabling stats logging"),
         "that several API servers run and the periodic line is off", expected=False),
    Line("metrics_unsupported", re.compile(r"\[vllm\] Metrics not supported"),
         "that Triton's own metrics are off, so that the backend cannot export any", stacks=(("triton", ""),),
         expected=False),
    Line("arguments", _ARGUMENT, "the arguments that differ from the defaults", expected=False),
)  # fmt: skip

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


def expected(stack: str, release: str, engine: str, generation: str) -> list[Line]:
    """Return the lines to expect, in the order of the table."""
    return [line for line in LINES if line.expected_at(stack, release, engine, generation)]


def excerpt(lines: Iterable[str]) -> str:
    """Keep what the table knows of a log: ``NUMBER: text``, the first and the last match of each kind of line."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for number, text in enumerate(lines, 1):
        if not any(marker in text for marker in _MARKERS):
            continue
        for kind, match in _matches(text):
            key = (kind, match.split(":")[0] if kind == "arguments" else "")
            kept = found.setdefault(key, [])
            if len(kept) == 2:
                kept.pop()
            kept.append((number, match))
    rows = sorted({row for kept in found.values() for row in kept})
    return "".join(f"{number}: {text}\n" for number, text in rows)


def _matches(text: str) -> Iterator[tuple[str, str]]:
    for line in LINES:
        for match in line.pattern.finditer(text):
            yield line.id, match.group()


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
        for kind, match in _matches(row):
            if row not in lines.setdefault(kind, []):
                lines[kind].append(row)
            if kind == "arguments":
                name, _, value = match.partition(": ")
                settings[name.strip("'")] = value.strip("'")
            elif kind == "context_length":
                settings["max_model_len"] = match.partition("=")[2]
    return Found(source, {kind: tuple(rows) for kind, rows in lines.items()}, settings)
