"""The log lines that carry signals, in the formats of the versions that print them.

Formats: vLLM 0.32.0 and 0.29.0 (V1) and 0.7.2 (V0), Ray 2.44.1's replica log; those of the released sources and of real
logs. Process ids and source line numbers are constants.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from obs_exporter.simulator.clock import NS, to_ns, to_seconds
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import Admitted, Arrived, CameUp, Event, Request, Scheduled, Stepped, WentDown

HIT_RATE_REQUESTS = 1000
"""vLLM V1 prints the prefix cache hit rate over about this many requests."""

V0_WARNING_EVERY = 50
"""vLLM V0 warns of preemptions number 1, 51, 101, ... only."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line (a text may hold more than one): when it was written, to which file."""

    t: float
    file: str
    text: str


def request_uuid(request_id: int) -> str:
    """A request's id as servers print it."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"request {request_id}"))


class LogBook(ABC):
    """Folds events into lines. A subclass says what is printed at the start, at each interval, and in between."""

    INTERVAL_S = 10.0

    def __init__(self, config: Config, file: str, periodic: bool = True) -> None:
        self.config = config
        self.file = file
        self.lines: list[LogLine] = []
        self._periodic = periodic
        self._next_tick: int | None = None
        self._interval = to_ns(self.INTERVAL_S)
        self._tokens = [0, 0]
        self._last_rates = (0.0, 0.0)
        self._state = (0, 0, 0)
        self._prompts: dict[int, Request] = {}
        self._looked_up: deque[tuple[int, int]] = deque(maxlen=HIT_RATE_REQUESTS)

    def until(self, t: int) -> list[LogLine]:
        """The lines up to ``t`` nanoseconds; all events up to then have been folded."""
        self._tick(t)
        return self.lines

    def fold(self, event: Event) -> None:
        """Take in one event."""
        self._tick(event.t - 1)
        match event:
            case CameUp():
                self._tokens, self._last_rates, self._state = [0, 0], (0.0, 0.0), (0, 0, 0)
                self._next_tick = event.t + self._interval if self._periodic else None
                self._start(event.t)
            case WentDown():
                self._next_tick = None
            case Arrived():
                self._prompts[event.request.id] = event.request
            case Scheduled():
                for request_id, hit in zip(event.started, event.hits, strict=True):
                    self._looked_up.append((self._prompts.pop(request_id).prompt_tokens, hit))
                self._scheduled(event)
            case Stepped():
                self._tokens[0] += event.prompt_tokens
                self._tokens[1] += len(event.tokens)
                self._state = (event.running, event.waiting, event.used_blocks)
        self._other(event)

    def write(self, t: int, text: str, file: str = "") -> None:
        """Add a line."""
        self.lines.append(LogLine(to_seconds(t), file or self.file, text))

    def stamp(self, t: int) -> str:
        """``11-29 17:26:24``, in UTC."""
        return time.strftime("%m-%d %H:%M:%S", time.gmtime(self.config.epoch + to_seconds(t)))

    def _tick(self, until: int) -> None:
        while self._next_tick is not None and self._next_tick <= until:
            t = self._next_tick
            self._next_tick = t + self._interval
            rates = (self._tokens[0] / self.INTERVAL_S, self._tokens[1] / self.INTERVAL_S)
            # Two idle intervals in a row drop to debug level (V0 from 0.6.5, V1 from 0.8.5).
            if any((*rates, *self._last_rates)):
                self._stats(t, *rates)
            self._last_rates = rates
            self._tokens = [0, 0]

    def _usage_percent(self) -> float:
        return 100 * self._state[2] / self.config.engine.usable_blocks

    def _hit_rate_percent(self) -> float:
        asked = sum(prompt for prompt, _ in self._looked_up)
        return 100 * sum(hit for _, hit in self._looked_up) / asked if asked else 0.0

    @abstractmethod
    def _start(self, t: int) -> None: ...

    @abstractmethod
    def _stats(self, t: int, prompt_rate: float, generation_rate: float) -> None: ...

    def _scheduled(self, event: Scheduled) -> None:
        del event

    def _other(self, event: Event) -> None:
        del event


class V1Log(LogBook):
    """vLLM V1: capacity at the start, and every 10 s a line of the API server. Nothing about preemptions."""

    def _start(self, t: int) -> None:
        engine = self.config.engine
        concurrency = engine.num_blocks / -(-engine.max_model_len // engine.block_size)
        self.write(
            t,
            f"(EngineCore pid=732) INFO {self.stamp(t)} [kv_cache_utils.py:2327] "
            f"GPU KV cache size: {engine.num_blocks * engine.block_size:,} tokens, "
            f"Maximum concurrency for {engine.max_model_len:,} tokens per request: {concurrency:.2f}x",
        )

    def _stats(self, t: int, prompt_rate: float, generation_rate: float) -> None:
        running, waiting, _ = self._state
        self.write(
            t,
            f"(APIServer pid=521) INFO {self.stamp(t)} [loggers.py:335] Engine 000: "
            f"Avg prompt throughput: {prompt_rate:.1f} tokens/s, "
            f"Avg generation throughput: {generation_rate:.1f} tokens/s, "
            f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {self._usage_percent():.1f}%, "
            f"Prefix cache hit rate: {self._hit_rate_percent():.1f}%",
        )


class V0Log(LogBook):
    """vLLM V0: capacity at the start, a line every 5 s, and a warning at preemption 1, 51, 101, ..."""

    INTERVAL_S = 5.0

    def __init__(self, config: Config, file: str, periodic: bool = True) -> None:
        super().__init__(config, file, periodic)
        self._preemptions = 0

    def _start(self, t: int) -> None:
        engine = self.config.engine
        self._preemptions = 0
        stamp = self.stamp(t)
        concurrency = engine.usable_blocks * engine.block_size / engine.max_model_len
        self.write(t, f"INFO {stamp} executor_base.py:110] # CUDA blocks: {engine.usable_blocks}, # CPU blocks: 0")
        self.write(
            t,
            f"INFO {stamp} executor_base.py:115] Maximum concurrency for {engine.max_model_len} tokens per request: "
            f"{concurrency:.2f}x",
        )

    def _stats(self, t: int, prompt_rate: float, generation_rate: float) -> None:
        running, waiting, _ = self._state
        self.write(
            t,
            f"INFO {self.stamp(t)} metrics.py:455] Avg prompt throughput: {prompt_rate:.1f} tokens/s, "
            f"Avg generation throughput: {generation_rate:.1f} tokens/s, Running: {running} reqs, Swapped: 0 reqs, "
            f"Pending: {waiting} reqs, GPU KV cache usage: {self._usage_percent():.1f}%, CPU KV cache usage: 0.0%.",
        )

    def _scheduled(self, event: Scheduled) -> None:
        for request_id in event.preempted:
            if self._preemptions % V0_WARNING_EVERY == 0:
                self.write(
                    event.t,
                    f"WARNING {self.stamp(event.t)} scheduler.py:1559] Sequence group "
                    f"chatcmpl-{request_uuid(request_id)} is preempted by PreemptionMode.RECOMPUTE mode because there "
                    "is not enough KV cache space. This can affect the end-to-end performance. Increase "
                    "gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. "
                    f"total_num_cumulative_preemption={self._preemptions + 1}",
                )
            self._preemptions += 1


class Ray244Log(V0Log):
    """Ray Serve LLM 2.44 to 2.48: the V0 engine's lines in a worker's file, queue times in a replica's.

    The replica's line counts from the arrival at the engine to first scheduled.
    """

    def __init__(self, config: Config, worker_file: str, deployment: str, replica: str) -> None:
        super().__init__(config, worker_file)
        self._replica_file = f"serve/replica_default_{deployment}_{replica}.log"
        self._who = f"default_{deployment} {replica}"
        self._requests: dict[int, Request] = {}
        self._admitted: dict[int, int] = {}
        self._waited: dict[int, int] = {}

    def _other(self, event: Event) -> None:
        match event:
            case Arrived():
                self._requests[event.request.id] = event.request
            case Admitted():
                self._admitted[event.id] = event.t
                name = request_uuid(event.id)
                self._replica(event.t, name, f"Received streaming request {name}")
                self._replica(event.t, name, f"Request {name} started. Prompt: <|im_start|>user\nhi<|im_end|>\n")
            case Stepped():
                for request_id in event.finished:
                    self._finished(event.t, request_id)
            case WentDown():
                self._admitted.clear()
                self._waited.clear()

    def _scheduled(self, event: Scheduled) -> None:
        super()._scheduled(event)
        for request_id in event.started:
            self._waited[request_id] = event.t - self._admitted[request_id]

    def _finished(self, t: int, request_id: int) -> None:
        request = self._requests.pop(request_id)
        total = (t - self._admitted.pop(request_id)) / NS
        queue = self._waited.pop(request_id) / NS
        generation = total - queue
        made = request.output_tokens
        name = request_uuid(request_id)
        self._replica(
            t,
            name,
            f"Request {name} finished ({request.finish_reason}). Total time: {total}s, Queue time: {queue}s, "
            f"Generation+async time: {generation}s, Input tokens: {request.prompt_tokens}, Generated tokens: {made}, "
            f"tokens/s: {(request.prompt_tokens + made) / generation}, generated tokens/s: {made / generation}.",
        )

    def _replica(self, t: int, name: str, text: str) -> None:
        seconds = self.config.epoch + to_seconds(t)
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        head = f"INFO {stamp},{int(seconds % 1 * 1000):03d} {self._who} {name} -- "
        self.write(t, head + text, self._replica_file)
