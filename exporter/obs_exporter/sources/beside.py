"""What stands beside a target's page: its engine's logs and the machine's GPUs, read into evidence for derivations."""

from __future__ import annotations

from collections.abc import Sequence

from obs_exporter.derive.context import Evidence
from obs_exporter.derive.from_logs import LogView, read, without
from obs_exporter.sources.following import Seen
from obs_exporter.sources.logs import LogTail
from obs_exporter.sources.nvml import Gpus


class Beside:
    """Follows logs and asks the GPU driver for one target. Not for use by several threads at once."""

    def __init__(self, engine_logs: Sequence[str] = (), *, gpu: bool = False) -> None:
        """Prepare; nothing is opened yet."""
        self._tail = LogTail(engine_logs) if engine_logs else None
        self._gpus = Gpus() if gpu else None
        self._view = LogView()

    def read(self, now: float, wall: float | None) -> Evidence:
        """Read what is new. ``now`` is the clock of the derivations, ``wall`` that of the file system (None: offline).

        Nothing is raised: what cannot be read is in the evidence.
        """
        gpus = self._gpus.read() if self._gpus is not None else None
        if self._tail is None:
            return Evidence(gpus=gpus)
        lines, state = self._tail.poll(now, wall)
        for line in lines:
            counted, unsure = line.seen is Seen.NEW, line.seen is Seen.UNKNOWN
            self._view = read(self._view, line.file, line.text, line.time, counted=counted, unsure=unsure)
        return Evidence(without(self._view, state.gone), state.gone, state.problems, gpus)

    def close(self) -> None:
        """Close the files and let go of the driver."""
        if self._tail is not None:
            self._tail.close()
        if self._gpus is not None:
            self._gpus.close()
