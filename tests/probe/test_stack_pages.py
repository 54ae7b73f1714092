"""A stack's own page beside the client's numbers: the exporter's tables read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_exporter.probe.server_side import PageError, mapper
from obs_exporter.schema import Histogram, Scalar


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ("vllm", "vllm/0.32.0-real-preempting/after"),
        ("kserve", "vllm/0.32.0-real/during"),
        ("triton", "triton/24.10-vllm0.32.0-custom-metrics/after"),
        ("ray-serve", "ray/2.60.0-llm-vllm0.29.0/after"),
    ],
)
def test_every_stacks_page_gives_ttft(stack: str, name: str, page: Callable[[str], bytes]) -> None:
    (ttft,) = mapper(stack)(page(name).decode())["ttft"]
    assert isinstance(ttft, Histogram)
    assert ttft.count > 0


def test_what_the_page_has_is_there_and_what_it_lacks_is_not(page: Callable[[str], bytes]) -> None:
    signals = mapper("vllm")(page("vllm/0.32.0-real-preempting/after").decode())
    (preemptions,) = signals["preemptions"]
    assert isinstance(preemptions, Scalar)
    assert preemptions.value == 19
    assert "layer_queue_wait" not in signals


def test_another_stacks_page_is_refused_with_the_reason(page: Callable[[str], bytes]) -> None:
    with pytest.raises(PageError, match="--stack triton"):
        mapper("vllm")(page("triton/24.10-python-model/after").decode())
