"""``obs-exporter gateway-config``: the endpoint picker's fields, against the names on real pages."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml
from click.testing import CliRunner

from obs_exporter.cli import main
from obs_exporter.exposition import Wanted, parse
from obs_exporter.gateway import FIELDS
from obs_exporter.schema import BY_ID, Kind

EXTRACTOR = "core-metrics-extractor"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["gateway-config", *arguments])
    return result.exit_code, result.output


def fields(output: str, extractor: str = EXTRACTOR) -> dict[str, str]:
    plugins = {plugin["type"]: plugin for plugin in yaml.safe_load(output)["plugins"]}
    assert set(plugins) == {"metrics-data-source", extractor}
    (config,) = plugins[extractor]["parameters"]["engineConfigs"]
    assert plugins[extractor]["parameters"]["defaultEngine"] == config["name"]
    return {name: value for name, value in config.items() if name != "name"}


@pytest.mark.parametrize(
    ("captured", "arguments"),
    [
        ("vllm/0.32.0-real/during", ("--stack", "vllm", "--engine-version", "0.32.0")),
        ("vllm/0.8.5-rendered/v1-load", ("--stack", "vllm", "--stack-version", "0.8.5")),
        ("vllm/0.20.0-rendered/v1-load", ("--stack", "kserve", "--engine-version", "0.20.0")),
        ("ray/2.60.0-llm-vllm0.29.0/during", ("--stack", "ray-serve", "--stack-version", "2.60.0")),
    ],
)
def test_every_name_is_a_gauge_on_the_real_page(
    page: Callable[[str], bytes], captured: str, arguments: tuple[str, ...]
) -> None:
    code, output = run(*arguments)
    types = parse(page(captured), Wanted(set())).types
    found = fields(output)
    assert code == 0
    assert all(types.get(found[field]) == "gauge" for field in FIELDS), found
    assert found["cacheInfoSpec"] in ("", *types)


def test_the_picker_reads_gauges_only() -> None:
    assert {BY_ID[signal].kind for signal in FIELDS.values()} == {Kind.GAUGE}


def test_a_stack_without_the_signal_says_why_and_fails() -> None:
    code, output = run("--stack", "triton", "--stack-version", "24.12")
    assert code == 1
    assert fields(output) == dict.fromkeys([*FIELDS, "loraSpec", "cacheInfoSpec"], "")
    assert "# queuedRequestsSpec: lost: the vLLM backend never exports it" in output
    assert "remedy: open the engine's own registry" in output


def test_the_common_names_are_the_schemas() -> None:
    code, output = run("--stack", "ray-serve", "--common")
    assert code == 0
    assert fields(output) == {
        "queuedRequestsSpec": "llm_requests_waiting",
        "runningRequestsSpec": "llm_requests_running",
        "kvUsageSpec": "llm_kv_cache_usage_ratio",
        "loraSpec": "",
        "cacheInfoSpec": "",
    }


def test_lora_and_the_older_plugin() -> None:
    code, output = run("--stack", "kserve", "--lora", "--extractor", "model-server-protocol-metrics")
    assert code == 0
    assert fields(output, "model-server-protocol-metrics")["loraSpec"] == "vllm:lora_requests_info"
    assert "engineLabelKey: inference.networking.k8s.io/engine-type" in output


def test_a_version_that_is_none() -> None:
    code, output = run("--stack", "vllm", "--stack-version", "new")
    assert (code, "Error" in output) == (2, True)


def test_every_example_of_the_help_works() -> None:
    examples = re.findall(r"obs-exporter gateway-config (.+)", run("--help")[1])
    assert len(examples) == 2
    for example in examples:
        code, output = run(*example.split())
        assert (code, all(fields(output)[field] for field in FIELDS)) == (0, True), example
