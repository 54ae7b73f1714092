"""Fixtures of the audit's tests: real pages, and the verdict on one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from obs_audit.evidence import Bundle, Given, Piece, Role, interpret
from obs_audit.verdict import Asked, Report, judge

DATA = Path(__file__).parent.parent / "data"

PageOf = Callable[[str], bytes]
Judge = Callable[..., Report]


def read_data(name: str) -> bytes:
    """Read a file of tests/data, stored plain or compressed."""
    path = DATA / name
    if path.exists():
        return path.read_bytes()
    return gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


@pytest.fixture(scope="session")
def page_of() -> PageOf:
    return read_data


@pytest.fixture(scope="session")
def verdict() -> Judge:
    """Judge pages: verdict("vllm", page, later=..., asked=Asked(...), pieces=[...])."""

    def run(
        stack: str,
        *pages: bytes,
        stack_version: str = "",
        engine_version: str = "",
        asked: Asked | None = None,
        pieces: tuple[Piece, ...] = (),
    ) -> Report:
        given = Given(stack, stack_version, engine_version)
        found = [Piece(Role.PAGE, f"page-{number}.txt", body, number) for number, body in enumerate(pages)]
        return judge(interpret(Bundle(given, (*found, *pieces))), asked)

    return run
