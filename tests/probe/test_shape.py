"""The table of the result format: what the writer writes fits it, and whatever does not is told with its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.cli import main
from obs_exporter.probe.outcome import Record
from obs_exporter.probe.results import ResultError, read_result, requests_path, write_json
from obs_exporter.probe.shape import RECORD, RESULT, Node, problems, tree
from obs_exporter.probe.truth.behaviours import Profile
from obs_exporter.probe.truth.process import TruthProcess

DATA = Path(__file__).parents[1] / "data" / "reference-study"
TREE = tree(RESULT)
PAGE = "# TYPE llm_kv_cache_usage_ratio gauge\nllm_kv_cache_usage_ratio 0.5\n"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the writer writes: a calibrated run, with failures, a server's page that cannot be read, and settings."""
    output = tmp_path_factory.mktemp("golden") / "x.json"
    with TruthProcess(Profile(0.01, 0.002, 6), "--faults", "0.3", "--seed", "3") as server:
        done = invoke(
            "run", "--url", server.url, "--concurrency", "2", "--requests-per-level", "12", "--repeats", "2",
            "--timeout", "0.5", "--metrics-url", f"{server.url}/none", "--setting", "max_num_seqs=8",
            "--tpot-slo", "1", "--output", str(output),
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(output.read_text())
    assert sum(found["levels"][0]["errors"].values()) > 0
    return found | {"lines": requests_path(output).read_text()}


def place(folder: Path, result: dict[str, Any]) -> Path:
    """Write a result with its requests file."""
    path = folder / "x.json"
    path.write_text(json.dumps(result))
    requests_path(path).write_text(str(result.get("lines", "")))
    return path


def unknown(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Yield the fields that the table does not have."""
    if isinstance(value, dict):
        for key, item in value.items():
            part = node.parts.get(key) or node.values
            if part is None:
                yield f"{path}.{key}"
            else:
                yield from unknown(item, part, f"{path}.{key}")
    elif isinstance(value, list) and value:
        if node.items is None:
            yield path
        else:
            yield from unknown(value[0], node.items, f"{path}[]")


def test_what_the_writer_writes_fits_the_table_and_is_all_in_it(golden: dict[str, Any], tmp_path: Path) -> None:
    assert list(problems(golden, TREE)) == []
    assert set(unknown(golden, TREE)) == {".lines"}
    lines = [json.loads(line) for line in golden["lines"].splitlines()]
    assert lines
    for line in lines:
        assert list(problems(line, tree(RECORD))) == []
    path = place(tmp_path, golden | {"partial": False})
    assert invoke("merge", str(path), "--output", str(tmp_path / "m.json")).exit_code in (0, 1)
    assert set(unknown(read_result(tmp_path / "m.json"), TREE)) == set()


def test_an_open_loop_fits_too(truth_server: TruthProcess, tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    load = ("--rate", "50", "--requests-per-level", "4", "--no-calibration", "--quiet")
    assert invoke("run", "--url", truth_server.url, *load, "--output", str(output)).exit_code == 0
    assert set(unknown(read_result(output), TREE)) == set()


def test_the_record_rows_are_the_records_fields() -> None:
    assert {row.path.removesuffix("[]") for row in RECORD} == {field.name for field in fields(Record)}


@pytest.mark.parametrize("file", ["throughput.csv", "latency.csv", "knobs.csv"])
def test_the_study_fits(tmp_path: Path, file: str) -> None:
    columns = {"throughput.csv": ["output_tokens_per_s=stack_tokens_per_s"],
               "latency.csv": ["ttft_s_p95=stack_ttft_p95_s", "goodput_percent=stack_goodput_percent"],
               "knobs.csv": ["output_tokens_per_s=tokens_per_s", "goodput_percent=goodput_percent"]}[file]  # fmt: skip
    maps = [part for column in ("concurrency=concurrency", *columns) for part in ("--map", column)]
    done = invoke("import", str(DATA / file), *maps, "--output", str(tmp_path / "x.json"))
    assert done.exit_code == 0, done.output
    assert read_result(tmp_path / "x.json")["levels"]


def change(result: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a path like levels[0].ttft_s.p50."""
    found = copy.deepcopy(result)
    at: Any = found
    steps = [int(step) if step.isdecimal() else step for step in path.replace("[", ".").replace("]", "").split(".")]
    for step in steps[:-1]:
        at = at[step]
    if value is MISSING:
        del at[steps[-1]]
    else:
        at[steps[-1]] = value
    return found


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("levels[1].ttft_s.p50", "abc", 'is "abc": expected a number of at least 0'),
        ("levels[1].ttft_s.p50", -0.1, "is -0.1: expected a number"),
        ("levels[1].ttft_s.p50", True, "is true: expected a number"),
        ("levels[1].ttft_s.p50", [1.0], "is [1.0]: expected a number"),
        ("levels[1].ttft_s.p50", float("nan"), "is NaN: expected a number"),
        ("levels[1].ttft_s.p50", float("inf"), "is Infinity: expected a number"),
        ("levels[1].ttft_s.p50", 10**400, "expected a number"),
        ("levels[0].goodput", 7, "is 7: expected a number from 0 to 1"),
        ("levels[0].ttft_s", 0.5, "is 0.5: expected an object"),
        ("levels[0].ttft_s.curve", {}, "is {}: expected a list"),
        ("levels[0].ttft_s.curve[3]", None, "is null: expected a finite number"),
        ("levels[0].requests", 1.5, "is 1.5: expected a whole number"),
        ("levels[0].errors", {"timeout": "2"}, 'errors.timeout is "2": expected a whole number'),
        ("levels[0].concurrency", 0, "is 0: expected a whole number above 0"),
        ("levels[0].client_limited", "no", "expected true or false"),
        ("levels[0].client", [], "is []: expected an object"),
        ("levels[0].scenario", None, "is null: expected a text"),
        ("levels", [1], "levels[0] is 1: expected an object"),
        ("levels", {}, "is {}: expected a list"),
        ("slo", [], "is []: expected an object"),
        ("slo", {"ttft_s": 0.5}, "slo.e2e_s is missing: expected a number above 0"),
        ("slo.ttft_s", "fast", "expected a number above 0"),
        ("target", None, "is null: expected an object"),
        ("target.settings", {"max_num_seqs": 8}, "settings.max_num_seqs is 8: expected a text"),
        ("requests_file", "../../etc/passwd", "expected the name of a file beside it"),
        ("shard", "4/4", "expected a shard i/n"),
        ("notes", "slow", "expected a list"),
        ("started_at", "today", "expected a number"),
        ("calibration", [[]], "calibration[0] is []: expected an object"),
    ],
)
def test_what_does_not_fit_is_told_by_every_reader(
    golden: dict[str, Any], tmp_path: Path, path: str, value: Any, words: str
) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps(golden))
    file = str(place(tmp_path, change(golden, path, value)))
    for arguments in (
        ["report", file],
        ["report", str(good), "--baseline", file],
        ["compare", str(good), file],
        ["diagnose", "--bare", str(good), str(good), "--stack", file, str(good)],
        ["merge", file, "--output", str(tmp_path / "m.json")],
    ):
        done = invoke(*arguments)
        assert done.exit_code == 2, done.output
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith(f"Error: {file}: ")
        assert path.partition("[")[0].partition(".")[0] in line
        assert words in line
        assert done.stdout == ""
    assert not (tmp_path / "m.json").exists()


def test_a_level_is_either_a_closed_or_an_open_loop(golden: dict[str, Any], tmp_path: Path) -> None:
    for found in (change(golden, "levels[1].rate", 2.0), change(golden, "levels[1].concurrency", None)):
        with pytest.raises(ResultError, match=r"levels\[1\]: expected either a concurrency or a rate"):
            read_result(place(tmp_path, found))


def test_what_a_newer_version_writes_more_is_let_through(golden: dict[str, Any], tmp_path: Path) -> None:
    path = place(tmp_path, change(golden, "levels[0].new", {"x": -1}) | {"newer": [None]})
    assert invoke("report", str(path)).exit_code == 0


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, '{"a": 1', "\x00\x00", ""])
def test_what_is_no_json_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    done = invoke("report", str(tmp_path / "x.json"))
    assert done.exit_code == 2
    assert "not a result of obs-probe" in done.output


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every field; of a list only the first item's."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value[:1]):
        at = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else str(key)
        yield at
        if isinstance(item, dict | list) and "." not in str(key):
            yield from leaves(item, at)


MISSING = object()


@pytest.mark.parametrize("value", [None, 0, "", MISSING])
def test_a_field_without_a_value_makes_no_reader_fall(golden: dict[str, Any], tmp_path: Path, value: Any) -> None:
    """An answer or one line, never a traceback, and in the fields that are text the same for an empty one."""
    place(tmp_path, golden)
    (tmp_path / "x.json").rename(tmp_path / "good.json")
    fields = [path for path in leaves(golden | {"partial": True}) if path != "lines" and ".by_edge_s." not in path]
    assert len(fields) > 150
    for path in fields:
        broken = change(golden | {"partial": len(path) % 2 == 0}, path, value)
        file, good = str(place(tmp_path, broken)), str(tmp_path / "good.json")
        for arguments in (
            ["report", file, "--baseline", good],
            ["compare", good, file],
            ["diagnose", "--bare", file, good, "--stack", good, file],
            ["merge", file, "--output", str(tmp_path / "m.json")],
        ):
            done = invoke(*arguments)
            assert done.exit_code in (0, 1, 2), (path, done.output)
            assert done.exception is None or isinstance(done.exception, SystemExit), (path, arguments, done.exception)
        for made in tmp_path.glob("m.*"):
            made.unlink()


@given(
    st.dictionaries(st.text(max_size=3), st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda more: st.lists(more, max_size=3)
    ), max_size=5)
)  # fmt: skip
def test_what_is_written_can_be_read(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("x") / "x.json"
    write_json(path, data)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    json.loads(path.read_text(), parse_constant=refuse)
