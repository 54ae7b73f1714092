"""Triton's generate extension as the vLLM backend answers it before 24.12: text only, no finish reason, no counts.

Requests and responses: Triton's docs/protocol/extension_generate.md and the backend's src/model.py (r24.10).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from obs_exporter.simulator.http import HttpError
from obs_exporter.simulator.openai import Ask, word
from obs_exporter.simulator.openai import parse as parse_openai

PATH = re.compile(r"/v2/models/([^/]+)/(generate|generate_stream|ready)")

_OUTPUT_TOKENS = 16
"""vLLM's default max_tokens (SamplingParams)."""


def parse(body: bytes, streamed: bool) -> Ask:
    """Read a request's body. Raises HttpError 400 with what is wrong."""
    try:
        data = json.loads(body)
        sampling = json.loads(data.get("sampling_parameters") or "{}")
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise HttpError(400, "the body must be a JSON object, its sampling_parameters JSON in a text") from None
    if not isinstance(sampling, dict) or not isinstance(data.get("text_input"), str):
        raise HttpError(400, "text_input must be a text, and sampling_parameters an object")
    if not isinstance(data.get("stream", False), bool) or (data.get("stream", False) and not streamed):
        raise HttpError(400, "stream must be true or false, and true only for generate_stream")
    known = {name: sampling[name] for name in ("max_tokens", "min_tokens", "ignore_eos") if name in sampling}
    asked = {"prompt": data["text_input"], "max_tokens": _OUTPUT_TOKENS, "stream": data.get("stream", False)} | known
    return parse_openai(json.dumps(asked).encode(), False, "")


@dataclass(frozen=True, slots=True)
class Voice:
    """Makes the answer's pieces for one request."""

    ask: Ask
    model: str

    def opening(self) -> bytes:
        """Nothing comes before the first token."""
        return b""

    def chunk(self, number: int, finish_reason: str | None) -> bytes:
        """The server-sent event of the ``number``-th token (from 0)."""
        del finish_reason
        return b"data: " + json.dumps(self._frame(word(number))).encode() + b"\n\n"

    def closing(self, produced: int, metrics: dict[str, float] | None) -> bytes:
        """Nothing tells the end but the end itself."""
        del produced, metrics
        return b""

    def whole(self, produced: int, finish_reason: str, metrics: dict[str, float] | None) -> bytes:
        """The answer in one piece."""
        del finish_reason, metrics
        return json.dumps(self._frame("".join(word(number) for number in range(produced)))).encode()

    def _frame(self, text: str) -> dict[str, Any]:
        return {"model_name": self.model, "model_version": "1", "text_output": text}
