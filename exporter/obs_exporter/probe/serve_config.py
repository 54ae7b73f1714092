"""The configuration of ``obs-probe serve``: a YAML file, checked as a whole; unknown keys are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from obs_exporter.probe.outcome import SLO
from obs_exporter.probe.publish import listen_address
from obs_exporter.probe.request import APIS, RequestBuilder, RequestError, Shape, api_key, parse_endpoint
from obs_exporter.probe.scenarios import SCENARIOS
from obs_exporter.probe.transport import TLSOptions, TransportError

DEFAULT_LISTEN = "127.0.0.1:9109"
_TOKENS_PER_WORD = 1.4
_EXTRA_WORDS = 24
"""The unique prefix and the chat template's own tokens, counted in words."""
_PER_MINUTE = (0.0001, 6000.0)
"""The rates in requests a minute that make sense: from one a week to what ``run`` is for."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the file, the key and what to write."""


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """One target.

    The budget of one process is kept whatever happens: in any 60 s at most ``requests_per_minute`` requests (a fraction
    above 1 is rounded down; 0.5 is one in any 120 s), and in any hour at most ``tokens_per_hour`` tokens, prompt
    (estimated) and answer together. ``jitter`` moves each request by up to that share of the interval, so that probes
    do not march in step; where the budget has no room for an earlier request it only moves them later.
    ``api_key_env`` names an environment variable.
    """

    name: str
    url: str
    model: str
    scenario: str = "short"
    api: str = "chat"
    requests_per_minute: float = 2.0
    tokens_per_hour: int = 20000
    jitter: float = 0.2
    max_tokens: int = 32
    timeout_s: float = 60.0
    api_key_env: str | None = None
    ca_file: str | None = None
    insecure: bool = False

    @property
    def prompt_tokens(self) -> int:
        """The tokens of one prompt, estimated on the high side, so that the budget is kept."""
        scenario = SCENARIOS[self.scenario]
        return int((scenario.prompt_words + scenario.shared_words + _EXTRA_WORDS) * _TOKENS_PER_WORD)

    @property
    def request_tokens(self) -> int:
        """The most tokens that one request may take, prompt and answer."""
        return self.prompt_tokens + self.max_tokens


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """All targets, the limits of a good request, and where /metrics is served."""

    targets: tuple[TargetConfig, ...]
    slo: SLO = field(default_factory=SLO)
    listen: str = DEFAULT_LISTEN


def load_config(path: Path) -> ServeConfig:
    """Read and check a file. Raises ConfigError."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {_yaml_problem(error)}") from None
    try:
        return parse_config(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _yaml_problem(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Return what is wrong and in which line, without the line itself: it may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    return f"{problem or error.__class__.__name__}{where}"


def check_here(config: ServeConfig) -> None:
    """Check what only this machine knows: the environment's API keys, and the files of certificates.

    Raises ConfigError naming the key; nothing is sent.
    """
    for number, target in enumerate(config.targets):
        where = f"targets[{number}]"
        try:
            api_key(target.api_key_env)
        except RequestError as error:
            raise ConfigError(f"{where}.api_key_env: {error}") from None
        if target.ca_file is not None:
            try:
                TLSOptions(target.ca_file).context()
            except TransportError as error:
                raise ConfigError(f"{where}.ca_file: {error}") from None


def parse_config(data: object) -> ServeConfig:
    """Return the checked configuration. Raises ConfigError naming the key."""
    top = _mapping(data, "the file", {"targets", "slo", "listen"})
    targets = top.get("targets")
    if not isinstance(targets, list) or not targets:
        raise ConfigError("targets: give a list with at least one target")
    found = tuple(_target(one, f"targets[{number}]") for number, one in enumerate(targets))
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"targets: the name {name!r} is given twice")
    listen = top.get("listen", DEFAULT_LISTEN)
    if not isinstance(listen, str):
        raise ConfigError("listen: give HOST:PORT, for example 127.0.0.1:9109")
    try:
        listen_address(listen)
    except ValueError as error:
        raise ConfigError(f"listen: {error}") from None
    return ServeConfig(found, _slo(top.get("slo")), listen)


def _mapping(data: object, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: give keys and values, not {type(data).__name__}")
    unknown = sorted(str(key) for key in data if key not in keys)
    if unknown:
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}: known are {', '.join(sorted(keys))}")
    return data


def _slo(data: object) -> SLO:
    if data is None:
        return SLO()
    given = _mapping(data, "slo", {"ttft_s", "e2e_s", "tpot_s"})
    for key, value in given.items():
        if value is not None or key != "tpot_s":
            _positive(value, f"slo.{key}")
    return SLO(**given)


def _target(data: object, where: str) -> TargetConfig:
    given = _mapping(data, where, {row.name for row in fields(TargetConfig)})
    for row in fields(TargetConfig):
        if row.default is MISSING and row.name not in given:
            raise ConfigError(f"{where}: {row.name} is missing")
        if row.name in given:
            _check_type(given[row.name], str(row.type), f"{where}.{row.name}")
    target = TargetConfig(**given)
    for key in ("requests_per_minute", "tokens_per_hour", "max_tokens", "timeout_s"):
        _positive(getattr(target, key), f"{where}.{key}")
    if not 0 <= target.jitter < 1:
        raise ConfigError(f"{where}.jitter: give a share from 0 to below 1, not {target.jitter}")
    if target.scenario not in SCENARIOS or target.scenario == "chat":
        known = ", ".join(sorted(set(SCENARIOS) - {"chat"}))
        raise ConfigError(f"{where}.scenario: unknown scenario {target.scenario!r}: use {known}")
    if target.api not in APIS:
        raise ConfigError(f"{where}.api: unknown API {target.api!r}: use {', '.join(APIS)}")
    _check_request(target, where)
    return target


def _check_request(target: TargetConfig, where: str) -> None:
    """Raise ConfigError where no request could be built or paid for."""
    for key in ("name", "model"):
        if not getattr(target, key).strip():
            raise ConfigError(f"{where}.{key}: is empty")
    if target.api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", target.api_key_env):
        raise ConfigError(f"{where}.api_key_env: give the name of an environment variable, not the key itself")
    least, most = _PER_MINUTE
    if not least <= target.requests_per_minute <= most:
        raise ConfigError(f"{where}.requests_per_minute: give a number from {least:g} to {most:g}")
    if target.request_tokens > target.tokens_per_hour:
        raise ConfigError(
            f"{where}.tokens_per_hour: {target.tokens_per_hour} is less than one request may take (prompt about"
            f" {target.prompt_tokens}, max_tokens {target.max_tokens}), so none would be sent: give at least"
            f" {target.request_tokens}"
        )
    try:
        endpoint = parse_endpoint(target.url)
    except RequestError as error:
        raise ConfigError(f"{where}.url: {error}") from None
    try:
        RequestBuilder(endpoint, Shape(target.model, target.api))
    except RequestError as error:
        raise ConfigError(f"{where}: {error}") from None


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,), "str | None": (str, type(None)), "float": (float, int), "int": (int,), "bool": (bool,),
}  # fmt: skip


def _check_type(value: object, kind: str, where: str) -> None:
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{where}: give a {kind.partition(' ')[0]}, not {value!r}")


def _positive(value: object, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"{where}: give a number above 0, not {value!r}")
