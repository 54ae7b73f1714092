"""Configuration: YAML into frozen values, unknown keys refused, every mistake with file, line and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from obs_exporter.derive.model import Settings
from obs_exporter.errors import ConfigError, InputError
from obs_exporter.sources.scrape import DEFAULT_TIMEOUT, Access, metrics_url, redacted
from obs_exporter.stacks import STACKS, UNKNOWN, Claims, Known, as_version
from obs_exporter.wsgi import split_address

DEFAULT_LISTEN = "127.0.0.1:9750"
DEFAULT_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """One target: its name in the ``target`` label, its stack, how to reach it, and what is claimed of its versions.

    ``engine_logs`` are globs of its engine's log files, ``gpu`` asks the GPU driver of this machine, ``settings`` are
    what the page does not say. ``sample_seconds`` is the period of looks between the scrapes where a signal is an
    integral over looks (0: none).
    """

    name: str
    stack: str
    access: Access
    claims: Claims = field(default_factory=Claims)
    api_url: str = ""
    engine_logs: tuple[str, ...] = ()
    gpu: bool = False
    settings: Settings = field(default_factory=Settings)
    sample_seconds: float = DEFAULT_SAMPLE_SECONDS


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration: where to listen and what to scrape."""

    listen: tuple[str, int]
    targets: tuple[Target, ...]


def listen_address(text: str) -> tuple[str, int]:
    """Split ``HOST:PORT`` (``:PORT`` means every address; ``[::1]:PORT`` for IPv6).

    Raises ``ValueError`` with what was expected.
    """
    address = split_address(text)
    if address is None:
        raise ValueError(f"{text!r} is no HOST:PORT, such as 127.0.0.1:9750 or :9750")
    return address


def claimed(text: str, source: str = "given") -> Known:
    """Return a version that the user gives. Raises ``ValueError`` for text that is none."""
    return Known((as_version(text),), source) if text else UNKNOWN


def load(path: Path) -> Config:
    """Read a configuration file.

    Raises ``ConfigError`` for what is wrong in it and ``InputError`` where it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: this is no UTF-8 text") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(str(path), line, f"this is no YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(str(path), 1, f"this is no YAML: {error}") from None
    if node is None:
        raise ConfigError(str(path), 1, "the file is empty; it needs targets:")
    reader = _Reader(str(path))
    top = reader.mapping(node, "the file", _TOP)
    if "targets" not in top:
        raise ConfigError(str(path), 1, "targets: is missing")
    names = [target.name for target, _ in top["targets"]]
    for target, line in top["targets"]:
        if names.count(target.name) > 1:
            raise ConfigError(str(path), line, f"two targets are named {target.name!r}; names must differ")
    return Config(top.get("listen", listen_address(DEFAULT_LISTEN)), tuple(target for target, _ in top["targets"]))


class _Reader:
    """Walks YAML nodes and knows where each stands."""

    def __init__(self, file: str) -> None:
        self.file = file

    def fail(self, node: yaml.Node, message: str) -> ConfigError:
        return ConfigError(self.file, node.start_mark.line + 1, message)

    def mapping(self, node: yaml.Node, where: str, fields: Mapping[str, _Field]) -> dict[str, Any]:
        """Read a mapping with these fields only; each value through its own reader."""
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"{where} must be a mapping of {', '.join(fields)}")
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key not in fields:
                near = difflib.get_close_matches(key, fields, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(fields)}"
                raise self.fail(key_node, f"{where}: unknown key {key!r}{hint}")
            if key in values:
                raise self.fail(key_node, f"{where}: {key!r} stands twice")
            values[key] = fields[key](self, value_node, f"{where}: {key}")
        return values

    def scalar(self, node: yaml.Node, where: str, expected: str) -> str:
        """Read a scalar as its text."""
        if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
            raise self.fail(node, f"{where} must be {expected}")
        return str(node.value)


_Field = Callable[[_Reader, yaml.Node, str], Any]


def _text(expected: str, read: Callable[[str], Any] = str) -> _Field:
    """Make a field of a scalar that ``read`` understands; its ``ValueError`` becomes the message."""

    def field(reader: _Reader, node: yaml.Node, where: str) -> Any:
        text = reader.scalar(node, where, expected)
        try:
            return read(text)
        except ValueError as error:
            raise reader.fail(node, f"{where} must be {expected}: {error}") from None

    return field


def _stack(text: str) -> str:
    if text not in STACKS:
        raise ValueError(f"{text!r} is none of them")
    return text


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 60:
        raise ValueError(f"{text} is outside 0 to 60")
    return value


def _period(text: str) -> float:
    return 0.0 if float(text) == 0 else _seconds(text)


def _age(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 3600:
        raise ValueError(f"{text} is outside 1 to 3600")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"{text} is less than 1")
    return value


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither")
    return text == "true"


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is empty or has control characters")
    return text


def _url(text: str) -> str:
    metrics_url(text)
    return text


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError(f"{text} does not exist")
    return text


def _globs(reader: _Reader, node: yaml.Node, where: str) -> tuple[str, ...]:
    """Read one glob or a list of them."""
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return tuple(reader.scalar(item, where, "a glob of log files, or a list of them") for item in items)


_TLS: dict[str, _Field] = {
    "ca_file": _text("a file of certificates", _file),
    "skip_verify": _text("true or false", _boolean),
}

_TARGET: dict[str, _Field] = {
    "name": _text("a name", _name),
    "stack": _text(f"one of {', '.join(STACKS)}", _stack),
    "url": _text("an http or https URL", _url),
    "api_url": _text("an http or https URL", _url),
    "stack_version": _text("a version such as 2.60.0", claimed),
    "engine_version": _text("a version such as 0.32.0", claimed),
    "timeout_seconds": _text("a number of seconds above 0, at most 60", _seconds),
    "bearer_token_file": _text("a file that holds the token", str),
    "tls": lambda reader, node, where: reader.mapping(node, where, _TLS),
    "engine_logs": _globs,
    "gpu": _text("true or false", _boolean),
    "max_num_seqs": _text("a number of slots", _count),
    "block_size": _text("a number of tokens", _count),
    "kv_capacity_tokens": _text("a number of tokens", _count),
    "estimate_kv_usage": _text("true or false", _boolean),
    "stale_after_seconds": _text("a number of seconds, 1 to 3600", _age),
    "sample_seconds": _text("0 for never, or a number of seconds, at most 60", _period),
}


def _targets(reader: _Reader, node: yaml.Node, where: str) -> list[tuple[Target, int]]:
    """Read the list of targets, each with its line."""
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        raise reader.fail(node, f"{where} must be a list with at least one target")
    targets = []
    for index, item in enumerate(node.value):
        place = f"targets[{index}]"
        values = reader.mapping(item, place, _TARGET)
        for needed in ("stack", "url"):
            if needed not in values:
                raise reader.fail(item, f"{place}: {needed} is missing")
        targets.append((_target(values), item.start_mark.line + 1))
    return targets


def _target(values: dict[str, Any]) -> Target:
    """Build a target of validated values; without a name it is called by its address."""
    tls = values.get("tls", {})
    access = Access(
        values["url"],
        timeout=values.get("timeout_seconds", DEFAULT_TIMEOUT),
        bearer_token_file=values.get("bearer_token_file", ""),
        ca_file=tls.get("ca_file", ""),
        skip_verify=tls.get("skip_verify", False),
    )
    claims = Claims(values.get("stack_version", UNKNOWN), values.get("engine_version", UNKNOWN))
    settings = Settings(
        max_num_seqs=values.get("max_num_seqs", 0),
        block_size=values.get("block_size", 0),
        kv_capacity=float(values.get("kv_capacity_tokens", 0)),
        estimate_kv_usage=values.get("estimate_kv_usage", False),
        stale_after=values.get("stale_after_seconds", Settings().stale_after),
    )
    return Target(
        values.get("name") or target_name(values["url"]),
        values["stack"],
        access,
        claims,
        values.get("api_url", ""),
        values.get("engine_logs", ()),
        values.get("gpu", False),
        settings,
        values.get("sample_seconds", DEFAULT_SAMPLE_SECONDS),
    )


def target_name(url: str) -> str:
    """Return the default name of a target: host and port, never a secret."""
    return redacted(metrics_url(url)).split("://", 1)[1].partition("/")[0]


_TOP: dict[str, _Field] = {"listen": _text("HOST:PORT", listen_address), "targets": _targets}
