"""Which vLLM release registers which metric family: the table behind "hidden", "never" and "idle".

The data (``data/vllm_catalogue.json``) was read from the source distributions of the releases that it lists. Families
are named without the ``vllm:`` prefix, as exposed (counters with ``_total``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

from obs_exporter.stacks.versions import key

_ONLY = "only "


@dataclass(frozen=True, slots=True)
class Registration:
    """How one release treats a family.

    ``status``: ``registered``, ``hidden`` (shown by a switch), ``conditional`` (needs a feature), ``dead`` (never
    updated). ``note`` says when it stays without values.
    """

    status: str
    switch: str
    note: str

    @property
    def always_filled(self) -> bool:
        """Whether the family has samples on every server that has finished a request."""
        return self.status == "registered" and not self.note.startswith(_ONLY)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine generation of one vLLM release: generation is ``V0``, ``V1`` or ``rust`` (its Rust front end)."""

    release: str
    generation: str


class Catalogue:
    """The loaded table."""

    def __init__(self, data: Mapping[str, object]) -> None:
        """Index the JSON form by engine."""
        releases, families = data["releases"], data["families"]
        if not isinstance(releases, list) or not isinstance(families, dict):
            raise TypeError("the vLLM catalogue has no releases or no families")
        self.releases: tuple[str, ...] = tuple(releases)
        self.types: dict[str, str] = {name: entry["type"] for name, entry in families.items()}
        index = {release: number for number, release in enumerate(self.releases)}
        self._by_engine: dict[Engine, dict[str, Registration]] = {}
        for name, entry in families.items():
            for run in entry["runs"]:
                registration = Registration(run["status"], run["switch"], run["note"])
                for release in self.releases[index[run["first"]] : index[run["last"]] + 1]:
                    self._by_engine.setdefault(Engine(release, run["engine"]), {})[name] = registration

    @cached_property
    def engines(self) -> list[Engine]:
        """Every release and generation, oldest release first, V0 before V1 before rust."""
        return sorted(self._by_engine, key=lambda engine: (key(engine.release), engine.generation))

    def families(self, engine: Engine) -> Mapping[str, Registration]:
        """Return what this engine registers; empty for an engine that does not exist."""
        return self._by_engine.get(engine, {})

    def registration(self, family: str, engine: Engine) -> Registration | None:
        """Return how this engine treats a family, or None where it does not have it."""
        return self.families(engine).get(family)

    def nearest(self, version: str) -> str:
        """Return the newest listed release that is not newer than ``version``, or the oldest one."""
        older = [release for release in self.releases if key(release) <= key(version)]
        return older[-1] if older else self.releases[0]

    def having(self, family: str, generation: str) -> list[str]:
        """Return the releases in which this generation has a family, oldest first."""
        return [e.release for e in self.engines if e.generation == generation and family in self._by_engine[e]]

    def fit(self, present: Collection[str], engines: Collection[Engine], *, complete: bool) -> list[Engine]:
        """Return the engines whose families agree best with those on a page, oldest first.

        A family on the page that an engine lacks weighs more than one that the engine has and the page lacks, since
        families are dropped on the way more often than they are invented. ``complete`` says whether absence counts at
        all: it does not on a server that has finished no request yet, nor behind a layer that shows families lazily.
        Families that no release has are not counted.
        """
        known = frozenset(present) & self.types.keys()
        if not known:
            return []
        scores: dict[Engine, int] = {}
        for engine in engines:
            registered = self.families(engine)
            foreign = sum(1 for name in known if name not in registered)
            missing = sum(1 for name, entry in registered.items() if entry.always_filled and name not in known)
            scores[engine] = 3 * foreign + (missing if complete else 0)
        best = min(scores.values(), default=0)
        return [engine for engine in self.engines if scores.get(engine) == best]


@cache
def catalogue() -> Catalogue:
    """Return the catalogue that the package carries, loaded once."""
    text = resources.files("obs_exporter.stacks").joinpath("data/vllm_catalogue.json").read_text(encoding="utf-8")
    return Catalogue(json.loads(text))
