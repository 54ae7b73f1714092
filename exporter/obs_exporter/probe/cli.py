"""``obs-probe``: the command line of the load probe. Each command's module is loaded when it is used."""

from __future__ import annotations

import importlib

import click

from obs_exporter._version import __version__

_COMMANDS: dict[str, tuple[str, str]] = {
    "calibrate": ("cli_run", "Measure the probe's own error at some loads."),
    "compare": ("cli_compare", "What a serving layer costs over a baseline, with its uncertainty."),
    "diagnose": ("cli_compare", "Is a cap in the engine or in the layer above it?"),
    "import": ("cli_results", "Make result files from a CSV of numbers measured elsewhere."),
    "merge": ("cli_results", "Join the shards of one run into one result, exactly."),
    "report": ("cli_results", "Show a result as text, markdown or one HTML file."),
    "run": ("cli_run", "Put load on a server and measure TTFT, TPOT, E2E and goodput."),
    "scenarios": ("cli_results", "List the scenarios."),
    "serve": ("cli_serve", "Probe targets at a low rate, without end, with /metrics."),
}


class _LazyGroup(click.Group):
    """Loads a command's module only when the command is named: --help needs none of them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"obs_exporter.probe.{_COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command")
        return command if isinstance(command, click.Command) else None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="obs-probe")
def main() -> None:
    """Measure TTFT, TPOT and goodput of an LLM server from outside.

    Example: obs-probe run --url http://127.0.0.1:8000/v1 --concurrency 1,8,64 --output results/bare.json
    """


if __name__ == "__main__":
    main()
