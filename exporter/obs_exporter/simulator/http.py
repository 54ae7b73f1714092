"""Just enough HTTP/1.1 for the live server: requests with a known length, plain and streamed answers, keep-alive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 8 * 1024 * 1024
HEAD_TIMEOUT_S = 60.0
BODY_TIMEOUT_S = 30.0


class HttpError(Exception):
    """A request that cannot be served: the status to answer with and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One parsed request; header names are in lower case, the path is without its query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Read the next request; None when the client is gone or has been silent for too long.

    Raises HttpError for anything that is not HTTP/1.x as we understand it.
    """
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise HttpError(400, "the request's head is not complete") from None
        return None
    except asyncio.LimitOverrunError:
        raise HttpError(431, f"the request's head is longer than {MAX_HEAD_BYTES} bytes") from None
    except TimeoutError:
        return None
    method, target, version, headers = _parse_head(head)
    body = await _read_body(reader, headers)
    connection = headers.get("connection", "").lower()
    keep_alive = connection != "close" and (version == "HTTP/1.1" or connection == "keep-alive")
    return HttpRequest(method, target.split("?", 1)[0], headers, body, keep_alive)


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1") or not parts[0].isalpha():
        raise HttpError(400, "this is not an HTTP/1.1 request line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise HttpError(400, "a header line has no name and value")
        headers[name.lower()] = value.strip()
    return parts[0], parts[1], parts[2], headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise HttpError(411, "send the body with a Content-Length")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise HttpError(400, "Content-Length is not a number")
    length = int(text)
    if length > MAX_BODY_BYTES:
        raise HttpError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, TimeoutError):
        raise HttpError(400, "the body is shorter than its Content-Length") from None


class Answer:
    """Writes the answer to one request."""

    def __init__(self, writer: asyncio.StreamWriter, keep_alive: bool) -> None:
        self._writer = writer
        self.keep_alive = keep_alive
        self.started = False

    async def send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Send a whole answer."""
        self._head(status, {"Content-Type": content_type, "Content-Length": str(len(body))})
        self._writer.write(body)
        await self._writer.drain()

    async def start_stream(self, content_type: str) -> None:
        """Begin a chunked answer with status 200."""
        self._head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked", "Cache-Control": "no-cache"})
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        """Send a piece of a chunked answer."""
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def end_stream(self) -> None:
        """End a chunked answer."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.started = True
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Connection: keep-alive" if self.keep_alive else "Connection: close", "", ""]
        self._writer.write("\r\n".join(lines).encode())
