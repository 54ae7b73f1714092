"""Takes secrets out of texts that a server sent or that an error carries. Pure; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote

HIDDEN = "[redacted]"
_LEAST = 4
"""Shorter values are no secrets: hiding them would hole every text. Also as much of a cut-off secret as is hidden."""
_WORD = 8


class Redactor:
    """Hides secrets, whole or cut off at their end (details are shortened), in the forms that texts give them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found: set[str] = set()
        for secret in secrets:
            # Of "Bearer abc..." a server may repeat the second word alone.
            for part in (secret, *(word for word in secret.split() if len(word) >= _WORD)):
                found |= {part, json.dumps(part)[1:-1], repr(part)[1:-1], quote(part, safe=""), escape(part)}
                found |= {one.replace("/", "\\/") for one in found}  # as PHP and some proxies write JSON
        self._secrets = tuple(sorted(one for one in found if len(one) >= _LEAST))
        starts = "|".join(sorted({re.escape(one[:_LEAST]) for one in self._secrets}))
        self._starts = re.compile(starts) if starts else None

    def clean(self, text: str) -> str:
        """Return the text without the secrets."""
        parts, at = [], 0
        while self._starts is not None and (found := self._starts.search(text, at)):
            rest = text[found.start() :]
            parts += [text[at : found.start()], HIDDEN]
            at = found.start() + max(_common(rest, secret) for secret in self._secrets)
        return "".join([*parts, text[at:]])


def _common(text: str, secret: str) -> int:
    """Return how many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(text, secret, strict=False)) if a != b), min(len(text), len(secret)))
