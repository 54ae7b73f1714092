"""The boards as files: current, complete, deterministic, and readable by Grafana's own types."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import build
from obs_exporter.schema import SIGNALS
from obs_exporter.stacks import STACKS

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "dashboards" / "generated").glob("*.json"))


@pytest.fixture(params=BOARDS, ids=lambda path: path.stem)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


def test_there_are_four_boards() -> None:
    assert [path.stem for path in BOARDS] == ["layer", "overview", "probe", "provenance"]
    assert len({json.loads(path.read_text())["uid"] for path in BOARDS}) == 4


def test_the_files_are_current() -> None:
    command = [sys.executable, "-m", "dashboards.build", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_is_not_current_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {path: text + " " for path, text in build.generated().items() if path.name == "overview.json"}
    monkeypatch.setattr(build, "generated", lambda: {**{path: path.read_text() for path in BOARDS}, **changed})
    assert build.main(["--check"]) == 1
    assert "overview.json is not current" in capsys.readouterr().err


def test_the_same_input_gives_the_same_bytes() -> None:
    assert build.generated() == build.generated()


def test_every_panel_says_what_it_means(board: dict[str, Any]) -> None:
    for panel in board["panels"]:
        if panel["type"] == "row":
            continue
        assert len(panel["description"]) > 30, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        if panel["type"] == "text":
            continue
        assert all(target["expr"] for target in panel["targets"])
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))


def test_panels_do_not_overlap_and_fill_the_width(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    widths = {y: sum(1 for x, row in taken if row == y) for _, y in taken}
    assert set(widths.values()) == {24}


def _lost(before: Any, after: Any, path: str = "") -> list[str]:
    """What of ``before`` is not in ``after``."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key, value in before.items()
            for found in (_lost(value, after[key], f"{path}/{key}") if key in after else [f"{path}/{key}"])
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            found
            for index, (one, other) in enumerate(zip(before, after, strict=True))
            for found in _lost(one, other, f"{path}/{index}")
        ]
    return [] if before == after else [path]


def through_grafanas_types(board: dict[str, Any]) -> list[str]:
    """Read a board into the types that Grafana generates from its schema, write it again, and say what was lost."""
    register_default_plugins()
    read = Dashboard.from_json(copy.deepcopy(board))
    return _lost(board, json.loads(JSONEncoder().encode(read)))


def test_grafanas_own_types_know_every_field(board: dict[str, Any]) -> None:
    assert through_grafanas_types(board) == []


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (lambda board: board, "scheduleVersion"),
        (lambda board: board["panels"][1], "desciption"),
        (lambda board: board["panels"][1]["options"], "textmode"),
        (lambda board: board["panels"][1]["fieldConfig"]["defaults"], "units"),
        (lambda board: board["panels"][6]["fieldConfig"]["defaults"]["custom"], "lineWeight"),
        (lambda board: board["panels"][6]["targets"][0], "expression"),
        (lambda board: board["templating"]["list"][1], "datasourse"),
    ],
)
def test_a_misspelt_field_is_found(place: Any, field: str) -> None:
    board = json.loads((ROOT / "dashboards" / "generated" / "overview.json").read_text())
    place(board)[field] = "x"
    (lost,) = through_grafanas_types(board)
    assert lost.endswith("/" + field)


def test_the_provenance_board_has_a_remedy_for_every_rule_that_has_one() -> None:
    board = json.loads((ROOT / "dashboards" / "generated" / "provenance.json").read_text())
    (text,) = [panel["options"]["content"] for panel in board["panels"] if panel["type"] == "text"]
    for stack in STACKS.values():
        for rule in stack.rules:
            assert not rule.remedy or rule.state == "not_applicable" or rule.remedy in text, rule
    assert "set log_engine_metrics: true" in text


def test_every_signal_has_a_place_on_some_board() -> None:
    text = "\n".join(path.read_text() for path in BOARDS)
    unseen = [signal.id for signal in SIGNALS if signal.metric not in text]
    # These are on the provenance board with their state; a panel of their own would repeat another tool's.
    assert unseen == [
        "kv_cache_capacity", "kv_cache_max_concurrency", "time_per_output_token", "prefill_time", "decode_time",
        "gpu_memory_used", "gpu_memory_total", "gpu_utilization",
    ]  # fmt: skip
