"""Find metric names in PromQL: a small tokenizer, no evaluation, never an exception.

It knows strings, comments, numbers and durations, label lists behind ``by``, ``on`` and the like, matchers in braces,
ranges in brackets, and Grafana's variables. What looks like a metric name in any other place is one, unless it is a
keyword, an aggregation or the name of a function. Read in the PromQL grammar of Prometheus 2.42 to 3.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

KEYWORDS = frozenset({"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan", "start", "end"})
GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
AGGREGATIONS = frozenset(
    {
        "sum", "min", "max", "avg", "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile",
        "limitk", "limit_ratio",
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    | (?P<variable>\$\{[^}]*\}|\$\w+|\[\[\w+(?::\w+)?\]\])
    | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*)?(?![\w:]))
    | (?P<name>[A-Za-z_:][\w:]*(?:\$\{?\w*\}?[\w:]*)*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PLAIN = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Use:
    """One place where an expression names a metric: ``text[start:end]`` is the name.

    ``choice`` is the same positive number for all names of one pattern, of which one is enough; 0 elsewhere. ``open``:
    the pattern fits names beyond those, too.
    """

    name: str
    start: int
    end: int
    choice: int = 0
    open: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind not in ("space", "comment"):
            found.append(_Token(kind, match.group(), match.start()))
    return found


def metric_uses(text: str) -> tuple[Use, ...]:
    """Return every place where an expression names a metric, in order. Names with a variable in them are left out."""
    return tuple(_Walk(_tokens(text)).uses())


def label_uses(text: str) -> tuple[Use, ...]:
    """Return every place where an expression names a label: in braces and in the lists behind ``by``, ``on``, ..."""
    walk = _Walk(_tokens(text))
    list(walk.uses())
    return tuple(walk.labels)


class _Walk:
    """Goes through the tokens of one expression once."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.labels: list[Use] = []

    def uses(self) -> Iterator[Use]:
        """Yield the metric names; labels are collected on the way."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.text == "{":
                yield from self._matchers()
            elif token.text == "[":
                self._range()
            elif token.kind == "name":
                yield from self._name(token)

    def _peek(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._tokens[index].text if index < len(self._tokens) else ""

    def _name(self, token: _Token) -> Iterator[Use]:
        word = token.text.lower()
        if word in GROUPING and self._peek() == "(":
            self._label_list()
        elif word in KEYWORDS or word in GROUPING:
            return
        elif self._peek() == "(":
            return  # a function or an aggregation
        elif word in AGGREGATIONS and self._peek().lower() in GROUPING:
            return
        elif not self._has_variable(token):
            yield Use(token.text, token.start, token.start + len(token.text))

    def _has_variable(self, token: _Token) -> bool:
        """Whether a variable is part of the name, before, inside or behind it: then the name is not known."""
        before = self._tokens[self._at - 2] if self._at > 1 else None
        after = self._tokens[self._at] if self._at < len(self._tokens) else None
        joined_before = before is not None and before.kind == "variable" and _end(before) == token.start
        joined_after = after is not None and after.kind == "variable" and _end(token) == after.start
        return "$" in token.text or joined_before or joined_after

    def _label_list(self) -> None:
        self._at += 1
        while self._at < len(self._tokens) and self._peek() != ")":
            token = self._tokens[self._at]
            if token.kind == "name":
                self.labels.append(Use(token.text, token.start, token.start + len(token.text)))
            self._at += 1
        self._at += 1

    def _range(self) -> None:
        while self._at < len(self._tokens) and self._peek() != "]":
            self._at += 1
        self._at += 1

    def _matchers(self) -> Iterator[Use]:
        """Go through ``{...}``: names of labels, and of the metric where a matcher gives it."""
        while self._at < len(self._tokens) and self._peek() != "}":
            token = self._tokens[self._at]
            if token.kind == "name" and self._is_operator(1):
                self.labels.append(Use(token.text, token.start, token.start + len(token.text)))
                self._at += 1
                operator, value = self._operator(), self._value()
                if token.text == "__name__" and value is not None and not operator.startswith("!"):
                    yield from _named(value, regex=operator == "=~")
            elif token.kind == "string" and self._peek(1) in (",", "}"):
                yield from _named(token, regex=False)
                self._at += 1
            else:
                self._at += 1
        self._at += 1

    def _is_operator(self, ahead: int) -> bool:
        return self._peek(ahead) in ("=", "!")

    def _operator(self) -> str:
        """Take ``=``, ``!=``, ``=~`` or ``!~``."""
        text = ""
        while self._peek() in ("=", "!", "~"):
            text += self._peek()
            self._at += 1
        return text

    def _value(self) -> _Token | None:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == "string":
            self._at += 1
            return self._tokens[self._at - 1]
        return None


def _end(token: _Token) -> int:
    return token.start + len(token.text)


def _named(token: _Token, *, regex: bool) -> Iterator[Use]:
    """Yield the names in a string; of a pattern only those that are plain alternatives."""
    body, start = token.text[1:-1], token.start + 1
    parts = body.split("|") if regex else [body]
    wider = not all(_PLAIN.fullmatch(part) for part in parts)
    for part in parts:
        if _PLAIN.fullmatch(part):
            yield Use(part, start, start + len(part), token.start + 1 if regex else 0, wider)
        start += len(part) + 1


def replaced(text: str, changes: dict[tuple[int, int], str]) -> str:
    """Return the text with the pieces at ``(start, end)`` replaced."""
    for (start, end), new in sorted(changes.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


_OPENING = {"(": ")", "{": "}", "[": "]"}
_BINARY = frozenset("+-*/%^<>=") | {"and", "or", "unless", "atan2"}


def fault(text: str) -> str:
    """Return what makes an expression unreadable for Prometheus, or "".

    Brackets that do not pair, strings that do not end, and operators and functions without an operand are found; it is
    no whole parser, and says nothing against what a parser would take.
    """
    opened: list[_Token] = []
    before = ""
    for token in _tokens(text):
        if token.kind == "other" and token.text in "\"'`":
            return f"a string that begins at character {token.start + 1} has no end"
        if token.text in _OPENING:
            opened.append(token)
        elif token.kind == "other" and token.text in ")]}":
            if not opened or _OPENING[opened[-1].text] != token.text:
                return f"{token.text} at character {token.start + 1} closes nothing"
            if token.text == ")" and before in _BINARY and not _in_braces(opened):
                return f"nothing stands behind {before}"
            opened.pop()
        before = token.text.lower()
    if opened:
        return f"{opened[-1].text} at character {opened[-1].start + 1} is never closed"
    return f"nothing stands behind {before}" if before in _BINARY else ""


def _in_braces(opened: list[_Token]) -> bool:
    return any(token.text == "{" for token in opened)
