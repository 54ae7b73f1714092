"""``obs-probe compare`` and ``obs-probe diagnose``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from obs_exporter.options import FiniteRange
from obs_exporter.probe.cli_common import InputError, printed, write_output

_FORMATS = ("text", "markdown", "html", "json")
_NOISE_HELP = (
    "Run-to-run variation that you know of, as CONCURRENCY:SHARE; a number stands for its level and those below it,"
    " for example 64:0.10,32:0.013. For another number than throughput: ttft_p95=64:0.2. May be given again."
)


def parse_noise(texts: tuple[str, ...]) -> dict[str, dict[int, float]]:
    """Read the --noise options. Raises InputError."""
    from obs_exporter.probe.compare_design import METRICS

    found: dict[str, dict[int, float]] = {}
    for text in texts:
        metric, equals, bands = text.partition("=")
        if not equals:
            metric, bands = "throughput", text
        if metric not in {one.id for one in METRICS}:
            raise InputError(f"--noise {text!r}: unknown number {metric!r}: use {', '.join(one.id for one in METRICS)}")
        for part in bands.split(","):
            slots, _, share = part.partition(":")
            try:
                at, value = int(slots), float(share)
            except ValueError:
                raise InputError(f"--noise {text!r}: give CONCURRENCY:SHARE, for example 64:0.10,32:0.013") from None
            if at < 1 or not 0 < value < 1:
                raise InputError(f"--noise {text!r}: the share is between 0 and 1 (0.10 is 10 %)")
            found.setdefault(metric, {})[at] = value
    return found


def read_side(text: str) -> list[dict[str, Any]]:
    """Read one side: result files with commas between them, or a folder of them. Raises InputError."""
    from obs_exporter.probe.recover import read_whole
    from obs_exporter.probe.results import ResultError

    paths: list[Path] = []
    for part in text.split(","):
        path = Path(part.strip())
        paths += sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{text}: no result file (*.json) in it")
    try:
        found = [read_whole(path) for path in paths]
    except ResultError as error:
        raise InputError(str(error)) from None
    seen: dict[object, Path] = {}
    for path, one in zip(paths, found, strict=True):
        if (one.get("shard") or "0/1").partition("/")[2] != "1":
            raise InputError(f"{path}: shard {one['shard']} of a run: join its shards first with obs-probe merge")
        run = one.get("run_id") or path.resolve()
        if run in seen:
            raise InputError(f"{path}: the same run as {seen[run]}: a run counts once")
        seen[run] = path
    return found


def _name(results: list[dict[str, Any]], fallback: str) -> str:
    return str(results[0]["target"].get("name") or results[0]["target"].get("stack") or fallback)


@click.command("compare")
@click.argument("baseline")
@click.argument("stack")
@click.option(
    "--margin",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Differences within this share do not matter, for example 0.05.",
)
@click.option("--noise", multiple=True, help=_NOISE_HELP)
@click.option(
    "--allow-version-mismatch", is_flag=True, help="Compare across engine versions, and print what then cannot be said."
)
@printed(*_FORMATS, example="html", file="compare.html")
@click.option(
    "--fail-on",
    type=click.Choice(["none", "slower", "undecided"]),
    default="none",
    show_default=True,
    help="Exit with 1 on such a verdict; undecided includes slower. For example slower.",
)
def compare_command(
    baseline: str, stack: str, margin: float, noise: tuple[str, ...], allow_version_mismatch: bool, output_format: str,
    output: str | None, fail_on: str,
) -> None:  # fmt: skip
    """What STACK costs over BASELINE, level by level, with an interval and a verdict.

    Each side is a result file, several with commas between them (one a server life: restart the server between them,
    best in the order A B B A), or a folder of them.

    Example: obs-probe compare results/bare.json results/ray.json --noise 64:0.10,32:0.013
    """
    from obs_exporter.probe.compare import Verdict, compare
    from obs_exporter.probe.report import render_document
    from obs_exporter.probe.report.comparison import comparison_document, comparison_json

    sides = read_side(baseline), read_side(stack)
    bands = parse_noise(noise)
    found = compare(*sides, margin=margin, noise=bands, allow_version_mismatch=allow_version_mismatch)
    if not found.findings and found.refused:
        raise InputError("not comparable: " + "; ".join(one.text for one in found.refused))
    if not found.findings:
        raise InputError("the two sides have no level in common: run both with the same scenarios and loads")
    names = _name(sides[0], baseline), _name(sides[1], stack)
    if output_format == "json":
        text = json.dumps(comparison_json(found), indent=1)
    else:
        text = render_document(comparison_document(found, *names, bands), output_format)
    write_output(text, output)
    if found.refused:
        hint = "; --allow-version-mismatch compares anyway" if all(one.version for one in found.refused) else ""
        raise InputError("not comparable: " + "; ".join(one.text for one in found.refused) + hint)
    bad = (
        {Verdict.SLOWER}
        if fail_on == "slower"
        else {Verdict.SLOWER, Verdict.NOISE, Verdict.NO_INTERVAL, Verdict.NO_VARIATION, Verdict.NOT_COMPARABLE}
    )
    if fail_on != "none" and any(one.verdict in bad for one in found.findings):
        click.get_current_context().exit(1)


def _pick(text: str) -> dict[str, Any]:
    """Read FILE or FILE@CONCURRENCY. Raises InputError."""
    path, at, slots = text.rpartition("@")
    if not at or not slots.isdecimal():
        return read_side(text)[0]
    result = read_side(path)[0]
    levels = [level for level in result["levels"] if level.get("concurrency") == int(slots)]
    if not levels:
        raise InputError(f"{path}: no level with concurrency {slots}")
    return result | {"levels": levels}


@click.command("diagnose")
@click.option(
    "--bare",
    nargs=2,
    required=True,
    metavar="LOW HIGH",
    help="Bare results with the knob low and high, for example bare16.json bare64.json.",
)
@click.option(
    "--stack",
    nargs=2,
    required=True,
    metavar="LOW HIGH",
    help="The stack's results with the knob low and high, for example ray16.json ray64.json.",
)
@click.option("--noise", multiple=True, help=_NOISE_HELP)
@printed(*_FORMATS, example="json", file="diagnose.md")
@click.option(
    "--fail-on",
    type=click.Choice(["none", "layer-bound", "undecided"]),
    default="none",
    show_default=True,
    help="Exit with 1 on such a verdict; undecided includes layer-bound. For example layer-bound.",
)
def diagnose_command(
    bare: tuple[str, str],
    stack: tuple[str, str],
    noise: tuple[str, ...],
    output_format: str,
    output: str | None,
    fail_on: str,
) -> None:
    """Is a cap in the engine or in the layer? Turn one knob bare and behind the stack, and give the four results.

    FILE@64 takes one concurrency of a result: with concurrency as the knob, FILE@32 FILE@64 need no second run.

    Example: obs-probe diagnose --bare bare16.json bare64.json --stack ray16.json ray64.json
    """
    from obs_exporter.probe.diagnose import Where, diagnose, obstacles
    from obs_exporter.probe.report import render_document
    from obs_exporter.probe.report.comparison import diagnosis_document, diagnosis_json

    sides = (_pick(bare[0]), _pick(bare[1])), (_pick(stack[0]), _pick(stack[1]))
    refused, unknown = obstacles(*sides)
    if refused:
        raise InputError("not comparable: " + "; ".join(refused))
    found = diagnose(*sides, parse_noise(noise))
    if not found:
        raise InputError("the four results have no level in common: pick one of each with FILE@CONCURRENCY")
    if output_format == "json":
        text = json.dumps(diagnosis_json(found, unknown), indent=1)
    else:
        text = render_document(diagnosis_document(found, unknown), output_format)
    write_output(text, output)
    bad = {Where.LAYER} if fail_on == "layer-bound" else {Where.LAYER, Where.UNDECIDED}
    if fail_on != "none" and any(one.where in bad for one in found):
        click.get_current_context().exit(1)
