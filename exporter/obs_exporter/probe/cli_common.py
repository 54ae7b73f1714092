"""What the commands share: errors for people, option types, and lists given with commas."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click


class InputError(click.ClickException):
    """Wrong usage, or input that cannot be read or reached: exit status 2, one clear line."""

    exit_code = 2


def say(text: str) -> None:
    """Tell the user something on standard error."""
    click.echo(text, err=True)


def write_output(text: str, output: str | None) -> None:
    """Write a report to a file, or to standard output; a file that holds measurements is refused. Raises InputError."""
    if output is None or output == "-":
        _print(text)
        return
    from obs_exporter.probe.aside import refuse_results
    from obs_exporter.probe.results import ResultError

    try:
        refuse_results(Path(output))
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
    except ResultError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None


def _print(text: str) -> None:
    """Write a text to standard output. Raises InputError where that is full."""
    try:
        click.echo(text, nl=not text.endswith("\n"))
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader has left, as head does: click ends quietly
            raise
        with suppress(OSError, ValueError):  # what is still buffered would fail once more when the interpreter ends
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        raise InputError(f"standard output: cannot be written: {error.strerror}") from None


def printed(*formats: str, example: str, file: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the options ``--format`` and ``--output`` of a command that shows a report; text is the default."""

    def options(command: Callable[..., None]) -> Callable[..., None]:
        command = click.option(
            "--output",
            help=f"The file to write, for example {file}; an older report there is replaced, a result or requests file"
            " never. Default: standard output.",
        )(command)
        return click.option(
            "--format", "output_format", type=click.Choice(formats), default="text", show_default=True,
            help=f"How to print, for example {example}.",
        )(command)  # fmt: skip

    return options


class Separated(click.ParamType[tuple[Any, ...]]):
    """Values with commas between them, each read by ``read`` (which raises ValueError on a wrong one)."""

    name = "list"

    def __init__(self, read: Callable[[str], Any], what: str) -> None:
        self._read = read
        self._what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Return the values as a tuple without doubles, in the order given."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(dict.fromkeys(self._read(part.strip()) for part in str(value).split(",") if part.strip()))
        except ValueError:
            self.fail(f"{value!r}: give {self._what}, with commas between them", param, ctx)
        if not found:
            self.fail(f"nothing given: give {self._what}, with commas between them", param, ctx)
        return found


def positive_int(text: str) -> int:
    """Read a whole number above 0. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def positive_float(text: str) -> float:
    """Read a finite number above 0. Raises ValueError."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Read NAME=VALUE options. Raises InputError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{option} {text!r}: give it as NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
