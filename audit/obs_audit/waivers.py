"""Waivers: findings that somebody has accepted, with a reason and until a day. YAML; mistakes name their line.

waivers:
  - signal: preemptions        # a signal, a check, or both
    check: signal_lost
    stack: triton              # optional: only on this stack
    reason: the side port comes with the next image
    expires: 2026-12-31
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import yaml

from obs_audit.findings import Finding
from obs_exporter.errors import ConfigError, InputError
from obs_exporter.schema import BY_ID
from obs_exporter.stacks import STACKS

_FIELDS = ("signal", "check", "stack", "reason", "expires")


@dataclass(frozen=True, slots=True)
class Waiver:
    """One waiver; it covers a finding that agrees in every field that is given. It holds on its last day."""

    reason: str
    expires: date
    signal: str = ""
    check: str = ""
    stack: str = ""
    source: str = ""

    def covers(self, finding: Finding, stack: str) -> bool:
        """Whether it is about this finding."""
        return self.signal in ("", finding.signal) and self.check in ("", finding.check) and self.stack in ("", stack)

    def expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return today > self.expires

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        return " ".join(part for part in (self.check, self.signal and f"of {self.signal}") if part).removeprefix("of ")


def load(path: Path, checks: Iterable[str]) -> tuple[Waiver, ...]:
    """Read a file of waivers; ``checks`` are the ids that exist.

    Raises ``ConfigError`` for what is wrong in it and ``InputError`` where it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is no UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(str(path), line, f"this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(str(path), 1, f"this is no YAML: {error}") from None
    return _Reader(str(path), tuple(checks)).read(node)


class _Reader:
    """Walks YAML nodes and knows where each stands."""

    def __init__(self, file: str, checks: tuple[str, ...]) -> None:
        self.file = file
        self.known: Mapping[str, Iterable[str]] = {"signal": BY_ID, "check": checks, "stack": STACKS}

    def fail(self, node: yaml.Node | None, message: str) -> ConfigError:
        return ConfigError(self.file, node.start_mark.line + 1 if node else 1, message)

    def read(self, node: yaml.Node | None) -> tuple[Waiver, ...]:
        """Read the whole file."""
        if not isinstance(node, yaml.MappingNode) or [key.value for key, _ in node.value] != ["waivers"]:
            raise self.fail(node, "the file must be a mapping with the one key waivers:")
        rows = node.value[0][1]
        if not isinstance(rows, yaml.SequenceNode):
            raise self.fail(rows, "waivers: must be a list")
        return tuple(self._waiver(row) for row in rows.value)

    def _waiver(self, node: yaml.Node) -> Waiver:
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"a waiver must be a mapping of {', '.join(_FIELDS)}")
        values: dict[str, str] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in _FIELDS:
                near = difflib.get_close_matches(name, _FIELDS, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_FIELDS)}"
                raise self.fail(key, f"unknown key {name!r}; {hint}")
            if name in values:
                raise self.fail(key, f"{name!r} stands twice")
            if not isinstance(value, yaml.ScalarNode) or not str(value.value).strip():
                raise self.fail(value, f"{name} must be text")
            values[name] = str(value.value).strip()
            if name in self.known and values[name] not in self.known[name]:
                near = difflib.get_close_matches(values[name], list(self.known[name]), 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self.fail(value, f"no such {name}: {values[name]!r}{hint}")
        for needed in ("reason", "expires"):
            if needed not in values:
                raise self.fail(node, f"{needed}: is missing: a waiver says why it holds, and until when")
        if not values.get("signal") and not values.get("check"):
            raise self.fail(node, "a waiver needs signal: or check:, or both")
        expires = self._date(node, values.pop("expires"))
        return Waiver(expires=expires, source=f"{self.file}:{node.start_mark.line + 1}", **values)

    def _date(self, node: yaml.Node, text: str) -> date:
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise self.fail(node, f"expires must be a day such as 2026-12-31, not {text!r}") from None
