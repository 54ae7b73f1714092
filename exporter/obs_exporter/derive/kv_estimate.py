"""KV cache usage where nothing prints it: requests in the batch x their mean context over the capacity. An estimate.

Off unless asked for. Of the requests that run at a moment long answers are a larger share than of those that finished,
since they stay longer: what is seen at a random moment has the mean E[L^2] / E[L], not E[L]. The buckets of a histogram
give it roughly; such a request has half of its answer on average. Whether long prompts go with long answers is on no
page, nor is it known how far a batch differs from the mean of its kind. So the bounds are what must be true: a request
in the batch holds one block at least and the longest context that the engine takes at most. They are wide.

Prefix sharing, which the arithmetic does not see, makes the true usage smaller than the estimate, and never smaller
than the lower bound: the block that a request writes to is its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK = 16
"""Tokens a block, vLLM's default, where nothing tells."""


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


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that run, as far as is known: how many probably, at least and at most."""

    running: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Cache:
    """``capacity`` in tokens; ``concurrency``: how many requests of full context fit (0: not known); a ``block``."""

    capacity: float
    concurrency: float = 0.0
    block: float = 0.0


def estimate(batch: Batch, totals: Totals, cache: Cache, bias: float = 1.0) -> Estimate | None:
    """Estimate from the requests running, what was counted so far, and the cache.

    ``bias``: how many times longer answers are among those running than among those finished. None where the numbers
    allow no estimate.
    """
    running, capacity = batch.running, cache.capacity
    if capacity <= 0 or running < 0 or totals.finished <= 0 or min(totals.prompt_tokens, totals.generated) < 0:
        return None
    prompt = totals.prompt_tokens / max(totals.begun, totals.finished)
    answer = totals.generated / (totals.finished + running / 2) * max(1.0, bias)
    block = cache.block or BLOCK
    lower = min(1.0, batch.least * (cache.block or 1) / capacity)
    full = batch.most / cache.concurrency + batch.most * block / capacity if cache.concurrency > 0 else 1.0
    upper = max(lower, min(1.0, full if batch.most else 0.0))
    return Estimate(min(upper, max(lower, running * (prompt + answer / 2) / capacity)), lower, upper)


def length_bias(buckets: Sequence[tuple[float, float]], total: float) -> float:
    """Return E[L^2] / E[L]^2 by a histogram's cumulative buckets, 1 where it is empty.

    Within a bucket the middle stands for all. Those above the last edge have what remains of the sum ``total``.
    """
    counts, lengths = [], []
    edge = below = told = 0.0
    for upper, cumulative in buckets:
        count = cumulative - below
        length = (edge + upper) / 2
        if math.isinf(upper):
            length = max(edge, (total - told) / count) if count else 0.0
        counts.append(count)
        lengths.append(length)
        told += count * length
        edge, below = upper, cumulative
    squares = math.fsum(count * length * length for count, length in zip(counts, lengths, strict=True))
    return squares * below / told**2 if told > 0 and math.isfinite(squares) else 1.0
