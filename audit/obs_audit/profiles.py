"""Profiles: the signals that a purpose cannot do without. The rows are data (``data/profiles.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from obs_exporter.schema import SIGNALS

ALL = "all"


@dataclass(frozen=True, slots=True)
class Profile:
    """One purpose: its signals, what its consumer calls them, and which family names that consumer looks for.

    ``optional`` are those of its signals that the consumer uses where they are there: no gate fails on them.
    """

    name: str
    title: str
    meaning: str
    signals: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    native: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()

    def asks_for(self, signal: str) -> bool:
        """Whether a finding about this signal ("": about the page) matters to the profile."""
        return not signal or signal in self.signals

    def gates_on(self, signal: str) -> bool:
        """Whether a finding about this signal ("": about the page) may fail a gate."""
        return self.asks_for(signal) and signal not in self.optional


EVERYTHING = Profile(ALL, "All signals", "Every signal of the schema.", tuple(signal.id for signal in SIGNALS))


def profile(name: str) -> Profile:
    """Return a profile. Raises ``KeyError`` for an unknown name."""
    return EVERYTHING if name == ALL else profiles()[name]


@cache
def profiles() -> dict[str, Profile]:
    """Return every profile by name, ``all`` last."""
    import yaml

    text = resources.files("obs_audit").joinpath("data/profiles.yaml").read_text(encoding="utf-8")
    rows = yaml.safe_load(text)
    found = {
        name: Profile(
            name,
            row["title"],
            row["meaning"],
            tuple(row["signals"]),
            row.get("names", {}),
            row.get("native", {}),
            tuple(row.get("optional", ())),
        )
        for name, row in rows.items()
    }
    return found | {ALL: EVERYTHING}
