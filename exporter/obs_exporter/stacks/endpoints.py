"""What a target's other endpoints tell of its versions. Pure: JSON in, claims out; asking is done in ``sources``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from obs_exporter.stacks.model import Claims
from obs_exporter.stacks.versions import UNKNOWN, Known, as_version


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path on the target's API, and how to read its JSON into claims (unknown where it tells nothing)."""

    path: str
    read: Callable[[object], Claims]


def _text(document: object, field: str) -> str:
    value = document.get(field) if isinstance(document, dict) else None
    try:
        return as_version(value) if isinstance(value, str) else ""
    except ValueError:
        return ""


def engine_version(document: object) -> Claims:
    """Read vLLM's ``GET /version``: ``{"version": "0.32.0"}``."""
    version = _text(document, "version")
    return Claims(engine_version=Known((version,), "/version") if version else UNKNOWN)


ENGINE_VERSION = Endpoint("/version", engine_version)


def combine(first: Claims, second: Claims) -> Claims:
    """Keep what the first claims tell and fill the rest from the second."""
    return Claims(
        first.stack_version if first.stack_version.candidates else second.stack_version,
        first.engine_version if first.engine_version.candidates else second.engine_version,
    )
