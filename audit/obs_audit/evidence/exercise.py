"""What a client did during an exercise and counted itself: the truth that the stack's counters are held against."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Exercise:
    """The client's own count: requests that ended well, those that failed, and the tokens that ``usage`` told.

    ``untold`` are the good answers without ``usage``: tokens cannot be compared then. ``hard`` says that the load was
    meant to provoke preemptions. ``error`` is the first failure in words.
    """

    requests: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    untold: int = 0
    hard: bool = False
    error: str = ""

    def to_json(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, body: bytes) -> Exercise:
        """Read it back. Raises ``ValueError`` for anything else."""
        data = json.loads(body)
        try:
            return cls(**data)
        except TypeError as error:
            raise ValueError(str(error)) from None
