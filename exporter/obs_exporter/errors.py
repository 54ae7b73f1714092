"""The errors that a person sees.

click.ClickException
└── InputError          exit code 2: wrong usage, unreadable or unreachable input
    └── ConfigError     a configuration file, with the place in it
"""

from __future__ import annotations

import click


class InputError(click.ClickException):
    """Something the user gave cannot be used. The message says what, where, and what to do."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration file is wrong."""

    def __init__(self, file: str, line: int, message: str) -> None:
        """Say the file and the line (from 1) of the mistake."""
        super().__init__(f"{file}:{line}: {message}")
