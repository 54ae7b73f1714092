"""Versions: order, specifiers, and what is known of a version and from where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


@lru_cache(maxsize=1024)
def key(version: str) -> Version:
    """Return the sort key of a version.

    Raises ``ValueError`` for text that is no version, with the text in the message.
    """
    try:
        return Version(version)
    except InvalidVersion:
        raise ValueError(f"{version!r} is not a version") from None


@lru_cache(maxsize=4096)
def matches(specifier: str, version: str) -> bool:
    """Whether a version is inside a specifier such as ``>=2.47,<2.51``; an empty specifier holds for every version."""
    return not specifier or SpecifierSet(specifier).contains(key(version), prereleases=True)


def as_version(text: str) -> str:
    """Return the version inside a text such as ``v0.32.0+cpu`` or ``24.09``, as it was written.

    Raises ``ValueError`` where there is none.
    """
    version = text.strip().removeprefix("v").partition("+")[0]
    _ = key(version)  # refuses what is none; releases such as 24.08 keep their zero
    return version


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a version: the releases that fit, oldest first, and how that is known.

    No candidates means unknown. ``floor`` marks a lower bound: the true version is the candidate or a newer one.
    """

    candidates: tuple[str, ...]
    source: str
    floor: bool = False

    @property
    def best(self) -> str:
        """The newest release that fits, or ""."""
        return self.candidates[-1] if self.candidates else ""

    def __str__(self) -> str:
        """Write it for people: one version, a range, or "unknown"."""
        if not self.candidates:
            return "unknown"
        if len(self.candidates) == 1:
            return f"{self.best} or newer" if self.floor else self.best
        return f"{self.candidates[0]} to {self.candidates[-1]}"

    def admits(self, version: str) -> bool:
        """Whether a version is one of the candidates, however it is written (24.9 is 24.09)."""
        return any(key(candidate) == key(version) for candidate in self.candidates)


UNKNOWN = Known((), "unknown")


def span(versions: Sequence[str]) -> str:
    """Write a run of releases for people: ``24.08`` or ``24.08 to 24.11``."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
