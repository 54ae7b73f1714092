"""What this project makes of every captured page, kept as text: a change shows up as a diff to be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from obs_exporter.exposition import parse
from obs_exporter.schema import Scalar, Series
from obs_exporter.stacks import STACKS, Claims, Reading, read_page

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
STACK_OF = {"vllm": "vllm", "ray": "ray-serve", "triton": "triton"}


def _value(series: Series) -> str:
    labels = ",".join(f"{name}={value}" for name, value in series.labels if value)
    if isinstance(series, Scalar):
        return f"{{{labels}}} {series.value:.9g}"
    return f"{{{labels}}} count {series.count:.9g} sum {series.sum:.9g} buckets {len(series.buckets)}"


def _text(reading: Reading) -> str:
    lines = [
        f"stack {reading.stack} {reading.stack_version} ({reading.stack_version.source})",
        f"engine {reading.engine_version} {reading.generation} ({reading.engine_version.source})",
    ]
    for answer in reading.answers:
        facts = [str(answer.state), str(answer.provenance), str(answer.precision), answer.native_name, answer.reason]
        lines.append(f"{answer.signal.id}: {' | '.join(facts)}")
        lines += [f"    {_value(series)}" for series in answer.series]
    lines += [f"! {oddity.code} {oddity.signal}: {oddity.message}" for oddity in reading.oddities]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def test_every_page_reads_as_it_did(page_name: str, page: Callable[[str], bytes]) -> None:
    stack = STACKS[STACK_OF[page_name.split("/")[0]]]
    text = _text(read_page(stack, parse(page(page_name), stack.wanted()), Claims()))
    path = GOLDEN / f"{page_name.replace('/', '__')}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden for {page_name}; UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(encoding="utf-8")


def test_no_golden_is_left_over() -> None:
    names = {path.stem for path in GOLDEN.glob("*.txt")}
    data = GOLDEN.parent
    pages = {
        str(path.relative_to(data)).removesuffix(".gz").removesuffix(".txt").replace("/", "__")
        for stack in STACK_OF
        for path in (data / stack).rglob("*.txt*")
    }
    assert names == pages
