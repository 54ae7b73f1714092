"""Find the expressions in a file: Grafana dashboards (JSON) and Prometheus rules (YAML), as they are in the wild."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from obs_exporter.errors import InputError

_LABEL_VALUES = re.compile(r"^\s*label_values\s*\((?P<body>.*)\)\s*$", re.DOTALL)
_QUERY_RESULT = re.compile(r"^\s*query_result\s*\((?P<body>.*)\)\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression of a file and where it stands: ``panel "Queue"``, ``alert Busy``, ``variable model``."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file's expressions, and the series that its own rules record."""

    name: str
    expressions: tuple[Expression, ...]
    recorded: frozenset[str]


def read(path: Path) -> Source:
    """Read a file.

    Raises ``InputError`` where it cannot be read, is neither JSON nor YAML, or has no expression at all.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is no UTF-8 text") from None
    found: list[Expression] = []
    recorded: list[str] = []
    for document in _documents(path, text):
        try:
            _Walk(found, recorded).visit(document, "")
        except RecursionError:
            raise InputError(f"{path}: it is nested too deeply to be a dashboard or a rule file") from None
    if not found:
        raise InputError(
            f"{path}: no PromQL in it; expected a Grafana dashboard (JSON with panels and targets) or Prometheus rules "
            "(YAML with groups)"
        )
    return Source(str(path), tuple(dict.fromkeys(found)), frozenset(recorded))


def _documents(path: Path, text: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(f"{path}: this is no JSON: {error}") from None
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: this is no YAML: {error}") from None


class _Walk:
    """Collects the expressions of one document; a node that is reached twice (a YAML alias) is visited once."""

    def __init__(self, found: list[Expression], recorded: list[str]) -> None:
        self._found = found
        self._recorded = recorded
        self._seen: set[int] = set()

    def visit(self, node: Any, where: str) -> None:
        """Walk down from a node; ``where`` is the nearest thing with a name around it."""
        if not isinstance(node, (dict, list)) or id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, list):
            for item in node:
                self.visit(item, where)
            return
        where = _place(node, where)
        expr = node.get("expr")
        if isinstance(expr, (str, int, float)) and str(expr).strip():
            self._found.append(Expression(where, str(expr)))
        if node.get("type") == "query" and "name" in node:
            self._found.extend(_variable(node.get("query", node.get("definition")), where))
        if isinstance(node.get("record"), str):
            self._recorded.append(node["record"])
        for value in node.values():
            self.visit(value, where)


def _place(node: dict[str, Any], where: str) -> str:
    """Name the panel, rule or variable that a mapping is, or keep what is around it."""
    for key in ("alert", "record"):
        if isinstance(node.get(key), str) and "expr" in node:
            return f"{'rule' if key == 'record' else key} {node[key]}"
    if isinstance(node.get("title"), str) and ("targets" in node or "gridPos" in node or "vizConfig" in node):
        return f'panel "{node["title"]}"'
    if node.get("type") == "query" and isinstance(node.get("name"), str):
        return f"variable {node['name']}"
    return where


def _variable(query: Any, where: str) -> Iterator[Expression]:
    """Take the selector out of ``label_values(selector, label)`` and the expression out of ``query_result(...)``."""
    text = query.get("query") if isinstance(query, dict) else query
    if not isinstance(text, str):
        return
    if match := _LABEL_VALUES.match(text):
        selector, comma, _ = match["body"].rpartition(",")
        if comma and selector.strip():
            yield Expression(where, selector.strip())
    elif match := _QUERY_RESULT.match(text):
        yield Expression(where, match["body"].strip())
