"""What is simulated: the engine, the serving layer in front of it, the requests, and what goes wrong when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any, get_type_hints

from obs_exporter.simulator.workload import PHASES, Abandon, Bursts, Lengths, Outage, Phase, Restart, Steady


class ConfigError(ValueError):
    """The description of a simulation is wrong; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine: its slots, its KV cache and the time that its steps take.

    ``num_blocks`` counts as vLLM V1 does: one block is kept empty, so ``num_blocks - 1`` can be used. A step takes
    ``step_s`` + ``prefill_token_s`` for each prompt token computed + ``decode_seq_s`` for each decoding request, times
    a random factor within 1 +- ``jitter``.
    """

    model: str = "tiny"
    max_num_seqs: int = 16
    num_blocks: int = 1025
    block_size: int = 16
    max_model_len: int = 4096
    max_num_batched_tokens: int = 8192
    step_s: float = 0.020
    prefill_token_s: float = 0.0001
    decode_seq_s: float = 0.0005
    jitter: float = 0.0

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold."""
        return self.num_blocks - 1


@dataclass(frozen=True, slots=True)
class Layer:
    """The serving layer in front of the engine.

    Every request first takes ``overhead_s``, then waits in order until the layer holds fewer than ``max_ongoing``
    requests open (0: no limit) and no other request is being handed over, which takes ``handover_s`` each. With
    ``holds_when_down`` the layer keeps requests while the engine restarts; without it the client is refused.
    ``flush_s`` > 0 sends tokens to the client in bursts of that period (Ray 2.44 to 2.48: 0.05 s).
    """

    name: str = "direct"
    overhead_s: float = 0.0
    handover_s: float = 0.0
    max_ongoing: int = 0
    holds_when_down: bool = False
    flush_s: float = 0.0


LAYERS: dict[str, Layer] = {
    "direct": Layer(),
    "triton": Layer("triton", handover_s=0.0004),
    "ray": Layer("ray", overhead_s=0.004, max_ongoing=64, holds_when_down=True),
    "ray-2.44": Layer("ray-2.44", overhead_s=0.006, max_ongoing=64, holds_when_down=True, flush_s=0.05),
}
"""The usual layers by name. Ray's overhead and limit are examples, not measurements of anybody's cluster."""


@dataclass(frozen=True, slots=True)
class Config:
    """One simulation. ``epoch`` is the Unix time of simulated second 0."""

    engine: Engine = field(default_factory=Engine)
    layer: Layer = field(default_factory=Layer)
    phases: tuple[Phase, ...] = (Steady(seconds=60.0, rate=4.0),)
    prompt_tokens: Lengths = field(default_factory=lambda: Lengths(128.0, 0.3))
    output_tokens: Lengths = field(default_factory=lambda: Lengths(64.0, 0.3))
    cached_prefix_tokens: int = 0
    abandon: Abandon | None = None
    restarts: tuple[Restart, ...] = ()
    outages: tuple[Outage, ...] = ()
    epoch: float = 1_800_000_000.0

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        check(self)


def check(config: Config) -> None:
    """Refuse a configuration that cannot run.

    Raises ConfigError with the field and the remedy.
    """
    engine, layer = config.engine, config.layer
    parts: dict[str, Any] = {"engine": engine, "layer": layer, "abandon": config.abandon}
    for name in ("phases", "restarts", "outages"):
        parts |= {f"{name}[{index}]": part for index, part in enumerate(getattr(config, name))}
    for name, part in parts.items():
        _check_finite(part, name)
    for value, name, least in (
        (engine.max_num_seqs, "engine.max_num_seqs", 1),
        (engine.block_size, "engine.block_size", 1),
        (engine.max_model_len, "engine.max_model_len", 2),
        (engine.max_num_batched_tokens, "engine.max_num_batched_tokens", 1),
        (engine.num_blocks, "engine.num_blocks", 2),
        (layer.max_ongoing, "layer.max_ongoing", 0),
        (layer.overhead_s, "layer.overhead_s", 0),
        (layer.handover_s, "layer.handover_s", 0),
        (layer.flush_s, "layer.flush_s", 0),
        (engine.prefill_token_s, "engine.prefill_token_s", 0),
        (engine.decode_seq_s, "engine.decode_seq_s", 0),
        (config.cached_prefix_tokens, "cached_prefix_tokens", 0),
    ):
        if not value >= least:
            raise ConfigError(f"{name} is {value}, but it must be at least {least}")
    if not engine.step_s > 0:
        raise ConfigError(f"engine.step_s is {engine.step_s}, but a step must take time")
    if not 0 <= engine.jitter < 1:
        raise ConfigError(f"engine.jitter is {engine.jitter}, but it must be at least 0 and below 1")
    if engine.usable_blocks * engine.block_size < engine.max_model_len:
        raise ConfigError(
            f"engine.max_model_len is {engine.max_model_len}, but the KV cache holds only "
            f"{engine.usable_blocks * engine.block_size} tokens: raise engine.num_blocks or lower engine.max_model_len"
        )
    for index, phase in enumerate(config.phases):
        _check_phase(phase, f"phases[{index}]")
    abandon = config.abandon
    if abandon is not None and not (0 <= abandon.share <= 1 and abandon.after_s >= 0.001):
        # In a closed loop, clients that hang up at once would send for ever without time passing.
        raise ConfigError(f"abandon needs a share from 0 to 1 and an after_s of at least 0.001, not {abandon}")
    for restart in config.restarts:
        if not (restart.at >= 0 and restart.down_s > 0):
            raise ConfigError(f"a restart needs an at that is not negative and a down_s above 0, not {restart}")
    ordered = sorted(config.restarts, key=lambda restart: restart.at)
    for first, second in pairwise(ordered):
        if first.at + first.down_s > second.at:
            raise ConfigError(f"restarts overlap: one at {first.at} s is still down at {second.at} s")


def _check_finite(part: Any, where: str) -> None:
    for item in fields(part) if part is not None else ():
        value = getattr(part, item.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}.{item.name} is {value}, but it must be a finite number")


def _check_phase(phase: Phase, where: str) -> None:
    for item in fields(phase):
        value = getattr(phase, item.name)
        if not value >= 0:
            raise ConfigError(f"{where}.{item.name} is {value}, but it must be a number that is not negative")
    if isinstance(phase, Bursts) and not phase.every_s > 0:
        raise ConfigError(f"{where}.every_s is {phase.every_s}, but bursts need a time between them")


def load_config(data: Mapping[str, Any]) -> Config:
    """Build a configuration from plain data (YAML, JSON).

    ``layer`` may be the name of a usual layer; each phase has a ``kind``. Raises ConfigError on an unknown key, a
    missing one, or a value of the wrong type.
    """
    config: Config = _build(Config, data, "")
    return config


def _build(cls: Any, data: Any, where: str) -> Any:
    if cls is Layer and isinstance(data, str):
        if data not in LAYERS:
            raise ConfigError(f"{where} is {data!r}, but it must be one of {', '.join(LAYERS)}, or a mapping")
        return LAYERS[data]
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where or 'the configuration'} must be a mapping, not {type(data).__name__}")
    known = {item.name: item for item in fields(cls)}
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise ConfigError(f"unknown key {_join(where, unknown[0])}; known here: {', '.join(known)}")
    missing = sorted(name for name, item in known.items() if name not in data and _required(item))
    if missing:
        raise ConfigError(f"{_join(where, missing[0])} is missing")
    hints = get_type_hints(cls)
    values = {key: _value(hints[key], key, value, _join(where, key)) for key, value in data.items()}
    try:
        return cls(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def _required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _value(hint: Any, key: str, value: Any, where: str) -> Any:
    if key == "phases":
        return tuple(_phase(item, f"{where}[{index}]") for index, item in enumerate(_sequence(value, where)))
    if key in ("restarts", "outages"):
        cls = Restart if key == "restarts" else Outage
        return tuple(_build(cls, item, f"{where}[{index}]") for index, item in enumerate(_sequence(value, where)))
    if key == "abandon":
        return None if value is None else _build(Abandon, value, where)
    if is_dataclass(hint):
        return _build(hint, value, where)
    return _scalar(hint, value, where)


def _sequence(value: Any, where: str) -> Iterable[Any]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} must be a list, not {type(value).__name__}")
    return value


def _phase(data: Any, where: str) -> Phase:
    if not isinstance(data, Mapping) or data.get("kind") not in PHASES:
        raise ConfigError(f"{where} must be a mapping with a kind, one of {', '.join(PHASES)}")
    phase: Phase = _build(PHASES[data["kind"]], {key: value for key, value in data.items() if key != "kind"}, where)
    return phase


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise ConfigError(f"{where} must be of type {hint.__name__}, not {type(value).__name__}")
