"""The matrix and ``explain``: what they say is what the tables say, and the page of the docs is generated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import Result

from obs_audit.explain import queries, render
from obs_audit.matrix import MARKS, markdown, text
from obs_audit.timeline import cell, columns, lives, readings, stretches
from obs_exporter.options import STACK_NAMES
from obs_exporter.schema import SIGNALS, Aggregation, Kind, State
from obs_exporter.stacks import STACKS

Run = Callable[..., Result]
DOCS = Path(__file__).parents[2] / "docs"
EACH = pytest.mark.parametrize("stack", STACK_NAMES)


def test_the_page_of_the_docs_is_generated() -> None:
    assert (DOCS / "matrix.md").read_text(encoding="utf-8") == markdown(STACK_NAMES)


@EACH
def test_columns_hold_every_release_once_and_differ_from_their_neighbours(stack: str) -> None:
    found = columns(stack)
    assert [release for column in found for release in column.releases] == list(STACKS[stack].releases)
    for left, right in pairwise(found):
        cells = [cell(answer) for answer in left.answers], [cell(answer) for answer in right.answers]
        assert cells[0] != cells[1] or left.generation != right.generation


@EACH
def test_each_cell_is_what_a_paper_audit_of_that_release_says(stack: str) -> None:
    for column in columns(stack):
        for release, reading in readings(stack):
            if release in column.releases:
                assert [cell(answer) for answer in reading.answers] == [cell(answer) for answer in column.answers]


def test_every_state_has_a_mark() -> None:
    assert set(MARKS) == set(State)


@pytest.mark.parametrize(
    ("stack", "signal", "expected"),
    [
        ("vllm", "preemptions", [("0.2.7 to 0.4.2", State.NEVER), ("0.4.3 to 0.33.0", State.NATIVE)]),
        (
            "ray-serve",
            "preemptions",
            [
                ("2.44.1 to 2.46.0", State.LOST),
                ("2.47.1 to 2.50.1", State.HIDDEN),
                ("2.51.1 to 2.60.0", State.RENAMED),
            ],
        ),
        (
            "triton",
            "ttft",
            [
                ("24.07", State.LOST),
                ("24.08 to 24.11", State.HIDDEN),
                ("24.12 to 25.09", State.HIDDEN),
                ("25.10 to 25.12", State.HIDDEN),
                ("26.01", State.HIDDEN),
            ],
        ),
    ],
)
def test_runs_change_where_the_facts_say(stack: str, signal: str, expected: list[tuple[str, State]]) -> None:
    assert [(run.title, run.answer.state) for run in stretches(stack, signal)] == expected


def test_a_rename_of_the_engine_is_a_run_of_its_own() -> None:
    names = [(run.title, run.answer.native_name) for run in stretches("vllm", "kv_cache_usage")]
    assert names == [
        ("0.2.7 to 0.9.1", "vllm:gpu_cache_usage_perc"),
        ("0.9.2 to 0.33.0", "vllm:kv_cache_usage_perc"),
    ]


def test_the_life_of_a_family_has_its_hidden_years() -> None:
    (old,) = [life for life in lives("kv_cache_usage") if life.family.startswith("gpu") and life.generation == "V1"]
    assert old.runs == (("registered", "0.7.1", "0.10.2"), ("hidden", "0.11.0", "0.11.2"))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_it_prints_the_same_twice(form: str, run: Run) -> None:
    first = run("matrix", "--format", form)
    assert first.exit_code == 0
    assert first.output == run("matrix", "--format", form).output


def test_one_stack_alone() -> None:
    assert "Triton" in text(["triton"])
    assert "Ray Serve" not in text(["triton"])


@pytest.mark.parametrize("signal", [signal.id for signal in SIGNALS])
def test_every_signal_is_explained(signal: str) -> None:
    said = render(signal, STACK_NAMES)
    assert all(STACKS[stack].title in said for stack in STACK_NAMES)
    assert "common schema" in said
    assert "None" not in said


def test_explain_names_the_switch_its_cost_and_the_query(run: Run) -> None:
    said = run("explain", "preemptions", "--stack", "ray-serve").output
    assert "2.47.1 to 2.50.1: hidden" in said
    assert "do: set log_engine_metrics: true" in said
    assert "(costs: " in said
    assert "sum by (instance) (rate(ray_vllm_num_preemptions_total[5m]))" in said


@pytest.mark.skipif(not shutil.which("promtool") and not os.environ.get("CI"), reason="no promtool here")
def test_every_query_is_promql(tmp_path: Path) -> None:
    found = {
        line.rpartition(": ")[2] if ": " in line else line
        for signal in SIGNALS
        for line in render(signal.id, STACK_NAMES).split("How to read it (PromQL)\n")[1].splitlines()
        if "no name to query" not in line
    }
    assert len(found) > 60
    rules = "".join(
        f"      - record: a:b{number}\n        expr: {query}\n" for number, query in enumerate(sorted(found))
    )
    file = tmp_path / "rules.yml"
    file.write_text(f"groups:\n  - name: all\n    rules:\n{rules}", encoding="utf-8")
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_pair_of_counters_is_divided_by_its_own_count() -> None:
    ((_, query),) = queries(
        "nv_inference_request_success", "nv_inference_queue_duration_us", Aggregation.SUM, "instance"
    )
    assert re.search(r"queue_duration_us\[5m\]\)\) / sum by \(instance\) \(rate\(nv_inference_request_success", query)
    assert queries(Kind.GAUGE, "x", Aggregation.MAX, "a") == [("now", "max by (a) (x)")]
