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


@dataclass(frozen=True, slots=True)
class Totals:
    """What the engine counted since its start.

    Tokens of prompts (counted with a request's first token), tokens generated, requests that got their first token,
    requests that finished. Those that run have prompts and tokens in the first two, too.
    """

    prompt_tokens: float
    generated: float
    begun: float
    finished: float


def estimate(running: float, totals: Totals, capacity: float) -> Estimate | None:
    """Estimate from the requests running, what was counted so far, and the capacity in tokens.

    None where the numbers allow none.
    """
    if capacity <= 0 or running < 0 or totals.finished <= 0 or min(totals.prompt_tokens, totals.generated) < 0:
        return None
    prompt = totals.prompt_tokens / max(totals.begun, totals.finished)
    answer = totals.generated / (totals.finished + running / 2)
    most = totals.generated / totals.finished

    def share(context: float) -> float:
        return min(1.0, running * context / capacity)

    return Estimate(share(prompt + answer / 2), share(prompt), share(prompt + most))
