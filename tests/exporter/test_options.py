"""Numbers of the command lines: every program refuses what is no finite number."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from obs_exporter.options import FiniteRange


@pytest.mark.parametrize("text", ["nan", "inf", "1e400", "-1", "x"])
def test_what_is_no_finite_number_in_range_is_a_usage_error(text: str) -> None:
    @click.command()
    @click.option("--seconds", type=FiniteRange(min=0))
    def command(seconds: float) -> None:
        click.echo(seconds)

    result = CliRunner().invoke(command, ["--seconds", text])
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize("program", ["obs_exporter.probe.cli", "obs_exporter.cli", "obs_audit.cli"])
def test_no_option_takes_an_open_range(program: str) -> None:
    """Every number of every command is of the finite kind."""
    import importlib

    open_ranges = []
    waiting = [importlib.import_module(program).main]
    while waiting:
        command = waiting.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            waiting += [found for name in names if (found := command.get_command(context, name)) is not None]
        for parameter in command.params:
            kind = parameter.type
            if isinstance(kind, click.FloatRange) and not isinstance(kind, FiniteRange):
                open_ranges.append(f"{command.name} {parameter.name}")
    assert not open_ranges
