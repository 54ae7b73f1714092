"""When the kernel received what a socket brings, however late it is read (SO_TIMESTAMPNS, Linux).

TCP merges queued segments and keeps the last stamp, so a late read may report a later time than the first token's; the
caller counts those.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

_SO_TIMESTAMPNS = 35
"""Linux's number on x86-64, arm64 and riscv64 (include/uapi/asm-generic/socket.h); Python has no name for it."""
_CMSG_TYPES = frozenset({35, 64})  # SCM_TIMESTAMPNS with a 32 or 64 bit time, as 64 bit machines answer
_TIMESPEC = struct.Struct("@qq")
_MAX_LAG_NS = 60_000_000_000


class Piece:
    """Bytes read at once: ``at_ns`` is their arrival on the monotonic clock, ``lag_ns`` the time until the read."""

    __slots__ = ("at_ns", "data", "lag_ns")

    def __init__(self, data: bytes, at_ns: int, lag_ns: int) -> None:
        self.data = data
        self.at_ns = at_ns
        self.lag_ns = lag_ns


def ask_for_stamps(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what this socket receives; return whether it will."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def receive(sock: socket.socket, size: int, stamps: bool) -> Piece:
    """Read once, with the kernel's time where it gives one. Raises OSError as the socket does."""
    if stamps:
        data, ancillary, _, _ = sock.recvmsg(size, 64)
    else:
        data, ancillary = sock.recv(size), []
    # The wall clock first: whatever comes between the two clocks makes a time longer, never shorter than the truth.
    wall = time.time_ns()
    now = time.perf_counter_ns()
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind in _CMSG_TYPES and len(value) >= 16:
            seconds, nanoseconds = _TIMESPEC.unpack_from(value)
            lag = wall - (seconds * 1_000_000_000 + nanoseconds)
            if 0 <= lag < _MAX_LAG_NS:  # outside: the wall clock was set in between
                return Piece(data, now - lag, lag)
    return Piece(data, now, 0)
