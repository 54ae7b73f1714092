"""Server-sent events, read piece by piece: bytes in, data payloads out. Pure; no I/O.

The grammar is that of the WHATWG HTML standard, section "Server-sent events": lines end in CR LF, LF or CR; one blank
after the colon is optional; lines that begin with a colon are comments; several ``data`` lines of one event are joined
with a line feed; an event that the stream does not finish with an empty line is discarded. Lines are cut at the bytes
CR and LF only, so U+2028 inside JSON and a character split over two pieces are both harmless. Of the event types only
``error`` means something here; such an event counts even without data.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""One event longer than this, in one line or many, is taken for an endless one, not for an answer."""

_BOM = b"\xef\xbb\xbf"


class SSEError(Exception):
    """The stream cannot be server-sent events; the message says why."""


class ErrorEvent(bytes):
    """The data of an event of the type ``error``."""

    __slots__ = ()


class SSEParser:
    """Cuts a byte stream into events. ``unfinished`` is true while a started event waits for its empty line."""

    __slots__ = ("_at_start", "_data", "_held", "_is_error", "_kept", "_skip_lf", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._held = 0
        self._data: list[bytes] = []
        self._kept = 0
        self._is_error = False
        self._skip_lf = False
        self._at_start = True

    @property
    def unfinished(self) -> bool:
        """Whether bytes of an event have come whose end has not."""
        return bool(self._data) or self._held > 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of every event that this piece completes, in order.

        Raises SSEError when one event passes MAX_EVENT_BYTES.
        """
        if piece[:6] == b"data: " and piece[-2:] == b"\n\n" and not self.unfinished:
            data = piece[6:-2]
            # One whole event, as nearly every piece is.
            if b"\n" not in data and b"\r" not in data and not self._is_error:
                self._at_start = self._skip_lf = False
                return [data]
        if self._skip_lf and piece:
            # A CR ended the last piece: an LF here belongs to that same line end.
            piece = piece.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in piece:
            self._skip_lf = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self._hold(piece)
            return []
        if self._held:
            piece = b"".join(self._tail) + piece
            self._tail.clear()
            self._held = 0
        if self._at_start:
            piece = piece.removeprefix(_BOM)
            self._at_start = False
        lines = piece.split(b"\n")
        self._hold(lines.pop())
        return self._events(lines)

    def _hold(self, piece: bytes) -> None:
        """Keep the start of a line whose end has not come yet."""
        if not piece:
            return
        self._tail.append(piece)
        self._held += len(piece)
        self._bound(self._held + self._kept)

    def _bound(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            self._tail.clear()
            self._data.clear()
            self._held = self._kept = 0
            raise SSEError(f"an event of the stream passes {MAX_EVENT_BYTES} bytes without an end")

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                if len(data) == 1 and not self._is_error:  # what nearly every event is
                    events.append(data.pop())
                elif data or self._is_error:
                    events.append(self._dispatch())
            elif line == b"data":
                data.append(b"")
            elif line.startswith(b"event:"):
                self._is_error = line[6:].removeprefix(b" ") == b"error"
            # Everything else is a comment or a field without meaning here (id, retry).
        if data:
            # Lines of an event that goes on; after an event that ended only those of the next one are left in data.
            fresh = data if events else lines
            self._kept = (0 if events else self._kept) + sum(map(len, fresh)) + len(fresh)
            self._bound(self._kept + self._held)
        elif self._kept:
            self._kept = 0
        return events

    def _dispatch(self) -> bytes:
        """Return the data of the event that an empty line ends, and begin the next."""
        whole = b"\n".join(self._data)
        if self._is_error:
            whole = ErrorEvent(whole)
            self._is_error = False
        self._data.clear()
        return whole
