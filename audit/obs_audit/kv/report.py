"""Write a KV cache calculation for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from obs_audit.kv.arithmetic import DTYPES, Capacity, Cost, layer_bytes
from obs_audit.kv.checks import GIB, Check
from obs_audit.kv.kinds import Keeps
from obs_audit.kv.shape import Layer, Shape

KIB = 1024


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that one calculation found. ``capacity`` is None where no number of blocks or bytes is known."""

    shape: Shape
    dtype: str
    tensor_parallel: int
    block_size: int
    max_model_len: int
    cost: Cost
    capacity: Capacity | None
    checks: tuple[Check, ...]

    @property
    def differs(self) -> bool:
        """Whether the engine's own lines say otherwise."""
        return any(not check.agrees for check in self.checks)


def groups(shape: Shape) -> list[tuple[Layer, int]]:
    """Return the different kinds of layers with their numbers, in the order in which they first appear."""
    kinds: dict[Layer, int] = {}
    for layer in shape.layers:
        kinds[layer] = kinds.get(layer, 0) + 1
    return list(kinds.items())


def _kind(result: Result, layer: Layer, count: int) -> str:
    size = layer_bytes(layer, result.dtype, result.tensor_parallel)
    element = f"{DTYPES[result.dtype]:g} B"
    if layer.keeps is Keeps.NOTHING:
        return f"{count} layers keep {layer.keeps}"
    if layer.keeps is Keeps.LATENT:
        how = f"{layer.head_dim} elements x {element}, kept once"
    else:
        how = f"2 x {_heads(layer.heads, result.tensor_parallel)} x {layer.head_dim} x {element}"
        how += f" / {result.tensor_parallel} GPUs" if 1 < result.tensor_parallel <= layer.heads else ""
    how += f" + {layer.extra_bytes} B of index" if layer.extra_bytes else ""
    bound = {Keeps.WINDOW: "tokens", Keeps.CHUNK: "tokens at most"}.get(layer.keeps, "")
    bound = f", of the last {layer.window:,} {bound}" if bound else ""
    return f"{count} layers of {layer.keeps}: {how} = {size:,.0f} B a token and layer{bound}"


def _heads(heads: int, gpus: int) -> str:
    """Say the key and value heads: where GPUs outnumber them, each keeps one, and so some keep the same one."""
    if gpus <= heads:
        return f"{heads} key/value heads"
    return f"1 key/value head (of {heads}, each copied to {gpus // heads} of {gpus} GPUs)"


def text(result: Result) -> str:
    """Write it for people."""
    cost = result.cost
    where = "" if result.tensor_parallel == 1 else f" on each of {result.tensor_parallel} GPUs"
    lines = [_kind(result, layer, count) for layer, count in groups(result.shape)]
    lines.append(f"KV cache: {cost.per_token:,.0f} B a token ({cost.per_token / KIB:.1f} KiB) in {result.dtype}{where}")
    if abs(cost.exaggeration - 1) > 1e-9:
        times = f"{cost.exaggeration:.3g} times too much" if cost.exaggeration > 1 else "too little"
        lines.append(
            f"with attention heads ({result.shape.attention_heads}) in place of these, the formula says "
            f"{cost.by_heads / KIB:.1f} KiB: {times}"
        )
    if result.max_model_len:
        size = cost.request(result.max_model_len, result.block_size)
        lines.append(f"a request of {result.max_model_len:,} tokens: {size / GIB:.3f} GiB{where}")
    found = result.capacity
    if found is not None:
        lines.append(
            f"{found.blocks:,} blocks of {result.block_size} tokens: {found.tokens:,} tokens, "
            f"{found.bytes / GIB:.2f} GiB"
            + (f", {found.max_concurrency:.2f}x of {result.max_model_len:,} tokens" if found.max_concurrency else "")
        )
        if cost.windowed or cost.chunked:
            kind = "sliding" if cost.windowed else "chunked"
            lines.append(f"more requests fit than that, since {kind} layers give blocks back")
    lines += [f"note: {note}" for note in result.shape.notes]
    lines += [f"{'agrees' if check.agrees else 'DIFFERS'}: {check.message}" for check in result.checks]
    return "\n".join(lines) + "\n"


def as_json(result: Result) -> str:
    """Write it for programs."""
    cost = result.cost
    document = {
        "schema_version": 1,
        "model_type": result.shape.model_type,
        "dtype": result.dtype,
        "tensor_parallel": result.tensor_parallel,
        "block_size": result.block_size,
        "layers": [
            {
                "count": count, "keeps": layer.keeps.name.lower(), "heads": layer.heads, "head_dim": layer.head_dim,
                "window": layer.window or None,
                "bytes_per_token": layer_bytes(layer, result.dtype, result.tensor_parallel),
            }
            for layer, count in groups(result.shape)
        ],
        "bytes_per_token": cost.per_token,
        "bytes_per_token_by_attention_heads": cost.by_heads,
        "attention_heads_factor": cost.exaggeration,
        "request": (
            {"tokens": result.max_model_len, "bytes": cost.request(result.max_model_len, result.block_size)}
            if result.max_model_len
            else None
        ),
        "capacity": asdict(result.capacity) if result.capacity is not None else None,
        "notes": list(result.shape.notes),
        "checks": [asdict(check) for check in result.checks],
        "exit_code": int(result.differs),
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


FORMATS = {"text": text, "json": as_json}
