"""An embedded LLM server with known truth: for tests with a virtual clock, and live for the demo.

``simulate(config, seed)`` plays a configuration without I/O; a ``Run`` shows each stack's page and log lines at any
time, and the truth beside them. ``obs_exporter.simulator.live`` serves the same engine in real time.
"""

from obs_exporter.simulator.config import LAYERS, Config, ConfigError, Engine, Layer, load_config
from obs_exporter.simulator.faces import FACES, USUAL_LAYERS, PageUnavailableError
from obs_exporter.simulator.run import Run, simulate
from obs_exporter.simulator.truth import RequestTruth, Truth
from obs_exporter.simulator.workload import Abandon, Bursts, Closed, Idle, Lengths, Outage, Ramp, Restart, Steady

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
