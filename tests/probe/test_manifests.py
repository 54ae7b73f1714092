"""The Kubernetes Job says what the command line knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from obs_exporter.probe.cli import main
from obs_exporter.probe.cli_results import merge_command
from obs_exporter.probe.cli_run import run_command

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes" / "probe"


def job(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


def container(name: str) -> dict[str, Any]:
    (found,) = job(name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_shards_are_as_many_as_the_pods() -> None:
    spec = job("run.yaml")["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    assert f"--shard=$(SHARD)/{spec['completions']}" in container("run.yaml")["args"]


@pytest.mark.parametrize(("name", "command"), [("run.yaml", run_command), ("merge.yaml", merge_command)])
def test_every_option_exists(name: str, command: Any) -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    options = [argument.partition("=")[0] for argument in container(name)["args"] if argument.startswith("--")]
    assert options
    assert set(options) <= known


def test_the_run_can_be_parsed() -> None:
    arguments = [a.replace("$(SHARD)", "0").replace("$(RUN)", "r") for a in container("run.yaml")["args"]]
    done = CliRunner().invoke(main, [a.replace("http://vllm:8000", "http://127.0.0.1:1") for a in arguments])
    assert done.exit_code == 2
    assert "cannot connect" in done.output
