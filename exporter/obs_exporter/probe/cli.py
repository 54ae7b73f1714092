"""``obs-probe``: the command line of the load probe."""

from __future__ import annotations

import click

from obs_exporter._version import __version__


@click.group()
@click.version_option(__version__, prog_name="obs-probe")
def main() -> None:
    """Measure TTFT, TPOT and goodput of an LLM server from outside.

    The probe is not part of this release yet; `obs-exporter` and `obs-audit` are.
    """
