"""The layer's queue while proxies and replicas report every 10 s, each at its own moment: known truth, known bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from obs_exporter.derive.layer_queue import NONE, Point, State, Sums, limits, step

EDGES = (0.1, 0.4, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)
LOAD_ENDS = 400.0


@dataclass
class Process:
    """What one process observed, and what it last told; it tells every 10 s."""

    phase: float
    seen: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)

    def tell(self, now: float) -> None:
        if (now - self.phase) % 10 < 1:
            self.told = list(self.seen)


def _sums(processes: list[Process]) -> Sums:
    told = [one for process in processes for one in process.told]
    low, high = limits([(edge, float(sum(one <= edge for one in told))) for edge in EDGES])
    return Sums(math.fsum(told), float(len(told)), low, high)


def _simulate(seed: int, proxies: int, replicas: int) -> Iterator[tuple[float, Point, float, int]]:
    """Yield (second, point, all waits until now, requests until now), each second until 60 s after the load's end."""
    chance = random.Random(seed)
    edge = [Process(chance.uniform(0, 10)) for _ in range(proxies)]
    inside = [Process(chance.uniform(0, 10)) for _ in range(replicas)]
    waited, count = 0.0, 0
    for second in range(int(LOAD_ENDS) + 60):
        for _ in range(chance.randrange(0, 7) if second < LOAD_ENDS else 0):
            wait, service = chance.expovariate(1 / 0.8), chance.choice((0.05, 0.3, 3.0))
            chance.choice(edge).seen.append(wait + service)
            chance.choice(inside).seen.append(service)
            waited, count = waited + wait, count + 1
        for process in (*edge, *inside):
            process.tell(second)
        lone = proxies == replicas == 1
        yield float(second), Point(_sums(edge), NONE, _sums(inside), lone), waited, count


@pytest.mark.parametrize(("proxies", "replicas"), [(1, 1), (1, 3), (2, 2)])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("every", [5, 15])
def test_under_load_the_mean_is_near_and_at_rest_it_is_exact(
    proxies: int, replicas: int, seed: int, every: int
) -> None:
    state, means = State(), []
    waited, count = 0.0, 0
    for second, point, waited, count in _simulate(seed, proxies, replicas):
        if int(second) % every:
            continue
        state = step(state, {"": point}, second)
        total = state.groups[""].total
        assert total.low <= waited + 1e-6
        if second > 200 and total.count:
            means.append(total.sum / total.count / (waited / count))
    assert means, "nothing was published under load"
    assert 0.8 < min(means) <= max(means) < 1.25
    group = state.groups[""]
    assert (group.total.count, group.left_out) == (count, 0)
    assert group.total.sum >= waited - 1e-6
    assert group.total.high >= waited - 1e-6
    if group.exact:
        assert group.total.sum == pytest.approx(waited)
