"""What we promise: the signals, their states, provenance and precision. No I/O; imports nothing else of ours."""

from obs_exporter.schema.series import Histogram, Scalar, Series
from obs_exporter.schema.signals import BY_ID, SIGNALS, Signal
from obs_exporter.schema.vocabulary import Aggregation, Kind, Precision, Provenance, Stability, State

__all__ = [
    "BY_ID",
    "SIGNALS",
    "Aggregation",
    "Histogram",
    "Kind",
    "Precision",
    "Provenance",
    "Scalar",
    "Series",
    "Signal",
    "Stability",
    "State",
]
