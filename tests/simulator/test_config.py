"""Configuration as data: what is wrong is said, with the place and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

import obs_exporter.simulator as package
from obs_exporter.simulator import (
    LAYERS,
    Abandon,
    Bursts,
    Closed,
    Config,
    ConfigError,
    Engine,
    Idle,
    Outage,
    Ramp,
    Restart,
    Steady,
    load_config,
)
from obs_exporter.simulator.workload import Lengths


def test_everything_can_be_said_in_data() -> None:
    config = load_config(
        {
            "engine": {"max_num_seqs": 4, "num_blocks": 300, "step_s": 1},
            "layer": "ray",
            "phases": [
                {"kind": "steady", "seconds": 10, "rate": 2.5},
                {"kind": "ramp", "seconds": 10, "from_rate": 1, "to_rate": 5},
                {"kind": "closed", "seconds": 10, "clients": 8, "think_s": 0.5},
                {"kind": "bursts", "seconds": 10, "size": 20, "every_s": 5},
                {"kind": "idle", "seconds": 30},
            ],
            "prompt_tokens": {"mean": 100},
            "abandon": {"share": 0.1, "after_s": 5},
            "restarts": [{"at": 20}],
            "outages": [{"start": 5, "end": 6}],
        }
    )
    assert config == Config(
        engine=Engine(max_num_seqs=4, num_blocks=300, step_s=1.0),
        layer=LAYERS["ray"],
        phases=(Steady(10.0, 2.5), Ramp(10.0, 1.0, 5.0), Closed(10.0, 8, 0.5), Bursts(10.0, 20, 5.0), Idle(30.0)),
        prompt_tokens=Lengths(100.0),
        abandon=Abandon(0.1, 5.0),
        restarts=(Restart(20.0),),
        outages=(Outage(5.0, 6.0),),
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"engin": {}}, "unknown key engin; known here: engine, layer"),
        ({"engine": {"slots": 4}}, "unknown key engine.slots"),
        ({"engine": []}, "engine must be a mapping, not list"),
        ({"engine": {"max_num_seqs": "4"}}, "engine.max_num_seqs must be of type int, not str"),
        ({"engine": {"max_num_seqs": True}}, "engine.max_num_seqs must be of type int, not bool"),
        ({"engine": {"max_num_seqs": 0}}, "engine.max_num_seqs is 0, but it must be at least 1"),
        ({"engine": {"step_s": 0}}, "a step must take time"),
        ({"engine": {"step_s": float("nan")}}, "engine.step_s is nan, but it must be a finite number"),
        ({"engine": {"jitter": 1.0}}, "engine.jitter is 1.0"),
        ({"engine": {"num_blocks": 10}}, "raise engine.num_blocks or lower engine.max_model_len"),
        ({"layer": "nginx"}, "layer is 'nginx', but it must be one of direct, triton, ray, ray-2.44"),
        ({"layer": {"overhead_s": -1}}, "layer.overhead_s is -1.0"),
        ({"phases": {}}, "phases must be a list"),
        ({"phases": [{"kind": "storm"}]}, "phases[0] must be a mapping with a kind, one of steady, ramp"),
        ({"phases": [{"kind": "steady", "seconds": 1}]}, "phases[0].rate is missing"),
        ({"phases": [{"kind": "steady", "seconds": -1, "rate": 1}]}, "phases[0].seconds is -1.0"),
        ({"phases": [{"kind": "steady", "seconds": float("inf"), "rate": 1}]}, "phases[0].seconds is inf"),
        ({"phases": [{"kind": "bursts", "seconds": 1, "size": 1, "every_s": 0}]}, "need a time between them"),
        ({"prompt_tokens": {"mean": 0}}, "prompt_tokens: lengths need a finite mean of at least 1"),
        ({"abandon": {"share": 1, "after_s": 0}}, "after_s of at least 0.001"),
        ({"restarts": [{"at": 1, "down_s": 5}, {"at": 3}]}, "restarts overlap"),
        ({"restarts": [{"at": 1, "down_s": 0}]}, "down_s above 0"),
    ],
)
def test_wrong_data_is_refused_with_its_place(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(data)
    assert message in str(caught.value)


def test_lengths_have_the_mean_that_they_promise() -> None:
    import random

    rng = random.Random(1)
    drawn = [Lengths(200.0, 0.5).draw(rng) for _ in range(4000)]
    assert 190 < sum(drawn) / len(drawn) < 210
    assert min(drawn) >= 1


def test_the_package_offers_what_it_lists() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018
