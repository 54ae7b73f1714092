"""The document says what the code has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from obs_exporter.simulator import FACES, USUAL_LAYERS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")


def test_the_table_of_faces_is_that_of_the_code() -> None:
    rows = [face.INFO for face in FACES.values()]
    table = "| face | shows | stack version | engine version | usual layer |\n|---|---|---|---|---|\n" + "".join(
        f"| `{info.name}` | {info.meaning} | {info.stack_version} | {info.engine_version} "
        f"| `{USUAL_LAYERS[info.name]}` |\n"
        for info in rows
    )
    assert DOCUMENT.split("<!-- faces -->\n")[1].split("<!-- /faces -->")[0] == table


def test_the_example_runs() -> None:
    example = DOCUMENT.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - our own document
    assert names["page"].startswith(b"# HELP ")
    assert names["lines"]
    assert names["truth"].finished
