"""Takes secrets out of texts that a server sent or that an error carries. Pure; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from urllib.parse import quote

HIDDEN = "[redacted]"
_LEAST = 4
"""Shorter values are no secrets: hiding them would hole every text. So much of a secret is hidden where a text ends."""
_WORD = 8
"""So much of a secret is hidden anywhere: less is an ordinary word ("tokens" is not token-abc123)."""
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")
"""A server's line breaks and escape sequences are for no terminal."""


class Redactor:
    """Hides secrets, whole or cut off at their end (details are shortened), in the forms that texts give them.

    What is left is one line without control characters.
    """

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
        parts, at, look = [], 0, 0
        while self._starts is not None and (found := self._starts.search(text, look)):
            rest = text[found.start() :]
            hidden = max(_hidden(rest, secret) for secret in self._secrets)
            look = found.start() + max(1, hidden)
            if hidden:
                parts += [text[at : found.start()], HIDDEN]
                at = look
        return "".join([*parts, text[at:]]).translate(_CONTROL)


def _hidden(text: str, secret: str) -> int:
    """Return how many characters at the start of the text are the secret, or so much of it that they tell it."""
    both = zip(text, secret, strict=False)
    common = next((i for i, (a, b) in enumerate(both) if a != b), min(len(text), len(secret)))
    return common if common in (len(secret), len(text)) or common >= _WORD else 0
