"""``obs-audit lint`` as a user runs it: dashboards and rules in, findings, replacements and exit codes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from obs_audit.cli import main
from obs_audit.lint import sources

ROOT = Path(__file__).parents[3]
BOARDS = ROOT / "dashboards" / "generated"
RULES = ROOT / "deploy" / "prometheus" / "rules"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["lint", *map(str, arguments)])


def board(tmp_path: Path, *expressions: str) -> Path:
    panels = [
        {"title": f"p{i}", "type": "timeseries", "targets": [{"expr": text}]} for i, text in enumerate(expressions)
    ]
    path = tmp_path / "board.json"
    path.write_text(json.dumps({"title": "b", "panels": [{"type": "row", "title": "r", "panels": panels}]}))
    return path


def test_what_a_user_reads(tmp_path: Path) -> None:
    path = board(
        tmp_path, 'max by (model_name) (vllm:gpu_cache_usage_perc{model_name=~"$m"})', "vllm:num_requests_running"
    )
    result = run(path, "--stack", "vllm", "--stack-version", "0.20.0")
    assert result.exit_code == 1
    assert 'board.json: panel "p0"' in result.output
    assert "never: vllm:gpu_cache_usage_perc: vLLM 0.20.0 V1 has no gpu_cache_usage_perc" in result.output
    assert 'own page: max by (model_name) (vllm:kv_cache_usage_perc{model_name=~"$m"})' in result.output
    assert 'schema: max by (model) (llm_kv_cache_usage_ratio{model=~"$m"})' in result.output
    assert "1 of 2 expressions cannot be answered" in result.output
    assert "p1" not in result.output


def test_the_same_board_is_fine_on_the_release_that_it_was_made_for(tmp_path: Path) -> None:
    path = board(tmp_path, "vllm:gpu_cache_usage_perc")
    result = run(path, "--stack", "vllm", "--engine-version", "0.8.5")
    assert (result.exit_code, "every expression that was judged can be answered" in result.output) == (0, True)


def test_json_has_every_field(tmp_path: Path) -> None:
    path = board(tmp_path, "rate(vllm:num_preemptions_total[5m])", "node_load1", "$metric", "ray_vllm_made_up")
    result = run(path, "--stack", "ray-serve", "--stack-version", "2.60.0", "--format", "json")
    document: dict[str, Any] = json.loads(result.output)
    assert result.exit_code == 1
    assert document["judged_for"] == "Ray Serve 2.60.0 with vLLM 0.29.0 V1"
    assert document["names_not_judged"] == ["node_load1"]
    assert document["without_a_name"] == ['panel "p2"']
    first, second = document["findings"]
    assert (first["verdict"], first["native_expression"]) == ("renamed", "rate(ray_vllm_num_preemptions_total[5m])")
    assert first["common_expression"] == "rate(llm_preemptions_total[5m])"
    assert (second["verdict"], second["native_expression"], second["common_expression"]) == ("never", "", "")


def test_no_replacement_is_offered_that_has_no_answer_itself(tmp_path: Path) -> None:
    path = board(tmp_path, "vllm:num_requests_waiting", "vllm:num_requests_waiting + vllm:prompt_tokens_total")
    document = json.loads(run(path, "--stack", "triton", "--stack-version", "24.12", "--format", "json").output)
    assert {finding["common_expression"] for finding in document["findings"]} == {""}


def test_rules_know_what_they_record_themselves(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(
        "groups:\n- name: g\n  rules:\n"
        "  - {record: vllm:busy, expr: 'vllm:num_requests_running > 0'}\n"
        "  - {alert: Busy, expr: vllm:busy == 1}\n"
        "  - {alert: Swapped, expr: vllm:num_requests_swapped > 0}\n"
    )
    result = run(path, "--stack", "vllm", "--stack-version", "0.20.0")
    assert "alert Swapped" in result.output
    assert "alert Busy" not in result.output
    assert "1 of 3" in result.output


def test_operator_resources_and_variables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rule.yaml"
    path.write_text(
        "---\nkind: ConfigMap\n---\nkind: PrometheusRule\nspec:\n  groups:\n  - rules:\n"
        "    - {alert: A, expr: 'up == 0'}\n"
    )
    assert [found.where for found in sources.read(path).expressions] == ["alert A"]
    (tmp_path / "b.json").write_text(
        json.dumps({"templating": {"list": [
            {"type": "query", "name": "m", "query": {"query": 'label_values(up{job="a"}, model_name)'}},
            {"type": "query", "name": "n", "query": "query_result(max(up))"},
            {"type": "query", "name": "o", "query": "label_values(job)"},
        ]}})
    )  # fmt: skip
    texts = {found.where: found.text for found in sources.read(tmp_path / "b.json").expressions}
    assert texts == {"variable m": 'up{job="a"}', "variable n": "max(up)"}


def test_our_own_overview_asks_nothing_that_vllm_cannot_answer() -> None:
    result = run(BOARDS / "overview.json", RULES / "llm-alerts.yml", RULES / "llm-recording.yml",
                 "--stack", "vllm", "--stack-version", "0.32.0", "--format", "json")  # fmt: skip
    document = json.loads(result.output)
    assert all(finding["metric"].startswith("llm_layer_") for finding in document["findings"])
    assert document["names_judged"] > 25


@pytest.mark.parametrize("stack", ["vllm", "kserve", "triton", "ray-serve"])
def test_one_name_of_a_pattern_that_has_an_answer_is_enough(stack: str, tmp_path: Path) -> None:
    """The overview's variable asks for any of three families, of which each stack has one."""
    found = json.loads(run(BOARDS / "overview.json", "--stack", stack, "--format", "json").output)["findings"]
    assert [finding["where"] for finding in found if finding["where"].startswith("variable")] == []
    assert all(finding["reason"] and finding["metric"] for finding in found)
    path = board(tmp_path, '{__name__=~"vllm:made_up|vllm:made_up_too"}', '{__name__=~"vllm:made_up|vllm:num_.+"}')
    found = json.loads(run(path, "--stack", stack, "--format", "json").output)["findings"]
    assert [(f["where"], f["metric"]) for f in found] == [
        ('panel "p0"', "vllm:made_up"), ('panel "p0"', "vllm:made_up_too"),
    ]  # fmt: skip


def test_an_expression_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    result = run(board(tmp_path, "rate((", "vllm:num_requests_running"), "--stack", "vllm")
    assert result.exit_code == 1
    assert "syntax: ( at character 6 is never closed" in result.output
    assert "1 of 2 expressions cannot be answered" in result.output


def replacements(tmp_path: Path, expression: str, *stack: str) -> tuple[str, str, list[str]]:
    document = json.loads(run(board(tmp_path, expression), "--stack", *stack, "--format", "json").output)
    finding = document["findings"][0]
    return finding["native_expression"], finding["common_expression"], finding["notes"]


def test_a_replacement_has_the_labels_that_the_expression_asks_for(tmp_path: Path) -> None:
    old = ("ray-serve", "--stack-version", "2.48.0")
    native, common, notes = replacements(tmp_path, "sum by (model_name) (vllm:num_requests_running)", *old)
    family = "ray_vllm_engine_stats_num_current_running_requests"
    assert (native, common) == ("", "sum by (model) (llm_requests_running)")
    assert notes == [f"{family} has it, but no label model_name"]
    assert replacements(tmp_path, "sum(vllm:num_requests_running)", *old)[0] == f"sum({family})"
    native, common, notes = replacements(tmp_path, 'rate(nv_inference_queue_duration_us{model="m"}[5m])', "vllm")
    assert (native, common) == ("", "")


@pytest.mark.parametrize(
    ("asked", "stack", "note"),
    [
        ("vllm:request_queue_time_seconds_sum", ("ray-serve", "--stack-version", "2.44.1"),
         "ray_vllm_engine_stats_time_in_queue_ms_sum is in seconds, despite its name"),
        ("vllm:time_to_first_token_seconds_bucket", ("ray-serve", "--stack-version", "2.44.1"),
         "ray_rayllm_router_get_response_stream_first_token_latency_ms_bucket is in milliseconds, and so are the edges "
         "(le): times 0.001 it is in seconds"),
        ("nv_inference_queue_duration_us", ("kserve",),
         "nv_inference_queue_duration_us is in microseconds: times 1e-06 it is in seconds"),
    ],
)  # fmt: skip
def test_a_replacement_in_another_unit_says_the_factor(
    tmp_path: Path, asked: str, stack: tuple[str, ...], note: str
) -> None:
    assert replacements(tmp_path, f"rate({asked}[5m])", *stack)[2] == [note]
    counted = replacements(tmp_path, "rate(vllm:time_to_first_token_seconds_count[5m])", "ray-serve",
                           "--stack-version", "2.44.1")  # fmt: skip
    assert counted[2] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "no JSON"),
        (b"a: [", "no YAML"),
        (b"\xff\xfe", "no UTF-8"),
        (b"{}", "no PromQL in it"),
        (b"", "no PromQL in it"),
        (b"just text", "no PromQL in it"),
        (b"[" * 100_000, "no JSON"),
        (b"a: &a [*a]\n", "no PromQL in it"),
        (b'{"panels": ' + b'[{"panels": ' * 400 + b"[]" + b"}]" * 400 + b"}", "no PromQL in it"),
    ],
)
def test_bad_files_are_said_in_a_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    result = run(path, "--stack", "vllm")
    assert result.exit_code == 2
    assert "Error:" in result.output
    assert "Traceback" not in result.output
    assert message in result.output or "nested too deeply" in result.output


def test_a_file_that_is_not_there() -> None:
    result = run("/nowhere/board.json", "--stack", "vllm")
    assert (result.exit_code, "No such file" in result.output) == (2, True)
