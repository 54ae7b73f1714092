"""What is known of a target's versions, and which engine generation a version runs. Facts are rows; code walks them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generation:
    """Versions from ``first`` to ``last`` (inclusive, "" = open) of ``product`` run vLLM's engine ``generation``."""

    product: str
    first: str
    last: str
    generation: str
    source: str


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        "triton", "25.04", "25.09", "V0",
        "Triton's vLLM backend starts the engine in a background thread; vLLM 0.8.1 to 0.10.1.1 falls back to V0 there"
        " (vllm-project/vllm#18571, #19326)",
    ),
    Generation("engine", "0", "0.7.3", "V0", "V1 only with VLLM_USE_V1=1 before vLLM 0.8.0 (its notes)"),
    Generation("engine", "0.11.0", "", "V1", "vLLM removed V0 in 0.11.0 (its release notes)"),
)  # fmt: skip
"""Where no row fits (vLLM 0.8 to 0.10 outside Triton) the generation depends on settings: it is unknown unless told."""


def _parts(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.removeprefix("v").split("+")[0].split("."):
        digits = part[: next((i for i, char in enumerate(part) if not char.isdigit()), len(part))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def engine_generation(
    stack: str | None, stack_version: str | None, engine_version: str | None
) -> tuple[str | None, str]:
    """Return vLLM's engine generation (V0, V1 or None) and why; the stack's own row goes before the engine's."""
    for product, version in ((stack or "", stack_version), ("engine", engine_version)):
        if not version:
            continue
        at = _parts(version)
        for row in GENERATIONS:
            above = at >= _parts(row.first)
            below = not row.last or at[: len(_parts(row.last))] <= _parts(row.last)
            if row.product == product and above and below:
                return row.generation, row.source
    return None, "no version is given, or it runs either generation: give --engine-generation"
