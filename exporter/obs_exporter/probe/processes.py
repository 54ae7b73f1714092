"""One run in several processes, for when one core cannot put the load on: shards that meet, then one merged result."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

from obs_exporter.probe.load import Stop
from obs_exporter.probe.merge import merge_files
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.results import ResultError, requests_path

_LOOK_S = 0.1
_OFF_IN_SHARDS = ("--listen", "--textfile", "--push-gateway")
LEFT = ".obs-probe-"
"""How the folder with the shards' results begins; it is left when they could not be merged."""


class ProcessesError(Exception):
    """A shard failed; the message carries what it said."""


def run_processes(
    arguments: Sequence[str],
    count: int,
    run_id: str,
    output: Path,
    stop: Stop,
    heard: Callable[[Record], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Run ``obs-probe run`` with these arguments in ``count`` processes and merge what they find.

    ``heard`` gets every record as it is written, ``say`` what the user should know. What cannot be merged stays in its
    folder beside ``output``, and the error names it; so it does when this process is killed: the shards see that and
    end by themselves. Raises ProcessesError.
    """
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=LEFT, dir=output.parent))
    except OSError as error:
        raise ProcessesError(f"{output}: cannot be written: {error.strerror}") from None
    files = [folder / f"shard-{i}.json" for i in range(count)]
    try:
        with _started([_command(arguments, i, count, run_id, folder, files[i]) for i in range(count)]) as shards:
            with ExitStack() as open_files:
                tails = [open_files.enter_context(closing(_Tail(requests_path(file)))) for file in files]
                _follow(shards, tails, stop, heard)
            complaints = _complaints(shards)
        written = [file for file in files if file.exists()]
        result = merge_files(written, output, say) if written else None
    except (OSError, ResultError) as error:
        if not any(file.exists() for file in files):
            shutil.rmtree(folder, ignore_errors=True)
            raise ProcessesError(str(error)) from None
        raise ProcessesError(
            f"{error} (what was measured is in {folder}: obs-probe merge {folder} --output FILE)"
        ) from None
    shutil.rmtree(folder, ignore_errors=True)
    if result is None:
        raise ProcessesError(complaints or "no shard wrote a result")
    if not stop.requested and any(shard.returncode not in (0, 1) for shard in shards):
        raise ProcessesError(f"{complaints} (what was measured is in {output})")
    return result


@contextmanager
def _started(commands: Sequence[list[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Run the shards while the block runs; whatever ends it, none of them runs on."""
    shards: list[subprocess.Popen[str]] = []
    try:
        # Sessions of their own: Ctrl-C reaches this process alone, which then asks each shard to stop, once. Nothing is
        # written to their standard input: its end tells them that this process is gone.
        shards.extend(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, start_new_session=True)
            for command in commands
        )  # fmt: skip
        yield shards
    finally:
        for shard in shards:
            if shard.stdin is not None:
                shard.stdin.close()
        for shard in shards:
            shard.wait()
            if shard.stderr is not None:
                shard.stderr.close()


def _command(arguments: Sequence[str], index: int, count: int, run_id: str, folder: Path, output: Path) -> list[str]:
    """Return a shard's command line: an option given twice counts as given last."""
    off = [part for option in _OFF_IN_SHARDS for part in (option, "")]
    if index:
        off += ["--metrics-url", ""]  # one reader of the server's page is enough
    own = ["--processes", "1", "--shard", f"{index}/{count}", "--run-id", run_id, "--rendezvous", str(folder)]
    return [
        sys.executable,
        "-m",
        "obs_exporter.probe.cli",
        "run",
        *arguments,
        *off,
        *own,
        "--output",
        str(output),
        "--quiet",
        "--stop-at-eof",
    ]


def _follow(
    shards: Sequence[subprocess.Popen[str]], tails: Sequence[_Tail], stop: Stop, heard: Callable[[Record], None]
) -> None:
    """Read the shards' records as they are written until all shards have ended; pass a stop request on once."""
    told = False
    while True:
        running = [shard for shard in shards if shard.poll() is None]
        for tail in tails:
            tail.read(heard)
        if not running:
            return
        failed = any(shard.returncode not in (None, 0, 1) for shard in shards)
        if (stop.requested or failed) and not told:
            told = True
            for shard in running:
                shard.terminate()
        time.sleep(_LOOK_S)


def _complaints(shards: Sequence[subprocess.Popen[str]]) -> str:
    texts = [shard.stderr.read().strip() for shard in shards if shard.stderr is not None]
    return "; ".join(dict.fromkeys(text for text in texts if text))


class _Tail:
    """Reads the whole lines that were added to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._rest = ""

    def read(self, heard: Callable[[Record], None]) -> None:
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open(encoding="utf-8")
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            try:
                heard(Record.from_json(json.loads(line)))
            except ValueError as error:
                raise ResultError(f"{self._path}: {error}") from None

    def close(self) -> None:
        """Leave the file."""
        if self._file is not None:
            self._file.close()
