"""Starts the truth server in a process of its own, reads its truth, and ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from types import TracebackType

from obs_exporter.probe.truth.behaviours import Profile
from obs_exporter.probe.truth.seal import AnonymousTLS


class TruthError(Exception):
    """The truth server did not start; the message says how it ended."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What the server truly did for one request; times in seconds from the read of the request."""

    id: str
    behaviour: str
    ttft_s: float
    e2e_s: float
    tokens: int


class TruthProcess:
    """A running truth server, as a context manager. ``extra`` are further options of its command line.

    With ``tls`` it is a client with ``AnonymousTLS`` that can talk to it.
    """

    def __init__(self, profile: Profile, *extra: str, tls: bool = False) -> None:
        self._command = [
            sys.executable, "-m", "obs_exporter.probe.truth.server", "--ttft", str(profile.ttft_s),
            "--itl", str(profile.itl_s), "--tokens", str(profile.tokens), *(("--tls",) if tls else ()), *extra,
        ]  # fmt: skip
        self._tls = tls
        self.profile = profile
        self.port = 0

    @property
    def url(self) -> str:
        """The base URL for a probe."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> TruthProcess:
        """Start it. Raises TruthError."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.strip().isdecimal():
            self.__exit__(None, None, None)
            raise TruthError(f"the local truth server did not start (exit status {self._process.returncode})")
        self.port = int(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it by closing its standard input."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def truth(self) -> list[Truth]:
        """Return what was done since the last call, in the order in which it ended."""
        connection = (
            HTTPSConnection("127.0.0.1", self.port, timeout=10, context=AnonymousTLS().context())
            if self._tls
            else HTTPConnection("127.0.0.1", self.port, timeout=10)
        )
        try:
            connection.request("GET", "/truth")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return [Truth(**json.loads(line)) for line in text.splitlines()]
