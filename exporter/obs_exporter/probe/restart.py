"""Restart the server between repeats, with the user's own command: two repeats are then two server lives.

Repeats within one life share its luck (the graph captured, the blocks laid out, the neighbours on the host), so their
spread is smaller than that of two lives, and an interval from them too narrow.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from obs_exporter.probe.load import Stop

_LOOK_S = 0.2
_PATIENCE_S = 5.0
_TOLD = 200


class RestartError(Exception):
    """The server was not restarted, or does not answer again; the message says which."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The command. It must return only when the old server is gone, else that one is taken for the new."""

    command: str
    timeout_s: float

    def run(self, stop: Stop, ready: Callable[[], str]) -> None:
        """Run the command, then wait until ``ready`` gives "" and no reason; both within the timeout.

        Raises RestartError.
        """
        deadline = time.monotonic() + self.timeout_s
        self._command(stop, deadline)
        while not stop.requested and (reason := ready()):
            if time.monotonic() > deadline:
                limit = f"within {self.timeout_s:g} s of --restart-command"
                raise RestartError(f"the server answers no request {limit}: {reason}")
            time.sleep(_LOOK_S)

    def _command(self, stop: Stop, deadline: float) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            # A shell, because that is what the user wrote the line for; a session, so that all it started can be ended.
            process = subprocess.Popen(  # noqa: S602
                self.command, shell=True, stdout=said, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True
            )
            try:
                while process.poll() is None and not stop.requested:
                    if time.monotonic() > deadline:
                        raise RestartError(f"--restart-command did not end within {self.timeout_s:g} s{_end_of(said)}")
                    time.sleep(_LOOK_S)
            finally:
                _end(process)
            if process.returncode and not stop.requested:
                raise RestartError(f"--restart-command ended with status {process.returncode}{_end_of(said)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started, if it still runs: asked first, then killed."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)


def _end_of(said: IO[str]) -> str:
    """Return the last line that the command said, to be put behind a message."""
    said.seek(0)
    lines = [line.strip() for line in said.read()[-4096:].splitlines() if line.strip()]
    return f": {lines[-1][:_TOLD]}" if lines else ""
