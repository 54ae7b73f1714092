"""Benchmarks run only when they are asked for: ``pytest -m bench``."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "bench" in str(config.getoption("markexpr")):
        return
    bench = [item for item in items if item.get_closest_marker("bench")]
    if bench:
        config.hook.pytest_deselected(items=bench)
        items[:] = [item for item in items if item not in bench]
