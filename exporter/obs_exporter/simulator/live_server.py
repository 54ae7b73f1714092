"""The engine in real time behind an OpenAI-compatible server, whose /metrics shows one stack's face.

Everything runs in one asyncio loop. Simulated time is real time times ``time_scale``; steps end at their own simulated
moments, so a late loop delivers late but never shortens what the engine reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from obs_exporter.simulator import generate, openai
from obs_exporter.simulator.clock import NS, to_seconds
from obs_exporter.simulator.completion import Tokens, Voice, write_answer
from obs_exporter.simulator.config import Config
from obs_exporter.simulator.events import Ended, Request, Scheduled, Stepped
from obs_exporter.simulator.faces import FACES, PageUnavailableError
from obs_exporter.simulator.http import MAX_HEAD_BYTES, Answer, HttpError, HttpRequest, read_request
from obs_exporter.simulator.logs import request_uuid
from obs_exporter.simulator.reader import Reader
from obs_exporter.simulator.truth import Recorder, Truth
from obs_exporter.simulator.world import World

Result = TypeVar("Result")

TEXT = "text/plain; version=0.0.4; charset=utf-8"
SETTLE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How to serve. ``time_scale`` 2 lets the engine live two seconds in one.

    ``per_request_metrics`` adds vLLM's ``metrics`` object to answers (0.25 and later, with its switch on). With
    ``log_dir`` the stack's log files are written there. ``record_truth`` keeps every request for ``truth()``: memory
    grows with them.
    """

    face: str = "vllm"
    host: str = "127.0.0.1"
    port: int = 0
    seed: int = 0
    time_scale: float = 1.0
    per_request_metrics: bool = False
    log_dir: Path | None = None
    record_truth: bool = False


class LiveServer:
    """One server. ``start`` it in a running loop, then ``stop`` it. Its epoch is the moment when it is made."""

    def __init__(self, config: Config, options: LiveOptions) -> None:
        config = replace(config, epoch=time.time())
        self.config = config
        self.options = options
        self.url = ""
        self._world = World(config, options.seed)
        self._world.on_step = self._on_step
        self._world.on_end = self._on_end
        self._world.on_scheduled = self._on_scheduled
        self._queued: dict[int, int] = {}
        self._face = FACES[options.face](config, self._world.log)
        self._recorder: Reader[Recorder] | None = None
        if options.record_truth:
            self._recorder = Reader(self._world.log, lambda: Recorder(config.engine.usable_blocks))
        self._rng = random.Random(f"model {options.seed}")  # noqa: S311 - the same on each run, not a secret
        self._streams: dict[int, asyncio.Queue[Stepped | Ended]] = {}
        self._next_id = 0
        self._zero = 0.0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Open the port and let time run. Raises OSError if the port cannot be opened."""
        self._zero = time.monotonic()
        self._server = await asyncio.start_server(
            self._connected, self.options.host, self.options.port, limit=MAX_HEAD_BYTES
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        for loop in (self._drive(), self._settle()):
            self._keep(asyncio.create_task(loop))

    async def stop(self) -> None:
        """Close the port, end all connections and write the last log lines."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self._settle_once()

    def now(self) -> int:
        """The simulated time, in nanoseconds."""
        return int((time.monotonic() - self._zero) * self.options.time_scale * NS)

    def restart_engine(self, down_s: float = 5.0) -> None:
        """Let the engine's process die and come back ``down_s`` simulated seconds later."""
        self._world.restart(self._advance(), down_s)
        self._wake.set()

    @property
    def kept_events(self) -> int:
        """How many events are held in memory."""
        return self._world.log.kept

    def truth(self) -> Truth:
        """The truth so far. Raises RuntimeError without ``record_truth``."""
        if self._recorder is None:
            raise RuntimeError("the server was started without record_truth")
        now = self._advance()
        return self._recorder.at(now).at(now)

    async def _sleep_until(self, t: int) -> None:
        await asyncio.sleep(max(0.0, to_seconds(t - self.now()) / self.options.time_scale))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _advance(self) -> int:
        now = self.now()
        self._world.advance(now)
        return now

    async def _drive(self) -> None:
        while True:
            self._wake.clear()
            now = self._advance()
            due = self._world.next_time()
            timeout = None if due is None else max(0.0, to_seconds(due - now) / self.options.time_scale)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()

    async def _settle(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_EVERY_S)
            self._settle_once()

    def _settle_once(self) -> None:
        now = self._advance()
        if self._recorder is not None:
            self._recorder.at(now)
        lines = self._face.settle(now)
        if self.options.log_dir is None:
            return
        for line in lines:
            path = self.options.log_dir / line.file
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(line.text + "\n")

    def _on_step(self, stepped: Stepped) -> None:
        for request_id in stepped.tokens:
            if request_id in self._streams:
                self._streams[request_id].put_nowait(stepped)

    def _on_scheduled(self, scheduled: Scheduled) -> None:
        for request_id in scheduled.queued:
            if request_id in self._streams:
                self._queued[request_id] = scheduled.t

    def _on_end(self, ended: Ended) -> None:
        if ended.id in self._streams:
            self._streams[ended.id].put_nowait(ended)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._keep(task)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while await self._one_request(reader, writer):
                pass
        writer.close()

    async def _one_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection may carry another."""
        try:
            request = await read_request(reader)
        except HttpError as error:
            await Answer(writer, False).send(error.status, openai.error_body(error.status, error.message))
            return False
        if request is None:
            return False
        answer = Answer(writer, request.keep_alive)
        try:
            await self._route(request, answer, reader)
        except HttpError as error:
            if not answer.started:
                await answer.send(error.status, openai.error_body(error.status, error.message))
        except PageUnavailableError:
            writer.transport.abort()
            return False
        return answer.keep_alive

    async def _route(self, request: HttpRequest, answer: Answer, reader: asyncio.StreamReader) -> None:
        info, engine = self._face.INFO, self.config.engine
        created = int(self.config.epoch)
        match request.method, request.path:
            case "POST", "/v1/chat/completions" | "/v1/completions":
                await self._complete(request, answer, reader)
            case "GET", "/metrics":
                await answer.send(200, self._page(), TEXT)
            case "GET", "/v1/models":
                stack = f"{info.stack} {info.stack_version}"
                await answer.send(200, openai.models_body(engine.model, engine.max_model_len, created, stack))
            case "GET", "/version":
                await answer.send(200, json.dumps({"version": info.engine_version}).encode())
            case "GET", "/health":
                await answer.send(200 if self._world.up else 503, b"", "text/plain")
            case method, path if self._face.GENERATE and (found := generate.PATH.fullmatch(path)):
                await self._generate(request, answer, reader, method, *found.groups())
            case _, "/v1/chat/completions" | "/v1/completions" | "/metrics" | "/v1/models" | "/version" | "/health":
                raise HttpError(405, "Method Not Allowed")
            case _:
                raise HttpError(404, "Not Found")

    def _page(self) -> bytes:
        now = self._advance()
        for outage in self.config.outages:
            if outage.start <= to_seconds(now) < outage.end:
                raise PageUnavailableError("the page is out")
        return self._face.page(now)

    async def _complete(self, http: HttpRequest, answer: Answer, reader: asyncio.StreamReader) -> None:
        ask = openai.parse(http.body, http.path == "/v1/chat/completions", self.config.engine.model)
        request = self._request(ask)
        fingerprint = f"vllm-{self._face.INFO.engine_version}-simulated"
        prefix = "chatcmpl" if ask.chat else "cmpl"
        created = int(self.config.epoch + to_seconds(self.now()))
        name = f"{prefix}-{request_uuid(request.id)}"
        voice = openai.Voice(ask, name, self.config.engine.model, created, fingerprint)
        await self._answer(answer, reader, request, voice)

    async def _generate(
        self, http: HttpRequest, answer: Answer, reader: asyncio.StreamReader, method: str, model: str, what: str
    ) -> None:
        """Answer what is below /v2/models."""
        if unquote(model) != self.config.engine.model:
            raise HttpError(400, f"Request for unknown model: '{unquote(model)}' is not found")
        if what == "ready":
            await answer.send(200 if self._world.up else 400, b"", "text/plain")
            return
        if method != "POST":
            raise HttpError(405, "Method Not Allowed")
        ask = generate.parse(http.body, what == "generate_stream")
        await self._answer(answer, reader, self._request(ask), generate.Voice(ask, self.config.engine.model))

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, request: Request, voice: Voice) -> None:
        """Let the engine work on a request, and send what it makes."""
        events: asyncio.Queue[Stepped | Ended] = asyncio.Queue()
        self._streams[request.id] = events
        submitted = self._advance()
        self._world.submit(submitted, request)
        self._wake.set()
        try:
            tokens = Tokens(self.config.layer, self._sleep_until, events, reader, submitted)
            metrics = (lambda: tokens.metrics(self._queued[request.id])) if self.options.per_request_metrics else None
            await write_answer(answer, voice, request, tokens, metrics)
        finally:
            del self._streams[request.id]
            self._queued.pop(request.id, None)
            self._world.abort(self._advance(), request.id)
            self._wake.set()

    def _request(self, ask: openai.Ask) -> Request:
        """Decide how long the answer will be."""
        self._next_id += 1
        room = self.config.engine.max_model_len - ask.prompt_tokens
        if room < (ask.max_tokens or 1):
            raise HttpError(
                400,
                f"This model's maximum context length is {self.config.engine.max_model_len} tokens; the prompt has "
                f"{ask.prompt_tokens} and {ask.max_tokens or 1} output tokens are asked for.",
            )
        limit = ask.max_tokens or room
        drawn = limit if ask.ignore_eos else max(ask.min_tokens, self.config.output_tokens.draw(self._rng))
        cached = min(self.config.cached_prefix_tokens, ask.prompt_tokens)
        return Request(self._next_id, ask.prompt_tokens, min(limit, drawn), limit, cached)
