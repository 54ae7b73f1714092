"""An embedded LLM server with known truth: for tests with a virtual clock, and live for the demo.

``simulate(config, seed)`` plays a configuration without I/O; a ``Run`` shows each stack's page and log lines at any
time, and the truth beside them. ``obs_exporter.simulator.live`` serves the same engine in real time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obs_exporter.simulator.config import LAYERS, Config, ConfigError, Engine, Layer, load_config
    from obs_exporter.simulator.faces import FACES, USUAL_LAYERS, PageUnavailableError
    from obs_exporter.simulator.run import Run, simulate
    from obs_exporter.simulator.truth import RequestTruth, Truth
    from obs_exporter.simulator.workload import Abandon, Bursts, Closed, Idle, Lengths, Outage, Ramp, Restart, Steady

_HOMES: dict[str, tuple[str, ...]] = {
    "config": ("LAYERS", "Config", "ConfigError", "Engine", "Layer", "load_config"),
    "faces": ("FACES", "USUAL_LAYERS", "PageUnavailableError"),
    "run": ("Run", "simulate"),
    "truth": ("RequestTruth", "Truth"),
    "workload": ("Abandon", "Bursts", "Closed", "Idle", "Lengths", "Outage", "Ramp", "Restart", "Steady"),
}
"""Where the public names live; they are loaded when first used, so that a command's --help starts in a blink."""

__all__ = [
    "FACES",
    "LAYERS",
    "USUAL_LAYERS",
    "Abandon",
    "Bursts",
    "Closed",
    "Config",
    "ConfigError",
    "Engine",
    "Idle",
    "Layer",
    "Lengths",
    "Outage",
    "PageUnavailableError",
    "Ramp",
    "RequestTruth",
    "Restart",
    "Run",
    "Steady",
    "Truth",
    "load_config",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its home."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
