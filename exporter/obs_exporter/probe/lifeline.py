"""Stops a run whose parent is gone: its standard input is a pipe that only the parent's end keeps open."""

from __future__ import annotations

import os
import threading

from obs_exporter.probe.load import Stop


class Lifeline:
    """Asks for a stop when standard input ends; ``reason`` then says so, else it is ""."""

    def __init__(self, stop: Stop, descriptor: int = 0) -> None:
        self._stop = stop
        self._descriptor = descriptor
        self.reason = ""

    def watch(self) -> None:
        """Begin; it costs a thread that sleeps until then. What is read is not looked at."""
        threading.Thread(target=self._wait, name="lifeline", daemon=True).start()

    def _wait(self) -> None:
        try:
            while os.read(self._descriptor, 4096):
                pass
        except OSError:  # closed: the same as its end
            pass
        if not self._stop.requested:
            self.reason = "standard input ended: the program that started this run is gone"
            self._stop.requested = True
