"""Profiles, --require and --fail-on: what opens and closes the gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from obs_audit import flags
from obs_audit.profiles import profile, profiles
from obs_exporter.schema import BY_ID

Run = Callable[..., Result]


def test_every_profile_is_offered_and_names_signals_that_exist() -> None:
    assert set(flags.PROFILES) == set(profiles())
    for name in profiles():
        found = profile(name)
        assert found.signals
        assert set(found.signals) <= set(BY_ID)
        assert set(found.names) | set(found.native) | set(found.optional) <= set(found.signals)
        assert found.meaning.endswith(".")


def test_a_profile_narrows_what_is_counted_and_gated_on(run: Run) -> None:
    ray = ("--stack", "ray-serve", "--stack-version", "2.60.0", "--fail-on", "lost")
    assert run(*ray).exit_code == 1
    assert run(*ray, "--profile", "seed").exit_code == 0
    document = json.loads(run(*ray, "--profile", "seed", "--format", "json").stdout)
    assert document["coverage"] == {"published": 6, "total": 6}
    assert document["profile"] == "seed"
    assert len(document["signals"]) == len(BY_ID)
    assert sum(row["in_profile"] for row in document["signals"]) == 6


def test_no_gate_fails_on_what_the_endpoint_picker_can_do_without(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    page.write_text("".join(f'# TYPE vllm:{n} gauge\nvllm:{n}{{engine="0",model_name="m"}} 0\n' for n in names))
    flags = ("--stack", "vllm", "--engine-version", "0.20.0", "--file", page, "--fail-on", "lost")
    document = json.loads(run(*flags, "--profile", "gateway", "--format", "json").stdout)
    (row,) = [row for row in document["signals"] if row["id"] == "kv_cache_capacity"]
    assert (row["state"], row["in_profile"], document["exit_code"]) == ("lost", True, 0)
    assert run(*flags).exit_code == 1
    page.write_text("".join(page.read_text().splitlines(keepends=True)[:-2]))
    assert run(*flags, "--profile", "gateway").exit_code == 1
    assert run(*flags, "--profile", "gateway", "--require", "kv_cache_capacity").exit_code == 1


def test_a_finding_about_the_page_counts_in_every_profile(run: Run) -> None:
    ray = ("--stack", "ray-serve", "--stack-version", "2.55.1", "--fail-on", "any", "--profile", "seed")
    assert run(*ray).exit_code == 1


@pytest.mark.parametrize(
    ("fail_on", "version", "code"),
    [
        ("none", "2.50.1", 0),
        ("lost", "2.50.1", 0),
        ("hidden", "2.50.1", 1),
        ("any", "2.50.1", 1),
        ("lost", "2.44.1", 1),
        ("any", "2.51.1", 0),
    ],
)
def test_the_gate(fail_on: str, version: str, code: int, run: Run) -> None:
    flags = ("--stack", "ray-serve", "--stack-version", version, "--profile", "seed", "--fail-on", fail_on)
    assert run(*flags).exit_code == code


def test_required_signals_fail_whatever_the_gate(run: Run) -> None:
    flags = ("--stack", "ray-serve", "--stack-version", "2.50.1", "--require")
    result = run(*flags, "preemptions, kv_cache_usage", "--format", "json")
    assert result.exit_code == 1
    required = [f["signal"] for f in json.loads(result.stdout)["findings"] if f["check"] == "required"]
    assert required == ["preemptions", "kv_cache_usage"]
    assert run(*flags, "layer_request_duration").exit_code == 0
    result = run(*flags, "premptions")
    assert result.exit_code == 2
    assert "no such signal: premptions" in result.output


def test_the_gateway_profile_names_what_the_endpoint_picker_looks_for(run: Run) -> None:
    result = run("--stack", "ray-serve", "--stack-version", "2.60.0", "--profile", "gateway", "--format", "json")
    messages = {
        f["signal"]: f["message"] for f in json.loads(result.stdout)["findings"] if f["check"] == "gateway_names"
    }
    assert "KVCacheUtilization" in messages["kv_cache_usage"]
    assert "ray_vllm_kv_cache_usage_perc" in messages["kv_cache_usage"]
    assert set(messages) == {"requests_waiting", "requests_running", "kv_cache_usage"}


def test_the_report_shows_the_profiles_signals_only(run: Run, tmp_path: Path) -> None:
    output = run("--stack", "triton", "--stack-version", "24.12", "--profile", "slo").output
    assert "ttft" in output
    assert "kv_cache_usage" not in output.replace("The engine's log", "").split("The engine")[0]
