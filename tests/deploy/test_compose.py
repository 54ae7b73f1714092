"""Compose: docker compose's own reading of the file, every path there, every command one that the programs take."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from obs_exporter import config
from obs_exporter._version import __version__
from obs_exporter.cli import main
from obs_exporter.probe.cli import main as probe
from obs_exporter.stacks import STACKS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")


@pytest.fixture
def read(tool: Callable[[str], str]) -> Callable[[Path], tuple[int, str]]:
    """``docker compose config``: exit code, and JSON or the complaint."""

    def run(path: Path) -> tuple[int, str]:
        command = [tool("docker-compose"), "-f", str(path), "config", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    return run


@pytest.fixture
def services(read: Callable[[Path], tuple[int, str]]) -> dict[str, Any]:
    code, output = read(COMPOSE / "compose.yaml")
    assert code == 0, output
    found: dict[str, Any] = json.loads(output)["services"]
    return found


def test_the_services(services: dict[str, Any]) -> None:
    assert set(services) == {"vllm", "ray", "load-vllm", "load-ray", "exporter", "prometheus", "grafana"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"services": {"exporter": {"imag": "x"}}},
        {"services": {"exporter": {"image": "x", "ports": "9750"}}},
        {"services": {"exporter": {"image": "x", "depends_on": ["nobody"]}}},
        {"services": {"exporter": {"image": "x", "mem_limit": "much"}}},
    ],
)
def test_a_wrong_field_is_found(read: Callable[[Path], tuple[int, str]], tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(yaml.safe_dump(wrong))
    assert read(path)[0] != 0


def test_nothing_runs_as_root_or_listens_to_the_world(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service["user"].startswith("0"), name
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))


def test_images_are_pinned_and_ours_is_built_from_here(services: dict[str, Any]) -> None:
    for service in services.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"]), service["image"]
        if "build" in service:
            assert service["image"] == f"llm-serving-observability:{__version__}"
            assert Path(service["build"]["context"]) == ROOT
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_every_mounted_file_is_there_and_where_it_is_looked_for(services: dict[str, Any]) -> None:
    mounts = {
        (name, volume["target"]): Path(volume["source"])
        for name, service in services.items()
        for volume in service.get("volumes", [])
        if volume["type"] == "bind"
    }
    assert all(source.exists() for source in mounts.values())
    assert mounts["exporter", "/etc/obs/targets.yml"] == COMPOSE / "targets.yml"
    boards = mounts["grafana", "/var/lib/grafana/dashboards"]
    provider = yaml.safe_load((COMPOSE / "grafana/provisioning/dashboards/llm-serving.yml").read_text())["providers"][0]
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
    assert {path.stem for path in boards.glob("*.json")} == {"layer", "overview", "probe", "provenance"}
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (boards / Path(home).name).is_file()


def test_the_names_in_the_configurations_are_services(services: dict[str, Any]) -> None:
    loaded = config.load(COMPOSE / "targets.yml")
    assert loaded.listen == ("0.0.0.0", 9750)  # noqa: S104
    prometheus = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())
    scraped = [t for job in prometheus["scrape_configs"] for s in job["static_configs"] for t in s["targets"]]
    source = yaml.safe_load((COMPOSE / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    urls = [target.access.url for target in loaded.targets]
    hosts = {re.sub(r"^http://", "", text).partition(":")[0] for text in [*urls, *scraped, source["url"]]}
    assert hosts <= set(services)
    assert hosts == {"vllm", "ray", "exporter", "load-vllm", "load-ray", "prometheus"}
    assert {target.stack for target in loaded.targets} <= set(STACKS)


def test_the_simulators_commands_are_ones_that_it_takes(services: dict[str, Any]) -> None:
    for name in ("vllm", "ray"):
        command, *arguments = services[name]["command"]
        context = main.commands[command].make_context(command, arguments, parent=click.Context(main))
        assert (command, context.params["listen"]) == ("simulate", "0.0.0.0:8000")


def test_the_probes_commands_are_ones_that_it_takes(services: dict[str, Any]) -> None:
    parent = click.Context(probe)
    for name in ("load-vllm", "load-ray"):
        verb, *arguments = services[name]["command"]
        command = probe.get_command(parent, verb)
        assert command
        context = command.make_context(verb, arguments, parent=parent)
        assert context.params["listen"] == "0.0.0.0:9109"
        assert services[name]["entrypoint"] == ["/usr/bin/python3", "/app/bin/obs-probe"]


def test_the_raw_requests_of_the_load_end_before_their_memory_does(services: dict[str, Any]) -> None:
    """0.8 kB a request (measured), at most one request for each of the engine's 8 slots a second."""
    for name in ("load-vllm", "load-ray"):
        options = dict(argument.split("=") for argument in services[name]["command"] if "=" in argument)
        seconds = int(options["--duration"]) * len(options["--concurrency"].split(",")) * int(options["--repeats"])
        (mount,) = services[name]["tmpfs"]
        size = re.search(r"size=(\d+)m", mount)
        assert size
        assert 800 * 8 * seconds < int(size[1]) * 2**20 < int(services[name]["mem_limit"]) / 2
        assert services[name]["restart"] == "unless-stopped"


def test_the_exporters_command_is_one_that_it_takes(services: dict[str, Any]) -> None:
    command, *arguments = services["exporter"]["command"]
    (mounted,) = [volume["target"] for volume in services["exporter"]["volumes"]]
    assert arguments == ["--config", mounted]
    context = main.commands[command].make_context(command, ["--config", str(COMPOSE / "targets.yml")])
    assert (command, context.params["config_file"]) == ("serve", COMPOSE / "targets.yml")


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here")
def test_prometheus_knows_its_flags(services: dict[str, Any]) -> None:
    assert PROMETHEUS
    known = subprocess.run([PROMETHEUS, "--help"], capture_output=True, text=True, check=False)
    for argument in services["prometheus"]["command"]:
        assert re.search(rf"{re.escape(argument.partition('=')[0])}\b", known.stdout + known.stderr), argument


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here")
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    text = (COMPOSE / "prometheus.yml").read_text()
    rules = str(ROOT / "deploy" / "prometheus" / "rules")
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/rules", rules))
    assert PROMTOOL
    command = [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout + done.stderr
