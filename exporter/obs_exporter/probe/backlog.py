"""Answers that wait to be read: bytes have come, events and JSON can wait until nothing is more urgent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from obs_exporter.probe.answer import Answer
from obs_exporter.probe.exchange import Exchange

_MOST = 512
"""Answers that may wait while events keep coming; beyond that they are read first, so that memory is bounded."""
_DIGEST_PIECES = 16
_DIGEST_BYTES = 32 * 1024
"""So much of one answer is worth a reading before its end."""
_HELD_BYTES = 1024 * 1024
"""Bytes of one answer that may wait; a server that never pauses is read at once beyond that."""


class Backlog:
    """The answers that wait, in the order in which they began to.

    ``on_finish`` gets each exchange that has ended, its answer read; ``on_endless`` one that need not be read on.
    """

    def __init__(
        self, keep_text: bool, on_finish: Callable[[Exchange], None], on_endless: Callable[[Exchange], None]
    ) -> None:
        self._keep_text = keep_text
        self._on_finish, self._on_endless = on_finish, on_endless
        self._waiting: deque[Exchange] = deque()

    def __bool__(self) -> bool:
        """Whether any answer waits."""
        return bool(self._waiting)

    def add(self, exchange: Exchange) -> None:
        """Let an answer wait, once."""
        if not exchange.queued:
            exchange.queued = True
            self._waiting.append(exchange)

    def grew(self, exchange: Exchange) -> None:
        """Take note that more of an answer has come: much of it is worth a reading, very much is read now."""
        if len(exchange.pieces) < _DIGEST_PIECES and exchange.held <= _DIGEST_BYTES:
            return
        self.add(exchange)
        if exchange.held > _HELD_BYTES:
            self.read(exchange)

    def read(self, exchange: Exchange) -> None:
        """Read one answer now."""
        if exchange.queued:
            self._waiting.remove(exchange)
        self._read(exchange)

    def read_one(self) -> None:
        """Read the answer that has waited longest."""
        self._read(self._waiting.popleft())

    def read_excess(self) -> None:
        """Read until no more wait than may."""
        while len(self._waiting) > _MOST:
            self.read_one()

    def read_all(self) -> None:
        """Read all of them."""
        while self._waiting:
            self.read_one()

    def _read(self, exchange: Exchange) -> None:
        """Read the pieces of an answer that wait, and hand over an exchange that has ended."""
        exchange.queued = False
        if exchange.answer is None:
            headers = exchange.http.headers
            exchange.answer = Answer(
                headers.get("content-type", ""), self._keep_text, headers.get("content-encoding", "")
            )
        for at_ns, body in exchange.pieces:
            exchange.answer.feed(at_ns, body)
        exchange.pieces.clear()
        exchange.held = 0
        if exchange.ending is None and exchange.answer.endless:
            self._on_endless(exchange)
        elif exchange.ending is not None:
            exchange.answer.close(exchange.end_ns)
            self._on_finish(exchange)
