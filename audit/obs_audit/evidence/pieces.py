"""Raw evidence: bytes with the place and the time they came from. What ``gather`` stores and ``--from`` reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a piece is to the audit."""

    PAGE = "page"
    LATER = "later"
    OPENMETRICS = "openmetrics"
    OPENMETRICS_UTF8 = "openmetrics_utf8"
    API_PAGE = "api_page"
    DOCUMENT = "document"
    BASELINE = "baseline"
    BASELINE_DOCUMENT = "baseline_document"
    DISCOVERY = "discovery"
    ENGINE_LOG = "engine_log"
    ANNOTATIONS = "annotations"
    BEFORE = "before"
    AFTER = "after"
    EXERCISE = "exercise"


ACCEPTS: dict[Role, str] = {
    Role.OPENMETRICS: "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    Role.OPENMETRICS_UTF8: "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;q=0.5",
}
"""What Prometheus 2 and Prometheus 3 ask for (seen on 2.42.0 and 3.5.3)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of evidence.

    ``source`` is a file name or a URL without secrets. ``number`` tells which page of the target a piece belongs to,
    from 0. ``taken`` is Unix time in seconds, 0 where it is not known: when it was fetched, or when the file was last
    written (a log: the time of its last line). ``error`` says why there is no body.
    """

    role: Role
    source: str
    body: bytes = b""
    number: int = 0
    content_type: str = ""
    taken: float = 0.0
    error: str = ""

    @property
    def openmetrics(self) -> bool:
        """Whether the server declared the OpenMetrics format."""
        return "openmetrics" in self.content_type


@dataclass(frozen=True, slots=True)
class Given:
    """What the user said of the target: its stack and, as text, its versions ("" where nothing was said)."""

    stack: str
    stack_version: str = ""
    engine_version: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """All evidence of one target, in the order it was gathered."""

    given: Given
    pieces: tuple[Piece, ...] = field(default=())

    def of(self, role: Role) -> Iterator[Piece]:
        """Yield the pieces of a role."""
        return (piece for piece in self.pieces if piece.role is role)

    def one(self, role: Role, number: int = 0) -> Piece | None:
        """Return the piece of a role that belongs to a page, or None."""
        return next((piece for piece in self.of(role) if piece.number == number), None)
