"""The client: one thread, one epoll, many requests in flight. It measures when bytes arrive, and reads them later.

What must be prompt (reading the socket, ending a request, freeing its slot) is done as events come in. What can wait
(events, JSON, the record) is done when nothing else is ready: a burst of tokens is then read in microseconds each.
"""

from __future__ import annotations

import select
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from obs_exporter.probe.backlog import Backlog
from obs_exporter.probe.dial import Dialer
from obs_exporter.probe.exchange import Exchange
from obs_exporter.probe.http1 import HTTPError
from obs_exporter.probe.idle import IdlePool
from obs_exporter.probe.outcome import Ending, Outcome
from obs_exporter.probe.request import Endpoint
from obs_exporter.probe.transport import Address, TLSOptions, Transport, TransportError

_CROSSING_NS = 10_000_000
"""A close that crossed with the request arrives within this and twice the time that the connection took to open."""
_BATCH = 32
"""Events handled in one go: a request that ends early in a burst is then not kept from being followed by the rest."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """``timeout_s`` limits a request from the start of its connection to the end of its body.

    ``http2`` needs the package h2: over TLS it is negotiated, over plain TCP it is spoken without asking.
    """

    timeout_s: float = 120.0
    tls: TLSOptions = field(default_factory=TLSOptions)
    proxy: Endpoint | None = None
    reuse: bool = True
    keep_text: bool = False
    http2: bool = False


class Client:
    """Sends requests to one endpoint.

    ``on_free`` is called as soon as a request has left its slot; ``on_finish`` later, once with each exchange, its
    answer read; ``on_lag`` with the read lag in nanoseconds of every piece. ``address`` is what ``resolve`` gave.
    Raises TransportError on an unknown host.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: ClientOptions,
        on_finish: Callable[[Exchange], None],
        on_free: Callable[[], None] = lambda: None,
        on_lag: Callable[[int], None] = lambda _: None,
        address: Address | None = None,
    ) -> None:
        self._options = options
        self._on_free, self._on_lag = on_free, on_lag
        self._backlog = Backlog(options.keep_text, on_finish, self._drop)
        self._dialer = Dialer(endpoint, options.tls, options.proxy, options.http2, address)
        self._poll = select.epoll()
        # One offset for all: a wall clock that is set during a level must not stretch it.
        self._wall_s = time.time() - time.perf_counter_ns() / 1e9
        self._active: dict[int, Exchange] = {}
        self._idle = IdlePool(self._poll)
        self._deadlines: OrderedDict[Exchange, None] = OrderedDict()  # one timeout for all: in the order of their ends
        self._timeout_ns = int(options.timeout_s * 1e9)

    @property
    def in_flight(self) -> int:
        """Requests begun and not yet ended."""
        return len(self._active)

    @property
    def busy(self) -> bool:
        """Whether anything is in flight or waits to be read."""
        return bool(self._active or self._backlog)

    def start(self, payload: bytes, tag: object) -> None:
        """Begin one request. A failure to connect ends it like any other."""
        exchange = Exchange(payload, tag, time.perf_counter_ns(), self._timeout_ns)
        self._deadlines[exchange] = None
        transport = self._idle.take()
        if transport is None:
            self._connect(exchange)
            return
        exchange.transport = transport
        exchange.may_redo = True
        self._active[transport.fd] = exchange
        self._send(exchange, transport)

    def _connect(self, exchange: Exchange) -> None:
        """Open a new connection for a request."""
        try:
            transport = self._dialer.dial()
        except OSError as error:  # no file descriptor left
            self._end_unsent(exchange, f"this client: {error.strerror or error}")
            return
        if transport.refused:
            transport.close()
            self._end_unsent(exchange, transport.refused)
            return
        exchange.transport = transport
        self._active[transport.fd] = exchange
        self._poll.register(transport.fd, select.EPOLLOUT | select.EPOLLIN)

    def poll(self, timeout_s: float) -> None:
        """Handle what is ready; when nothing is, read one answer's waiting pieces, else wait up to ``timeout_s``."""
        if self._backlog:
            if not self.attend():
                self._backlog.read_one()
                return
        else:
            self._take(self._wait(timeout_s))
        self._backlog.read_excess()
        if self._deadlines:
            self._expire()

    def attend(self) -> bool:
        """Handle what is ready now, without waiting and without reading answers; return whether there was any.

        For the moments in which many requests start: each start is then followed by what the others brought meanwhile.
        """
        events = self._poll.poll(0, _BATCH)
        self._take(events)
        return bool(events)

    def _take(self, events: list[tuple[int, int]]) -> None:
        for fd, mask in events:
            exchange = self._active.get(fd)
            if exchange is not None:
                self._handle(exchange, mask)
            elif fd in self._idle:
                self._idle.drop(fd)  # closed by the server, or bytes nobody asked for

    def _wait(self, timeout_s: float) -> list[tuple[int, int]]:
        """Wait for events; timeouts below 20 ms go through select, whose clock is finer than epoll's milliseconds."""
        timeout_s = max(0.0, min(timeout_s, self._until_deadline()))
        if 0 < timeout_s < 0.02:
            select.select([self._poll], [], [], timeout_s)
            timeout_s = 0
        return self._poll.poll(timeout_s, _BATCH)

    def _until_deadline(self) -> float:
        if not self._deadlines:
            return 3600.0
        return (next(iter(self._deadlines)).deadline_ns - time.perf_counter_ns()) / 1e9

    def cancel(self) -> None:
        """End every request in flight as cancelled, and read what has come."""
        for exchange in list(self._active.values()):
            self._end(exchange, Ending(exchange.http.status, False, Outcome.CANCELLED, "stopped by the probe"))
        self._backlog.read_all()

    def close(self) -> None:
        """Close every connection."""
        for exchange in self._active.values():
            if exchange.transport is not None:
                exchange.transport.close()
        self._active.clear()
        self._idle.clear()
        self._poll.close()

    def _handle(self, exchange: Exchange, mask: int) -> None:
        transport = exchange.transport
        if transport is None:
            return
        try:
            if exchange.sent_ns is None:
                self._open(exchange, transport)
                return
            if transport.wants_write and mask & select.EPOLLOUT:
                transport.flush()
                if not transport.wants_write:
                    self._poll.modify(transport.fd, select.EPOLLIN)
            if mask & ~select.EPOLLOUT:
                self._read(exchange, transport)
        except TransportError as error:
            self._fail(exchange, str(error))

    def _open(self, exchange: Exchange, transport: Transport) -> None:
        transport.advance()
        if transport.ready:
            exchange.connected_ns = time.perf_counter_ns()
            transport.opening_ns = exchange.connected_ns - exchange.begun_ns
            self._send(exchange, transport)
        if exchange.ending is None:
            self._poll.modify(transport.fd, select.EPOLLIN | (select.EPOLLOUT if transport.wants_write else 0))

    def _send(self, exchange: Exchange, transport: Transport) -> None:
        # Read before the call: the server may see the bytes before the call returns, and a time may never be too short.
        exchange.sent_ns = time.perf_counter_ns()
        exchange.started_at = self._wall_s + exchange.sent_ns / 1e9
        try:
            transport.send(exchange.payload)
            if transport.wants_write:
                self._poll.modify(transport.fd, select.EPOLLIN | select.EPOLLOUT)
        except TransportError as error:
            self._fail(exchange, str(error))

    def _read(self, exchange: Exchange, transport: Transport) -> None:
        piece = transport.read()
        if transport.wants_write:  # HTTP/2 answers frames while it reads
            self._poll.modify(transport.fd, select.EPOLLIN | select.EPOLLOUT)
        if piece is None:
            return
        self._on_lag(piece.lag_ns)
        exchange.lag_ns = max(exchange.lag_ns, piece.lag_ns)
        exchange.end_ns = piece.at_ns
        http = exchange.http
        if not piece.data:
            self._closed(exchange)
            return
        exchange.may_redo = False
        try:
            body = http.feed(piece.data)
        except HTTPError as error:
            self._end(exchange, Ending(http.status, False, Outcome.MALFORMED, str(error)))
            return
        if body:
            exchange.pieces.append((piece.at_ns, body))
            exchange.held += len(body)
        if http.done:
            self._end(exchange, Ending(http.status, True))
        else:
            self._backlog.grew(exchange)

    def _closed(self, exchange: Exchange) -> None:
        http = exchange.http
        if http.end():
            self._end(exchange, Ending(http.status, True))
        else:
            self._fail(exchange, "the server closed the connection")

    def _fail(self, exchange: Exchange, detail: str) -> None:
        """End a request whose connection failed: before any answer a connect failure, else a truncated answer.

        A connection that was used before may have been closed by the server just as the request left, which says
        nothing of how the server answers: such a request is sent once more, on a new connection, and marked. What comes
        later than such a crossing takes is a server that had the request and dropped it.
        """
        if exchange.may_redo and _crossed(exchange):
            self._redo(exchange)
        elif exchange.http.status == 0:
            self._end(exchange, Ending(0, False, Outcome.CONNECT, f"{detail}, before any answer"))
        else:
            self._end(exchange, Ending(exchange.http.status, False, None, detail))

    def _redo(self, exchange: Exchange) -> None:
        if exchange.transport is not None:
            self._release(exchange.transport, keep=False)
        exchange.start_again(time.perf_counter_ns())
        self._connect(exchange)

    def _release(self, transport: Transport, keep: bool) -> None:
        """Take a connection from its request: keep it for another one, or close it."""
        del self._active[transport.fd]
        if keep:
            self._idle.put(transport)
        else:
            self._poll.unregister(transport.fd)
            transport.close()

    def _end_unsent(self, exchange: Exchange, detail: str) -> None:
        exchange.ending = Ending(0, False, Outcome.CONNECT, detail)
        self._deadlines.pop(exchange, None)
        exchange.end_ns = time.perf_counter_ns()
        self._backlog.add(exchange)
        self._on_free()

    def _end(self, exchange: Exchange, ending: Ending) -> None:
        transport = exchange.transport
        exchange.ending = ending
        self._deadlines.pop(exchange, None)
        exchange.end_ns = exchange.end_ns or time.perf_counter_ns()
        if transport is not None:
            http = exchange.http
            clean = ending.whole and http.keep_alive and not http.leftover and not transport.wants_write
            self._release(transport, keep=self._options.reuse and clean)
            exchange.transport = None
        self._on_free()
        if exchange.http.status >= 400:  # at once: a target that refuses everything is to be told before it is loaded
            self._backlog.read(exchange)
        else:
            self._backlog.add(exchange)

    def _expire(self) -> None:
        now = time.perf_counter_ns()
        while self._deadlines and (exchange := next(iter(self._deadlines))).deadline_ns <= now:
            exchange.end_ns = now
            detail = f"not finished within {self._options.timeout_s:g} s"
            self._end(exchange, Ending(exchange.http.status, False, Outcome.TIMEOUT, detail))

    def _drop(self, exchange: Exchange) -> None:
        """Give up an answer without an end: the connection is of no more use, and its end may never come."""
        self._end(exchange, Ending(exchange.http.status, False))


def _crossed(exchange: Exchange) -> bool:
    """Whether a connection closed so soon after the request left that the two crossed on the way."""
    opening = exchange.transport.opening_ns if exchange.transport is not None else 0
    return time.perf_counter_ns() - (exchange.sent_ns or 0) <= _CROSSING_NS + 2 * opening
