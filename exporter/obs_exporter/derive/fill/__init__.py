"""From derived numbers to answers. Each function fills a draft in place where the page left a gap, and only there."""

from __future__ import annotations

from collections.abc import Callable

from obs_exporter.derive.context import Context
from obs_exporter.derive.fill import carried, gpu, kv, layer, logs, queue, requests
from obs_exporter.derive.model import Draft

Derivation = Callable[[Draft, Context], None]

WITH_PAGE: tuple[Derivation, ...] = (
    carried.fill, logs.fill, requests.fill, queue.fill, kv.fill_capacity, kv.fill, layer.fill, gpu.fill,
)  # fmt: skip
"""In order of trust: an earlier one fills the gap, a later one finds it filled, or builds on it."""

WITHOUT_PAGE: tuple[Derivation, ...] = (queue.lost_sight, logs.fill, layer.fill, gpu.fill)
"""What can be known while the page cannot be had, or is the layer's alone."""
