"""Restart the server between repeats, with the user's own command: two repeats are then two server lives.

Repeats within one life share its luck (the graph captured, the blocks laid out, the neighbours on the host), so their
spread is smaller than that of two lives, and an interval from them too narrow.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO
from urllib.parse import quote

from obs_exporter.probe.discover import Hop, answers
from obs_exporter.probe.load import Stop
from obs_exporter.probe.request import TRITON_GENERATE

_LOOK_S = 0.2
_PATIENCE_S = 5.0
_TOLD = 200


class RestartError(Exception):
    """The server was not restarted, or does not answer again; the message says which."""


@dataclass(frozen=True, slots=True)
class Restart:
    """The command, and how to see that the server is back. It must return only when the old server is gone."""

    command: str
    hop: Hop
    ready_path: str
    timeout_s: float

    def run(self, stop: Stop) -> None:
        """Run the command and wait for the server, both within the timeout. Raises RestartError."""
        deadline = time.monotonic() + self.timeout_s
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            # A shell, because that is what the user wrote the line for.
            process = subprocess.Popen(self.command, shell=True, stdout=said, stderr=said, stdin=subprocess.DEVNULL)  # noqa: S602
            try:
                while process.poll() is None:
                    if stop.requested:
                        return
                    if time.monotonic() > deadline:
                        raise RestartError(f"--restart-command did not end within {self.timeout_s:g} s{_end_of(said)}")
                    time.sleep(_LOOK_S)
            finally:
                _end(process)
            if process.returncode:
                raise RestartError(f"--restart-command ended with status {process.returncode}{_end_of(said)}")
        while not stop.requested and not answers(self.hop, self.ready_path):
            if time.monotonic() > deadline:
                where = f"{self.hop.endpoint.url}: GET {self.ready_path}"
                raise RestartError(f"{where} does not answer 200 within {self.timeout_s:g} s of --restart-command")
            time.sleep(_LOOK_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command if it still runs: asked first, then killed."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ready_path(hop: Hop, api: str, model: str) -> str:
    """Return what to ask for: the models of an OpenAI server, the model's readiness of Triton."""
    if api == TRITON_GENERATE:
        return f"{hop.endpoint.path}/v2/models/{quote(model, safe='')}/ready"
    return f"{hop.endpoint.path}/models"


def _end_of(said: IO[str]) -> str:
    """Return the last line that the command said, to be put behind a message."""
    said.seek(0)
    lines = [line.strip() for line in said.read()[-4096:].splitlines() if line.strip()]
    return f": {lines[-1][:_TOLD]}" if lines else ""
