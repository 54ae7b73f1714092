"""The Kubernetes Job says what the command line knows."""

from __future__ import annotations

import json
import re
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


@pytest.mark.parametrize(("name", "command"), [("run.yaml", run_command), ("merge/merge.yaml", merge_command)])
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


@pytest.mark.parametrize(("name", "command"), [("run.yaml", run_command), ("merge/merge.yaml", merge_command)])
def test_the_image_can_start_the_program(name: str, command: Any) -> None:
    """The image's entry point is the exporter: another program of it is started as that one is."""
    dockerfile = (FOLDER.parents[1] / "Dockerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (\[.+\])$", dockerfile, re.MULTILINE)
    assert entry
    python, exporter = json.loads(entry[1])
    assert container(name)["command"] == [python, exporter.replace("obs-exporter", "obs-probe")]
    assert container(name)["args"][0] == command.name


def test_the_merge_reads_where_the_run_writes() -> None:
    run, merge = container("run.yaml"), container("merge/merge.yaml")
    (written,) = [a.partition("=")[2] for a in run["args"] if a.startswith("--output=")]
    assert merge["args"][1] == written.rpartition("/")[0].replace("$(RUN)", "RUN_UID")
    assert merge["volumeMounts"] == run["volumeMounts"]
    claims = [job(name)["spec"]["template"]["spec"]["volumes"] for name in ("run.yaml", "merge/merge.yaml")]
    assert claims[0] == claims[1]
    (volume,) = claims[0]
    assert volume["persistentVolumeClaim"]["claimName"] == job("results.yaml")["metadata"]["name"]
