"""KV cache usage where nothing prints it: requests in the batch x their mean context over the capacity. An estimate.

Off unless asked for. A running request holds its prompt from the start and half of its answer on average; between the
prompt alone and the whole of both lie the bounds. Prefix sharing, which the arithmetic does not see, makes the true
usage smaller; requests that are longer than the mean stay longer, which makes it larger.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio 0 to 1 with its bounds."""

    value: float
    lower: float
    upper: float


def estimate(running: float, prompt: float, answer: float, capacity: float) -> Estimate | None:
    """Estimate from the requests running, the mean tokens of a prompt and of an answer, and the capacity in tokens.

    None where the numbers allow none.
    """
    if capacity <= 0 or running < 0 or prompt < 0 or answer < 0:
        return None

    def share(context: float) -> float:
        return min(1.0, running * context / capacity)

    return Estimate(share(prompt + answer / 2), share(prompt), share(prompt + answer))
