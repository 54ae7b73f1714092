"""Say how a release of vLLM differs from the catalogue: families added, removed, retyped, newly hidden or shown again.

    pip download --no-clean --no-deps --no-binary vllm vllm==0.34.0   # leaves the unpacked sources in $TMPDIR/pip-*
    python tests/lab/vllm_drift.py $TMPDIR/pip-download-*/vllm_*/ --version 0.34.0

The sources are read, never run: every construction of a Gauge, Counter or Histogram (and of the metadata classes of the
KV offload connectors) whose name begins with ``vllm:``. Names that stand in the sources and in no construction that
could be followed are listed as unresolved, so that nothing is missed silently. The Rust front end is not read. Exit
codes: 0 no drift, 1 drift, 2 no such sources.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from obs_exporter.stacks.catalogue import Catalogue, Engine, catalogue

PREFIX = "vllm:"
HIDDEN = "show_hidden_metrics"
_KIND = re.compile(r"(gauge|counter|histogram)", re.IGNORECASE)
_NAME = re.compile(r"vllm:[a-z][a-z0-9_]*$")
_SUFFIX = re.compile(r"_(bucket|sum|count|created)$")


@dataclass(slots=True)
class Sources:
    """What the sources register: exposed name without prefix -> kind; which are hidden; what was not followed."""

    kinds: dict[str, str] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    unresolved: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Drift:
    """How sources and catalogue differ; each list is sorted."""

    added: list[str]
    removed: list[str]
    retyped: list[str]
    newly_hidden: list[str]
    shown_again: list[str]
    unresolved: list[str]

    @property
    def none(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.retyped or self.newly_hidden or self.shown_again)


def read(tree: Path) -> Sources:
    """Read the Python sources under ``tree/vllm``. Raises ``FileNotFoundError`` where there are none."""
    package = tree / "vllm"
    if not package.is_dir():
        raise FileNotFoundError(package)
    modules = {}
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if PREFIX in text or _KIND.search(text):
            try:
                modules[path] = ast.parse(text)
            except SyntaxError:
                continue
    constants = _constants(modules)
    found = Sources()
    for module in modules.values():
        _Reader(found, constants).visit(module)
    followed = set(found.kinds)
    mentioned = {_exposed(name, "") for module in modules.values() for name in _mentions(module)}
    counters = {name.removesuffix("_total") for name in followed}
    found.unresolved = {
        name
        for name in mentioned - followed - counters
        if not any(known.startswith(f"{name}_") for known in followed)  # the beginning of names that were followed
    }
    return found


def _constants(modules: Mapping[Path, ast.Module]) -> dict[str, str]:
    """Return the string constants of modules and classes: by name, and by ``Class.NAME``."""
    found: dict[str, str] = {}
    for _ in range(2):  # a second round follows constants that are made of others
        for module in modules.values():
            for node in ast.walk(module):
                scope = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                for statement in node.body if isinstance(node, ast.Module | ast.ClassDef) else []:
                    targets, value = _assigned(statement)
                    text = _text(value, found) if value is not None else ""
                    if text.startswith(PREFIX):
                        found.update({scope + target: text for target in targets})
    return found


def _assigned(statement: ast.stmt) -> tuple[list[str], ast.expr | None]:
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)], statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id], statement.value
    return [], None


def _text(node: ast.expr, constants: Mapping[str, str]) -> str:
    """Return the text of an expression, or "" where it cannot be told from the sources."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = node.value
        owner_name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if node.attr == "value":
            return _text(owner, constants)
        return constants.get(f"{owner_name}.{node.attr}", "")
    if isinstance(node, ast.JoinedStr):
        parts = [_text(v.value if isinstance(v, ast.FormattedValue) else v, constants) for v in node.values]
        return "".join(parts) if all(parts) else ""
    return ""


def _mentions(module: ast.Module) -> Iterator[str]:
    """Yield every string of a module that is a whole metric name."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.match(node.value):
            yield node.value


def _exposed(name: str, kind: str) -> str:
    """Return the name without prefix, as a scraper sees it: prometheus_client adds ``_total`` to counters."""
    stem = name.removeprefix(PREFIX)
    return stem + "_total" if kind == "counter" and not stem.endswith("_total") else stem


class _Reader(ast.NodeVisitor):
    """Walks one module and notes every construction of a metric."""

    def __init__(self, found: Sources, constants: Mapping[str, str]) -> None:
        self.found = found
        self.constants = constants
        self.hidden = 0
        self.function: list[ast.AST] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.function.append(node)
        self.generic_visit(node)
        self.function.pop()

    def visit_If(self, node: ast.If) -> None:
        test = ast.unparse(node.test)
        hides = HIDDEN in test and not test.startswith("not ")
        self.hidden += hides
        for statement in node.body:
            self.visit(statement)
        self.hidden -= hides
        for statement in node.orelse:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(node.value, ast.Call):
                self._note([_text(target.slice, self.constants)], _kind(node.value))
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and isinstance(value, ast.Call):
                self._note([_text(key, self.constants)], _kind(value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        kind = _kind(node)
        argument = next(
            (word.value for word in node.keywords if word.arg == "name"), node.args[0] if node.args else None
        )
        if kind and argument is not None:
            text = _text(argument, self.constants)
            looped = isinstance(argument, ast.Name) and not text and self.function
            self._note(self._looped() if looped else [text], kind)
        self.generic_visit(node)

    def _looped(self) -> list[str]:
        """Return the names that a variable can have: first items of tuples and values of assignments around it."""
        found = []
        for node in ast.walk(self.function[-1]):
            if isinstance(node, ast.Tuple) and node.elts:
                found.append(_text(node.elts[0], self.constants))
            elif isinstance(node, ast.Assign):
                found.append(_text(node.value, self.constants))
        return found

    def _note(self, names: list[str], kind: str) -> None:
        for name in names:
            if kind and name.startswith(PREFIX):
                exposed = _exposed(name, kind)
                self.found.kinds.setdefault(exposed, kind)
                (self.found.hidden if self.hidden else self.found.shown).add(exposed)


def _kind(call: ast.Call) -> str:
    """Return the kind of metric that a call makes, by the name of what is called, or ""."""
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    match = _KIND.search(name)
    return match.group(1).lower() if match else ""


def compare(sources: Sources, table: Catalogue, version: str) -> Drift:
    """Hold sources against the newest release of the catalogue that is not newer than ``version``."""
    known = table.families(Engine(table.nearest(version), "V1"))
    hidden = sources.hidden - sources.shown
    retyped = [
        f"{name}: {table.types[name]} -> {kind}"
        for name, kind in sources.kinds.items()
        if name in known and table.types[name] not in (kind, "info")
    ]
    return Drift(
        added=sorted(sources.kinds.keys() - known.keys()),
        removed=sorted(known.keys() - sources.kinds.keys()),
        retyped=sorted(retyped),
        newly_hidden=sorted(name for name in hidden if name in known and known[name].status != "hidden"),
        shown_again=sorted(name for name in sources.shown if name in known and known[name].status == "hidden"),
        unresolved=sorted(name for name in sources.unresolved if not _SUFFIX.search(name)),
    )


def report(drift: Drift, base: str) -> str:
    """Write the drift for people."""
    lines = []
    for title, names in (
        ("added", drift.added),
        ("removed", drift.removed),
        ("retyped", drift.retyped),
        ("newly hidden", drift.newly_hidden),
        ("shown again", drift.shown_again),
        ("named in the sources, not followed", drift.unresolved),
    ):
        lines += [f"{title} ({len(names)})", *(f"  {name}" for name in names)] if names else []
    if drift.none:
        lines.append(f"no drift against the catalogue's {base}")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(description="How a vLLM release differs from the catalogue.")
    parser.add_argument("tree", type=Path, help="the unpacked source distribution")
    parser.add_argument("--version", required=True, help="its version, e.g. 0.34.0")
    asked = parser.parse_args(argv)
    try:
        sources = read(asked.tree)
    except FileNotFoundError as error:
        print(f"Error: {error}: no such folder; give the unpacked source distribution", file=sys.stderr)
        return 2
    drift = compare(sources, catalogue(), asked.version)
    print(report(drift, catalogue().nearest(asked.version)), end="")
    return 0 if drift.none else 1


if __name__ == "__main__":
    sys.exit(main())
