"""The truth server: one thread, one epoll, absolute times. Run as ``python -m obs_exporter.probe.truth.server``.

It prints its port on a line of its own, serves until its standard input closes, and keeps for every request what it
truly did: GET /truth returns it as JSON lines {"id", "behaviour", "ttft_s", "e2e_s", "tokens"}.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import re
import select
import socket
import ssl
import struct
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obs_exporter.probe.stamps import ask_for_stamps, receive
from obs_exporter.probe.truth.behaviours import BEHAVIOURS, FAULTS, Profile, Script
from obs_exporter.probe.truth.seal import Seal, server_context

if TYPE_CHECKING:
    from obs_exporter.probe.http2 import ServerLayer

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ID = re.compile(rb"\r\nx-request-id: *([^\r]*)", re.IGNORECASE)
_MODEL = re.compile(rb'"model": *"([^"]*)"')
_HTTP2 = b"PRI * HTTP/2"
_GENERATE = re.compile(rb"^POST [^ ]*/v2/models/([^/ ]*)/generate")
"""A search costs a tenth of reading the JSON, and hundreds of requests may come at the same moment."""


def _find(pattern: re.Pattern[bytes], text: bytes) -> str:
    found = pattern.search(text)
    return found.group(1).decode() if found else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """How requests are answered: a share of faults (seeded), and a share of slow ones (exactly spread)."""

    profile: Profile
    faults: float = 0.0
    slow_share: float = 0.0
    slow_ttft_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class _Line:
    """One connection and the answer it plays."""

    sock: socket.socket
    stamps: bool
    seal: Seal | None = None
    frames: ServerLayer | None = None
    buffer: bytes = b""
    out: bytes = b""
    id: str = ""
    behaviour: str = ""
    script: Script | None = None
    step: int = 0
    read_s: float = 0.0
    first_s: float | None = None
    generation: int = 0


class TruthServer:
    """Listens on 127.0.0.1; ``port`` 0 lets the kernel choose; ``context`` is for TLS. HTTP/2 is answered in HTTP/2."""

    def __init__(self, plan: Plan, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.plan = plan
        self._context = context
        self._lines: dict[int, _Line] = {}
        self._due: list[tuple[float, int, int]] = []
        self._truth: list[str] = []
        self._scripts: dict[str, Script] = {}
        self._random = random.Random(plan.seed)  # noqa: S311 - a reproducible mix of faults
        self._slow_credit = 0.0
        self._poll = select.epoll()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._listener.setblocking(False)

    def serve(self) -> None:
        """Serve until standard input ends."""
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        print(self._listener.getsockname()[1], flush=True)  # noqa: T201 - the parent reads it
        while self._turn():
            pass

    def _turn(self) -> bool:
        """Write what is due, then wait for the next event or the next due write; return whether to go on."""
        now = time.perf_counter()
        while self._due and self._due[0][0] <= now:
            _, fd, generation = heapq.heappop(self._due)
            line = self._lines.get(fd)
            if line is not None and line.generation == generation:
                self._step(fd, line)
        wait = max(0.0, self._due[0][0] - time.perf_counter()) if self._due else 3600.0
        if 0 < wait < 0.05:  # epoll counts in milliseconds, select in microseconds
            select.select([self._poll], [], [], wait)
            wait = 0.0
        for fd, mask in self._poll.poll(wait):
            if fd == self._listener.fileno():
                self._accept()
            elif fd == sys.stdin.fileno():
                if not os.read(fd, 4096):
                    return False
            elif fd in self._lines:
                self._ready(fd, self._lines[fd], mask)
        return True

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            seal = Seal(self._context) if self._context is not None else None
            self._lines[sock.fileno()] = _Line(sock, ask_for_stamps(sock), seal)
            self._poll.register(sock.fileno(), select.EPOLLIN)

    def _ready(self, fd: int, line: _Line, mask: int) -> None:
        if mask & select.EPOLLOUT:
            self._send(fd, line, b"")
        if not mask & ~select.EPOLLOUT:
            return
        try:
            piece = receive(line.sock, 65536, line.stamps)
            data = piece.data
        except BlockingIOError:
            return
        except OSError:
            data = b""
        plain: bytes | None = data
        if data and line.seal is not None:
            plain = self._unseal(fd, line, line.seal, data)
        if plain and (line.frames is not None or plain.startswith(_HTTP2)):
            plain = self._unframe(fd, line, plain)
        if not data or plain is None:
            self._drop(fd, line)
            return
        if plain:  # not at what TLS and HTTP/2 say between requests
            line.read_s = piece.at_ns / 1e9
            line.buffer += plain
            self._request(fd, line)

    def _unseal(self, fd: int, line: _Line, seal: Seal, data: bytes) -> bytes | None:
        """Return what the bytes say, None when they are no TLS; the answer to a handshake goes out."""
        try:
            plain, answer = seal.take(data)
        except ssl.SSLError:
            return None
        return plain if not answer or self._out(fd, line, answer) else None

    def _unframe(self, fd: int, line: _Line, data: bytes) -> bytes | None:
        """Return the requests that the frames bring, None when they are no HTTP/2; what must be answered goes out."""
        from obs_exporter.probe.http2 import HTTP2Error, ServerLayer

        line.frames = line.frames or ServerLayer()
        try:
            requests = line.frames.take(data)
        except HTTP2Error:
            return None
        answer = line.frames.outgoing()
        return requests if not answer or self._sealed(fd, line, answer) else None

    def _request(self, fd: int, line: _Line) -> None:
        """Begin to answer once a whole request is there."""
        head, blank, rest = line.buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        length = _find(_LENGTH, head)
        size = int(length) if length else 0
        if len(rest) < size:
            return
        line.buffer = rest[size:]
        line.id = _find(_ID, head)
        if head.startswith(b"GET "):
            self._get(fd, line, head.split(b" ", 2)[1].decode())
            return
        generated = _find(_GENERATE, head)
        line.behaviour = self._choose(generated or _find(_MODEL, rest))
        if generated and line.behaviour == "healthy":
            line.behaviour = "triton-generate" if b"/generate_stream " in head else "triton-generate-plain"
        line.script = self._script(line.behaviour)
        line.step = 0
        line.first_s = None
        line.generation += 1
        heapq.heappush(self._due, (line.read_s + line.script.writes[0][0], fd, line.generation))

    def _choose(self, model: str) -> str:
        if model in BEHAVIOURS:
            return model
        if self.plan.faults and self._random.random() < self.plan.faults:
            return self._random.choice(FAULTS)
        self._slow_credit += self.plan.slow_share
        if self._slow_credit >= 1 - 1e-9:
            self._slow_credit -= 1
            return "slow"
        return "healthy"

    def _script(self, name: str) -> Script:
        if name not in self._scripts:
            profile = self.plan.profile
            if name == "slow":
                slow = Profile(self.plan.slow_ttft_s, profile.itl_s, profile.tokens, profile.tokens_per_event)
                self._scripts[name] = BEHAVIOURS["healthy"](slow)
            else:
                self._scripts[name] = BEHAVIOURS[name](profile)
        return self._scripts[name]

    def _get(self, fd: int, line: _Line, path: str) -> None:
        if path == "/truth":
            body = "".join(self._truth).encode()
            self._truth.clear()
        elif path.endswith("/models"):
            body = b'{"object":"list","data":[{"id":"truth","object":"model"}]}'
        else:
            body = b"{}"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._send(fd, line, head + body)

    def _step(self, fd: int, line: _Line) -> None:
        """Make one write of the script; the next is timed from the request, not from this one."""
        script = line.script
        if script is None:
            return
        if line.first_s is None and script.writes[line.step][0] >= self.plan.profile.ttft_s:
            line.first_s = time.perf_counter()
        before = time.perf_counter()  # a time taken after the write could be later than the client's
        if not self._send(fd, line, script.writes[line.step][1]):
            return
        line.step += 1
        if line.step < len(script.writes):
            heapq.heappush(self._due, (line.read_s + script.writes[line.step][0], fd, line.generation))
            return
        self._log(line, script, before)
        line.script = None
        if script.end == "reset":
            line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if script.end in ("close", "reset"):
            self._drop(fd, line)
        elif script.end == "keep" and line.buffer:
            self._request(fd, line)

    def _log(self, line: _Line, script: Script, now: float) -> None:
        ttft = (line.first_s or now) - line.read_s
        entry = {"id": line.id, "behaviour": line.behaviour, "ttft_s": ttft, "e2e_s": now - line.read_s}
        self._truth.append(json.dumps(entry | {"tokens": script.tokens}) + "\n")

    def _send(self, fd: int, line: _Line, data: bytes) -> bool:
        """Send, in frames and sealed where there is HTTP/2 and TLS; return whether the connection still stands."""
        return self._sealed(fd, line, data if line.frames is None else line.frames.give(data))

    def _sealed(self, fd: int, line: _Line, data: bytes) -> bool:
        return self._out(fd, line, data if line.seal is None else line.seal.seal(data))

    def _out(self, fd: int, line: _Line, data: bytes) -> bool:
        """Hand bytes to the kernel, keeping what it does not take; return whether the connection still stands."""
        data = line.out + data
        try:
            sent = line.sock.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(fd, line)
            return False
        if bool(line.out) != (sent < len(data)):
            self._poll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if sent < len(data) else 0))
        line.out = data[sent:]
        return True

    def _drop(self, fd: int, line: _Line) -> None:
        self._poll.unregister(fd)
        line.sock.close()
        del self._lines[fd]


def main(arguments: list[str] | None = None) -> None:
    """Run the server with the profile that the arguments give."""
    parser = argparse.ArgumentParser(prog="truth-server", description="A local streaming server of known truth.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttft", type=float, default=0.05, help="true TTFT in seconds")
    parser.add_argument("--itl", type=float, default=0.01, help="true time between token events in seconds")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that get a random fault")
    parser.add_argument("--slow-share", type=float, default=0.0, help="share of requests with the slow TTFT")
    parser.add_argument("--slow-ttft", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tls", action="store_true", help="speak TLS, without a certificate")
    got = parser.parse_args(arguments)
    profile = Profile(got.ttft, got.itl, got.tokens)
    context = server_context() if got.tls else None
    TruthServer(Plan(profile, got.faults, got.slow_share, got.slow_ttft, got.seed), got.port, context).serve()


if __name__ == "__main__":
    main()
