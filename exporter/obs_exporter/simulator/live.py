"""The live simulator, to be started from a loop (``serve``) or from anywhere (``start_in_thread``)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from obs_exporter.simulator.config import Config
from obs_exporter.simulator.live_server import LiveOptions, LiveServer
from obs_exporter.simulator.truth import Truth

Result = TypeVar("Result")


async def serve(
    config: Config,
    options: LiveOptions,
    ready: Callable[[LiveServer], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until ``stop`` is set, or for ever; ``ready`` is told once the port is open."""
    server = LiveServer(config, options)
    await server.start()
    if ready is not None:
        ready(server)
    try:
        await (stop or asyncio.Event()).wait()
    finally:
        await server.stop()


class LiveThread:
    """A live server in a thread of its own: ``with LiveThread(config, options) as live: live.url``."""

    def __init__(self, config: Config, options: LiveOptions) -> None:
        self._config = config
        self._options = options
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: LiveServer | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="simulator", daemon=True)

    def start(self) -> str:
        """Start, wait until the port is open and return the base URL. Raises OSError if it cannot be opened."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self.url

    def stop(self) -> None:
        """Stop and wait for the end. Calling it twice does no harm."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        """The base URL of the running server."""
        return self._running().url

    @property
    def kept_events(self) -> int:
        """How many events the server holds in memory."""
        return self._running().kept_events

    def truth(self) -> Truth:
        """The truth so far, read in the server's own thread."""

        async def read() -> Truth:
            return self._running().truth()

        return self._call(read())

    def restart_engine(self, down_s: float = 5.0) -> None:
        """Let the engine die and come back."""

        async def restart() -> None:
            self._running().restart_engine(down_s)

        self._call(restart())

    def __enter__(self) -> LiveThread:
        """Start."""
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop."""
        self.stop()

    def _running(self) -> LiveServer:
        if self._server is None:
            raise RuntimeError("the server has not been started")
        return self._server

    def _call(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("the server has not been started")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await serve(self._config, self._options, self._on_ready, self._stop)

    def _on_ready(self, server: LiveServer) -> None:
        self._server = server
        self._ready.set()


def start_in_thread(config: Config, options: LiveOptions | None = None) -> LiveThread:
    """Start a server in a thread and return it once its port is open; end it with ``stop``.

    Raises OSError if the port cannot be opened.
    """
    live = LiveThread(config, options or LiveOptions())
    live.start()
    return live


__all__ = ["LiveOptions", "LiveServer", "LiveThread", "serve", "start_in_thread"]
