"""HTTP/2 for one connection, by the library h2: frames on the wire, HTTP/1.1 bytes towards the rest of the probe.

A slot's connection carries one request at a time, so times need no untangling of streams; what a server does when many
streams share one connection is not measured. Pure; no I/O. Framing: RFC 9113.
"""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from obs_exporter.probe.http1 import HTTPError, ResponseParser

_WINDOW = 16 * 1024 * 1024
"""Bytes that may come before we must speak again: answers are small, and a full window would look a slow server."""
_HOP_HEADERS = frozenset({"connection", "host", "transfer-encoding", "keep-alive"})
_OWN_LENGTH = "content-length"

Headers = list[tuple[str, str]]


class HTTP2Error(Exception):
    """The peer broke the protocol or gave the request up; the message says how."""


class _Layer:
    """What both ends share: the connection, and bodies that wait for room in the peer's window."""

    def __init__(self, client_side: bool) -> None:
        config = h2.config.H2Configuration(client_side=client_side, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        self._h2.initiate_connection()
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW})
        self._h2.increment_flow_control_window(_WINDOW - 65535)
        self._stream = 0
        self._waiting = b""
        self._closing = False

    def _events(self, data: bytes) -> list[Any]:
        try:
            return list(self._h2.receive_data(data))
        except h2.exceptions.ProtocolError as error:
            raise HTTP2Error(f"not HTTP/2: {error}") from None

    def _acknowledge(self, event: Any) -> None:
        if event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _pump(self) -> None:
        """Send as much of the waiting body as the peer's window takes, and end the stream with the last of it."""
        while self._waiting:
            room = min(self._h2.local_flow_control_window(self._stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                return
            part, self._waiting = self._waiting[:room], self._waiting[room:]
            self._h2.send_data(self._stream, part, end_stream=self._closing and not self._waiting)

    def outgoing(self) -> bytes:
        """Return the bytes to hand to the kernel."""
        return self._h2.data_to_send() or b""


class ClientLayer(_Layer):
    """The probe's end."""

    def __init__(self, scheme: str) -> None:
        super().__init__(client_side=True)
        self._scheme = scheme
        self._goaway = self._heard = False

    def request(self, payload: bytes) -> bytes:
        """Return the frames of one HTTP/1.1 request. Raises HTTP2Error when the connection takes no more."""
        head, _, body = payload.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        method, path, _ = first.split(" ", 2)
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        authority = next((value for name, value in fields if name == "host"), "")
        pseudo = [(":method", method), (":scheme", self._scheme), (":authority", authority), (":path", path)]
        try:
            self._stream = self._h2.get_next_available_stream_id()
            plain = [(name, value) for name, value in fields if name not in _HOP_HEADERS]
            self._h2.send_headers(self._stream, pseudo + plain, end_stream=not body)
        except h2.exceptions.H2Error as error:
            raise HTTP2Error(f"the connection takes no request: {error}") from None
        self._waiting, self._closing = body, True
        self._pump()
        return self.outgoing()

    def receive(self, data: bytes) -> bytes:
        """Return what the frames say as HTTP/1.1 bytes; ``outgoing`` then has what must be answered.

        Raises HTTP2Error.
        """
        if not self._heard and data.startswith(b"HTTP/1"):  # for h2 this is the start of a very long frame
            raise HTTP2Error("the server answers in HTTP/1: leave out --http2")
        self._heard = True
        said = []
        for event in self._events(data):
            if isinstance(event, h2.events.ConnectionTerminated):
                self._goaway = True
                if event.error_code:
                    raise HTTP2Error(f"the server ended the connection ({_name(event.error_code)})")
            elif getattr(event, "stream_id", 0) in (0, self._stream):
                said.append(self._said(event))
        self._pump()
        return b"".join(said)

    def _said(self, event: Any) -> bytes:
        """Return one event as HTTP/1.1 bytes."""
        if isinstance(event, h2.events.ResponseReceived):
            return self._head(_texts(event.headers))
        if isinstance(event, h2.events.DataReceived):
            self._acknowledge(event)
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        if isinstance(event, h2.events.StreamEnded):
            return b"0\r\n\r\n"
        if isinstance(event, h2.events.StreamReset):
            raise HTTP2Error(f"the server reset the stream ({_name(event.error_code)})")
        return b""

    def _head(self, headers: Headers) -> bytes:
        status = next((value for name, value in headers if name == ":status"), "")
        kept = [f"{name}: {value}" for name, value in headers if not name.startswith(":") and name not in _HOP_HEADERS]
        kept = [line for line in kept if not line.startswith(f"{_OWN_LENGTH}:")]
        if self._goaway:
            kept.append("connection: close")
        lines = (f"HTTP/1.1 {status} -", *kept, "transfer-encoding: chunked", "", "")
        return "\r\n".join(lines).encode("latin-1", "replace")


class ServerLayer(_Layer):
    """The truth server's end: requests as HTTP/1.1 bytes, and its HTTP/1.1 answers as frames."""

    def __init__(self) -> None:
        super().__init__(client_side=False)
        self._head: Headers = []
        self._body: list[bytes] = []
        self._answer = ResponseParser()
        self._told = False

    def take(self, data: bytes) -> bytes:
        """Return the whole requests among the frames as HTTP/1.1 bytes. Raises HTTP2Error."""
        requests = []
        for event in self._events(data):
            if isinstance(event, h2.events.RequestReceived):
                self._stream, self._head, self._body = event.stream_id, _texts(event.headers), []
                self._answer, self._told, self._waiting, self._closing = ResponseParser(), False, b"", False
            elif isinstance(event, h2.events.DataReceived):
                self._acknowledge(event)
                self._body.append(event.data)
            elif isinstance(event, h2.events.StreamEnded):
                requests.append(self._request())
        self._pump()
        return b"".join(requests)

    def _request(self) -> bytes:
        fields = dict(self._head)
        body = b"".join(self._body)
        lines = [f"{fields.get(':method', 'GET')} {fields.get(':path', '/')} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._head if name[0] != ":" and name != _OWN_LENGTH]
        lines += [f"{_OWN_LENGTH}: {len(body)}", "", ""]
        return "\r\n".join(lines).encode() + body

    def give(self, data: bytes) -> bytes:
        """Return the frames of a piece of an HTTP/1.1 answer; what is none resets the stream."""
        try:
            self._waiting += self._answer.feed(data)
        except HTTPError:
            self._h2.reset_stream(self._stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            return self.outgoing()
        answer = self._answer
        if answer.status and not self._told:
            headers = [(name, value) for name, value in answer.headers.items() if name not in _HOP_HEADERS]
            self._h2.send_headers(self._stream, [(":status", str(answer.status)), *headers])
            self._told = True
        self._closing = answer.done
        if answer.done and not self._waiting:
            self._h2.end_stream(self._stream)
        self._pump()
        return self.outgoing()


def _texts(headers: Any) -> Headers:
    return [(str(name), str(value)) for name, value in headers]


def _name(code: Any) -> str:
    """Return an error code's name, or its number where it has none."""
    return str(getattr(code, "name", code))
