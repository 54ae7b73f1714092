"""Read a page as a stack's, in one call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_exporter.exposition import parse
from obs_exporter.stacks import STACKS, UNKNOWN, Claims, Known, Reading, read_page

Read = Callable[..., Reading]


@pytest.fixture
def read(page: Callable[[str], bytes]) -> Read:
    """Read a captured page by name, or given bytes, as a stack's; versions as the flags would give them."""

    def reading(
        stack: str, source: str | bytes, stack_version: str = "", engine_version: str = "", told: Claims | None = None
    ) -> Reading:
        table = STACKS[stack]
        body = page(source) if isinstance(source, str) else source
        claims = told or Claims(
            Known((stack_version,), "given") if stack_version else UNKNOWN,
            Known((engine_version,), "given") if engine_version else UNKNOWN,
        )
        return read_page(table, parse(body, table.wanted()), claims)

    return reading
