"""An HTTP/1.1 response, read piece by piece: bytes in, body bytes out. Pure; no I/O.

Message framing is that of RFC 9112 section 6: chunked, Content-Length, or the body ends with the connection. Interim
1xx responses are passed over. What cannot be an HTTP response raises ``HTTPError``.
"""

from __future__ import annotations

from enum import Enum

MAX_HEAD_BYTES = 64 * 1024
"""A response head (status line and headers) longer than this is refused."""

_MAX_CHUNK_LINE = 4096
_NO_BODY = frozenset({204, 304})


class HTTPError(Exception):
    """The bytes are not an HTTP/1.1 response; the message says why."""


class _Phase(Enum):
    HEAD = 0
    CHUNK_LINE = 1
    CHUNK_DATA = 2
    CHUNK_END = 3
    TRAILER = 4
    LENGTH = 5
    UNTIL_CLOSE = 6
    DONE = 7


_CHUNK_LINE = _Phase.CHUNK_LINE


def _one_chunk(data: bytes) -> bytes:
    """Return the body when ``data`` is exactly one whole chunk, which is what a token mostly is; else b""."""
    cut = data.find(b"\r\n", 0, 16)
    size = data[:cut]
    if cut < 1 or not size.isalnum() or not data.endswith(b"\r\n"):
        return b""
    body = data[cut + 2 : -2]
    try:
        return body if len(body) == int(size, 16) else b""
    except ValueError:
        return b""


class ResponseParser:
    """One response.

    ``status`` is 0 and ``headers`` is empty until the head is complete; header names are in lower case. ``done`` is
    true when the body has ended by its own framing; ``leftover`` is true when bytes came after that end.
    """

    __slots__ = ("_buffer", "_left", "_phase", "done", "headers", "keep_alive", "leftover", "status")

    def __init__(self) -> None:
        self._buffer = b""
        self._phase = _Phase.HEAD
        self._left = 0
        self.status = 0
        self.headers: dict[str, str] = {}
        self.keep_alive = False
        self.done = False
        self.leftover = False

    def feed(self, data: bytes) -> bytes:
        """Return the body bytes that this piece carries. Raises HTTPError when it is no HTTP/1.1 response."""
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        if self._phase is _CHUNK_LINE and (body := _one_chunk(data)):
            return body
        if self._phase is _Phase.HEAD:
            at = self._read_head(data)
            if at < 0:
                return b""
        else:
            at = 0
        if self._phase is _Phase.UNTIL_CLOSE:
            return data[at:]
        if self._phase is _Phase.LENGTH:
            return self._read_length(data, at)
        if self._phase is _Phase.DONE:
            self.leftover = self.leftover or at < len(data)
            return b""
        return self._read_chunks(data, at)

    def end(self) -> bool:
        """Tell the parser that the connection has ended; return whether the response was whole by then."""
        if self._phase is _Phase.UNTIL_CLOSE:
            self._finish()
        return self.done

    def _finish(self) -> None:
        self._phase = _Phase.DONE
        self.done = True

    def _read_head(self, data: bytes) -> int:
        """Parse the head; return where the body starts, or -1 while the head is incomplete."""
        at = 0
        while True:
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                if len(data) - at > MAX_HEAD_BYTES:
                    raise HTTPError(f"the response head passes {MAX_HEAD_BYTES} bytes")
                if not b"HTTP/1.".startswith(data[at : at + 7]):
                    raise HTTPError(f"the answer does not begin with HTTP/1.x but with {data[at : at + 16]!r}")
                self._buffer = data[at:]
                return -1
            self._parse_head(data[at:end])
            at = end + 4
            if self.status >= 200:
                break
            self.status = 0
        self._choose_framing()
        return at

    def _parse_head(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdecimal() or len(parts[1]) != 3:
            raise HTTPError(f"not an HTTP/1.1 status line: {lines[0][:80]!r}")
        self.status = int(parts[1])
        self.headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise HTTPError(f"not an HTTP header: {line[:80]!r}")
            self.headers[name.strip().lower()] = value.strip()
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (parts[0] != "HTTP/1.0" or "keep-alive" in connection)

    def _choose_framing(self) -> None:
        if self.status in _NO_BODY:
            self._finish()
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._phase = _Phase.CHUNK_LINE
        elif "content-length" in self.headers:
            text = self.headers["content-length"]
            if not text.isdecimal():
                raise HTTPError(f"Content-Length is not a number: {text[:40]!r}")
            self._left = int(text)
            self._phase = _Phase.LENGTH
            if not self._left:
                self._finish()
        else:
            self._phase = _Phase.UNTIL_CLOSE
            self.keep_alive = False

    def _read_length(self, data: bytes, at: int) -> bytes:
        body = data[at : at + self._left]
        self._left -= len(body)
        if not self._left:
            self._finish()
            self.leftover = at + len(body) < len(data)
        return body

    def _read_chunks(self, data: bytes, at: int) -> bytes:
        out: list[bytes] = []
        size = len(data)
        while at < size:
            if self._phase is _Phase.CHUNK_DATA:
                piece = data[at : at + self._left]
                out.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._phase = _Phase.CHUNK_END
                continue
            if self._phase is _Phase.DONE:
                self.leftover = True
                break
            end = data.find(b"\n", at)
            if end < 0:
                if size - at > _MAX_CHUNK_LINE:
                    raise HTTPError("a chunk's size line has no end")
                self._buffer = data[at:]
                break
            self._chunk_line(data[at:end].rstrip(b"\r"))
            at = end + 1
        return out[0] if len(out) == 1 else b"".join(out)

    def _chunk_line(self, line: bytes) -> None:
        """Handle one line of the chunked framing: a size, the end of a chunk, or a trailer."""
        if self._phase is _Phase.CHUNK_LINE:
            text = line.partition(b";")[0].strip()
            try:
                if not text.isalnum():
                    raise ValueError
                self._left = int(text, 16)
            except ValueError:
                raise HTTPError(f"not a chunk size: {line[:40]!r}") from None
            self._phase = _Phase.CHUNK_DATA if self._left else _Phase.TRAILER
        elif self._phase is _Phase.CHUNK_END:
            if line:
                raise HTTPError(f"a chunk is longer than its size said: {line[:40]!r}")
            self._phase = _Phase.CHUNK_LINE
        elif not line:
            self._finish()
