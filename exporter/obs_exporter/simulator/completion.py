"""One completion of the live server: from the engine's events to the client's bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from obs_exporter.simulator import generate, openai
from obs_exporter.simulator.clock import NS, to_ns
from obs_exporter.simulator.config import Layer
from obs_exporter.simulator.events import Ended, Request, Stepped
from obs_exporter.simulator.http import Answer, HttpError

GONE_CHECK_S = 0.25
"""How often a waiting request looks whether its client is still there."""


Voice = openai.Voice | generate.Voice
"""Who makes an answer's bytes: one for each API."""


class Tokens:
    """Waits for one request's tokens, in bursts where the layer sends them so."""

    def __init__(
        self,
        layer: Layer,
        sleep_until: Callable[[int], Awaitable[None]],
        events: asyncio.Queue[Stepped | Ended],
        reader: asyncio.StreamReader,
        submitted: int,
    ) -> None:
        self.layer = layer
        self._sleep_until = sleep_until
        self._events = events
        self._reader = reader
        self._submitted = submitted
        self._times: list[int] = []
        self._started_at = 0

    async def next(self) -> tuple[list[int], Ended | None]:
        """The times of the next tokens, and how the request ended if it did."""
        event = await self._wait()
        flush = to_ns(self.layer.flush_s)
        if flush and isinstance(event, Stepped):
            await self._sleep_until(self._submitted - (self._submitted - event.t) // flush * flush)
        times: list[int] = []
        while True:
            if isinstance(event, Ended):
                return times, event
            if not self._times:
                self._started_at = event.started_at
            self._times.append(event.t)
            times.append(event.t)
            if self._events.empty():
                return times, None
            event = self._events.get_nowait()

    async def _wait(self) -> Stepped | Ended:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GONE_CHECK_S):
                    return await self._events.get()
            if self._reader.at_eof():
                raise ConnectionError("the client hung up")

    def metrics(self, queued: int) -> dict[str, float]:
        """vLLM's per-request metrics in milliseconds; its time to first token counts from first scheduled."""
        first, last = self._times[0], self._times[-1]
        gaps = len(self._times) - 1
        milliseconds = NS / 1000
        return {
            "queue_time_ms": (self._started_at - queued) / milliseconds,
            "time_to_first_token_ms": (first - self._started_at) / milliseconds,
            "generation_time_ms": (last - first) / milliseconds,
            "mean_itl_ms": (last - first) / gaps / milliseconds if gaps else 0.0,
            "tokens_per_second": gaps / ((last - first) / NS) if last > first else 0.0,
        }


async def write_answer(
    answer: Answer,
    voice: Voice,
    request: Request,
    tokens: Tokens,
    metrics: Callable[[], dict[str, float]] | None,
) -> None:
    """Send the answer, token by token or whole.

    Raises HttpError or ConnectionError if the engine died under the request or was not there.
    """
    number = 0
    ended: Ended | None = None
    while ended is None:
        times, ended = await tokens.next()
        if ended is not None and ended.outcome != "ok":
            if answer.started or not tokens.layer.holds_when_down:
                raise ConnectionError(f"the request was {ended.outcome}")
            raise HttpError(500, "the engine died")
        if voice.ask.stream and times:
            opening = b"" if answer.started else voice.opening()
            if not answer.started:
                await answer.start_stream("text/event-stream; charset=utf-8")
            await answer.chunk(opening + _chunks(voice, request, number, len(times)))
        number += len(times)
    details = metrics() if metrics is not None else None
    if not voice.ask.stream:
        await answer.send(200, voice.whole(number, request.finish_reason, details))
        return
    if closing := voice.closing(number, details):
        await answer.chunk(closing)
    await answer.end_stream()


def _chunks(voice: Voice, request: Request, number: int, count: int) -> bytes:
    last = request.output_tokens - 1
    return b"".join(
        voice.chunk(one, request.finish_reason if one == last else None) for one in range(number, number + count)
    )
