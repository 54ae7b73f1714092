"""The engine core: continuous batching over a fixed number of KV blocks, preemption by recompute, as vLLM V1 does.

Scheduling follows vLLM V1's scheduler as its behaviour is known from its metrics: running requests come first; one that
needs a block when none is free pushes out the request scheduled last, which gives all its blocks back and goes to the
head of the queue; nothing new is admitted in a step that preempted. A prompt is computed whole in one step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from obs_exporter.simulator.clock import to_ns
from obs_exporter.simulator.config import Engine
from obs_exporter.simulator.events import Event, Request, Scheduled, Stepped


class Sequence:
    """A request inside the engine core."""

    __slots__ = ("blocks", "known", "preempted", "produced", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.produced = 0
        self.blocks = 0
        self.known = 0
        """Tokens whose KV is in the cache."""
        self.preempted = False

    @property
    def tokens(self) -> int:
        """Prompt and output tokens so far."""
        return self.request.prompt_tokens + self.produced


class EngineCore:
    """One engine process. The owner calls ``add``, ``abort``, ``wake`` and ``finish_step``; events go to ``emit``."""

    def __init__(self, config: Engine, emit: Callable[[Event], None], rng: random.Random) -> None:
        self._config = config
        self._emit = emit
        self._rng = rng
        self._inbox: list[Sequence] = []
        self._to_abort: set[int] = set()
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._batch: list[tuple[Sequence, int]] = []
        self._free = config.usable_blocks
        self._began = 0
        self._prompt_tokens = 0
        self._warm_prefix = False
        self.step_ends: int | None = None

    @property
    def ids(self) -> list[int]:
        """Ids of all requests inside."""
        return [sequence.request.id for sequence in (*self._inbox, *self._waiting, *self._running)]

    def add(self, request: Request) -> None:
        """Hand over a request; the core looks at it at the next step."""
        self._inbox.append(Sequence(request))

    def abort(self, request_id: int) -> None:
        """Ask for a request to be dropped; the core does so at the next step."""
        self._to_abort.add(request_id)

    def wake(self, t: int) -> None:
        """Start a step if the core is idle and has something to do."""
        if self.step_ends is None and (self._inbox or self._to_abort or self._waiting or self._running):
            self._start_step(t)

    def finish_step(self) -> Stepped:
        """End the running step. The owner wakes the core for the next one."""
        t = self.step_ends
        if t is None:
            raise RuntimeError("no step is running")
        finished = []
        for sequence, computed in self._batch:
            sequence.known += computed
            sequence.produced += 1
            if sequence.produced >= sequence.request.output_tokens:
                finished.append(sequence.request.id)
                self._release(sequence)
                self._running.remove(sequence)
        tokens = tuple(sequence.request.id for sequence, _ in self._batch)
        self.step_ends = None
        stepped = Stepped(t, self._began, tokens, tuple(finished), self._prompt_tokens, *self._counts())
        self._emit(stepped)
        return stepped

    def _counts(self) -> tuple[int, int, int]:
        return len(self._waiting), len(self._running), self._config.usable_blocks - self._free

    def _start_step(self, t: int) -> None:
        queued = tuple(sequence.request.id for sequence in self._inbox)
        self._waiting.extend(self._inbox)
        self._inbox.clear()
        aborted = self._drop_aborted()
        self._batch = []
        preempted = self._schedule_running()
        started, hits, resumed = ([], [], []) if preempted else self._schedule_waiting()
        self._prompt_tokens = sum(s.request.prompt_tokens for s, _ in self._batch if s.produced == 0)
        if self._batch:
            self._began = t
            self.step_ends = t + self._duration()
        lists = (queued, tuple(started), tuple(hits), tuple(resumed), tuple(preempted), aborted)
        self._emit(Scheduled(t, *lists, *self._counts()))

    def _drop_aborted(self) -> tuple[int, ...]:
        if not self._to_abort:
            return ()
        gone = [s for s in (*self._waiting, *self._running) if s.request.id in self._to_abort]
        for sequence in gone:
            self._release(sequence)
        dropped = {s.request.id for s in gone}
        self._waiting = deque(s for s in self._waiting if s.request.id not in dropped)
        self._running = [s for s in self._running if s.request.id not in dropped]
        self._to_abort.clear()
        return tuple(s.request.id for s in gone)

    def _schedule_running(self) -> list[int]:
        preempted: list[int] = []
        position = 0
        while position < len(self._running):
            sequence = self._running[position]
            while not self._allocate(sequence):
                victim = self._running.pop()
                self._release(victim)
                victim.known, victim.preempted = 0, True
                self._waiting.appendleft(victim)
                preempted.append(victim.request.id)
                if victim is sequence:
                    break
            else:
                self._batch.append((sequence, sequence.tokens - sequence.known))
                position += 1
        return preempted

    def _schedule_waiting(self) -> tuple[list[int], list[int], list[int]]:
        started: list[int] = []
        hits: list[int] = []
        resumed: list[int] = []
        budget = self._config.max_num_batched_tokens - len(self._batch)
        while self._waiting and len(self._running) < self._config.max_num_seqs:
            sequence = self._waiting[0]
            if not sequence.preempted and self._warm_prefix:
                sequence.known = self._cached(sequence.request)
            work = sequence.tokens - sequence.known
            if work > budget and (started or resumed):
                break
            if not self._allocate(sequence):
                sequence.known = 0
                break
            budget -= work
            self._waiting.popleft()
            self._running.append(sequence)
            self._batch.append((sequence, work))
            if sequence.preempted:
                resumed.append(sequence.request.id)
            else:
                started.append(sequence.request.id)
                hits.append(sequence.known)
            self._warm_prefix = self._warm_prefix or sequence.request.cached_tokens > 0
        return started, hits, resumed

    def _cached(self, request: Request) -> int:
        """Prompt tokens found in the prefix cache: whole blocks, and never the last token of the prompt."""
        tokens = min(request.cached_tokens, request.prompt_tokens - 1)
        return tokens - tokens % self._config.block_size

    def _allocate(self, sequence: Sequence) -> bool:
        needed = -(-sequence.tokens // self._config.block_size) - sequence.blocks
        if needed > self._free:
            return False
        self._free -= needed
        sequence.blocks += needed
        return True

    def _release(self, sequence: Sequence) -> None:
        self._free += sequence.blocks
        sequence.blocks = 0

    def _duration(self) -> int:
        config = self._config
        prefill = sum(work for sequence, work in self._batch if sequence.known == 0 or work > 1)
        decoding = sum(1 for sequence, work in self._batch if sequence.known > 0 and work == 1)
        seconds = config.step_s + prefill * config.prefill_token_s + decoding * config.decode_seq_s
        if config.jitter:
            seconds *= 1 + config.jitter * (2 * self._rng.random() - 1)
        return max(1, to_ns(seconds))
