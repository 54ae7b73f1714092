"""Fields of a config.json, each checked when it is read: what is there and makes no sense is an error, never a default.

A field that is null counts as absent, as in the Hugging Face configurations. Pure.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

LARGEST = 1 << 40
"""More than any number in a model's configuration."""

REMEDY = "put it right, or take the file from the model's own repository"


class ShapeError(ValueError):
    """A config.json cannot be understood; the message names the field, what was expected, and what to do."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one JSON object; ``path`` is where it stands in the file, with a dot behind it, or ""."""

    values: Mapping[str, object]
    path: str = ""

    def wrong(self, name: str, expected: str) -> ShapeError:
        """Return the error of a field that is there and cannot be."""
        shown = reprlib.repr(self.values.get(name))
        return ShapeError(f"{self.path}{name} is {shown}; {expected} was expected: {REMEDY}")

    def has(self, name: str) -> bool:
        """Whether a field is there."""
        return self.values.get(name) is not None

    def number(self, name: str, *, least: int = 1, most: int = LARGEST) -> int | None:
        """Return a whole number; None where the field is absent. Raises ``ShapeError`` for anything else."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most:,}")
        return value

    def first(self, names: tuple[str, ...], *, least: int = 1, most: int = LARGEST) -> int:
        """Return the first of several fields that is there, or 0; all that are there are checked."""
        found = [self.number(name, least=least, most=most) for name in names]
        return next((value for value in found if value is not None), 0)

    def needed(self, names: tuple[str, ...], *, most: int = LARGEST) -> int:
        """Return the first of several fields. Raises ``ShapeError`` where none is there."""
        value = self.first(names, most=most)
        if not value:
            others = f" (or {', '.join(names[1:])})" if names[1:] else ""
            raise ShapeError(
                f"{self.path}{names[0]} is missing{others}: is this a model's config.json? If the model's class has a "
                "default for it, write that into a copy"
            )
        return value

    def flag(self, name: str) -> bool | None:
        """Return a truth value; None where the field is absent. Raises ``ShapeError`` for anything else."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str) -> str:
        """Return a text; "" where the field is absent. Raises ``ShapeError`` for anything else."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value or ""

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; an empty one where the field is absent. Raises ``ShapeError`` for anything else."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(name, "a list of texts")
        return value

    def inner(self, name: str) -> Fields | None:
        """Return an object inside; None where the field is absent. Raises ``ShapeError`` for anything else."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, "an object")
        return Fields(value, f"{self.path}{name}.")


def fields_of(document: object) -> Fields:
    """Return the fields of a whole file. Raises ``ShapeError`` where it holds no object."""
    if not isinstance(document, Mapping):
        raise ShapeError(
            f"one JSON object was expected, and the file holds {reprlib.repr(document)}: is this a model's config.json?"
        )
    return Fields(document)


def nested(document: Fields, names: tuple[str, ...], wanted: tuple[str, ...], depth: int = 2) -> Fields:
    """Return the innermost object, down to ``depth`` levels, that has one of the wanted fields; else the outermost.

    Raises ``ShapeError`` where one of the named fields is there and is no object.
    """
    return next((found for found in _inside(document, names, depth) if any(map(found.has, wanted))), document)


def _inside(document: Fields, names: tuple[str, ...], depth: int) -> Iterator[Fields]:
    """Yield the objects inside, the innermost first, and then the object itself."""
    found = [inner for name in names if (inner := document.inner(name)) is not None]
    if depth:
        for inner in found:
            yield from _inside(inner, names, depth - 1)
    yield document
