"""What an audit judges. Gathering does I/O and yields raw pieces; interpreting is pure and makes sense of them."""

from obs_audit.evidence.exercise import Exercise
from obs_audit.evidence.interpreting import Evidence, Exhibit, claimed, engine_names, interpret
from obs_audit.evidence.pieces import Bundle, Given, Piece, Role
from obs_audit.evidence.sources import Sources

__all__ = [
    "Bundle",
    "Evidence",
    "Exercise",
    "Exhibit",
    "Given",
    "Piece",
    "Role",
    "Sources",
    "claimed",
    "engine_names",
    "interpret",
]
