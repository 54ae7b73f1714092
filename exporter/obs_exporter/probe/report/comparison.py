"""The documents of ``compare`` and ``diagnose``. Pure: findings in, a document or JSON values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from obs_exporter.probe.compare import Comparison, Finding, Noise
from obs_exporter.probe.diagnose import Diagnosis, Effect
from obs_exporter.probe.report.document import Block, Chart, Document, Line, Table, Text
from obs_exporter.probe.report.levels import load_name


def comparison_document(comparison: Comparison, baseline: str, stack: str, noise: Noise) -> Document:
    """Return the report of a comparison."""
    lines = [f"baseline: {baseline}", f"stack: {stack}", comparison.design]
    lines += [f"noise of {metric}: " + ", ".join(f"c <= {at}: {share:.1%}" for at, share in sorted(bands.items()))
              for metric, bands in sorted(noise.items())]  # fmt: skip
    lines += [f"NOT COMPARABLE: {one.text}" for one in comparison.refused]
    blocks: list[Block] = [Text((*lines, *comparison.remarks))]
    notes = {reason: i for i, reason in enumerate(dict.fromkeys(one.reason for one in comparison.findings), 1)}
    for metric in dict.fromkeys(finding.metric for finding in comparison.findings):
        rows = tuple(_row(one, notes[one.reason]) for one in comparison.findings if one.metric == metric)
        columns = ("level", "baseline", "stack", "difference", "95 % interval", "detectable", "verdict", "why")
        due = any(one.metric == metric and one.counted_from == "schedule" for one in comparison.findings)
        blocks.append(Table(f"{metric.name}, from the schedule" if due else metric.name, columns, rows))
    blocks.append(Text(tuple(f"({number}) {reason}" for reason, number in notes.items())))
    if comparison.trends:
        blocks.append(Table(
            "Growth with load: change of the ratio per doubling of concurrency",
            ("number", "per doubling", "95 % interval", "reading"),
            tuple(
                (f"{trend.scenario}: {trend.metric.name}", _change(trend.per_doubling, False),
                 f"{_change(trend.low, False)} .. {_change(trend.high, False)}", trend.words)
                for trend in comparison.trends
            ),
        ))  # fmt: skip
    blocks += _charts(comparison, baseline, stack)
    return Document(f"obs-probe compare: {stack} against {baseline}", tuple(blocks))


def _row(finding: Finding, note: int) -> tuple[str, ...]:
    share = finding.metric.share
    form = ".1%" if share else ".5g"
    interval = "none"
    if finding.low is not None and finding.high is not None:
        interval = f"{_change(finding.low, share)} .. {_change(finding.high, share)}"
    return (
        load_name(finding.load), _value(finding.baseline, form), _value(finding.stack, form),
        "-" if finding.effect is None else _change(finding.effect, share), interval,
        "-" if finding.detectable is None else _change(finding.detectable, share), str(finding.verdict), f"({note})",
    )  # fmt: skip


def _value(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _change(value: float, share: bool) -> str:
    text = f"{value * 100:+.1f} points" if share else f"{value:+.1%}"
    return text.replace("-0.0", "+0.0") if text.startswith(("-0.0 ", "-0.0%")) else text


def _charts(comparison: Comparison, baseline: str, stack: str) -> list[Chart]:
    charts = []
    for metric_id, name, factor, top in (
        ("throughput", "output tokens/s", 1.0, None),
        ("goodput", "good requests, %", 100.0, 100.0),
    ):
        rows = [one for one in comparison.findings if one.metric.id == metric_id and one.load[1]]
        lines = []
        for scenario in sorted({one.load[0] for one in rows}):
            own = [one for one in rows if one.load[0] == scenario]
            for side, values in (
                (baseline, [(one.load[1], one.baseline) for one in own]),
                (stack, [(one.load[1], one.stack) for one in own]),
            ):
                points = tuple((float(slots or 0), value * factor) for slots, value in values if value is not None)
                lines.append(Line(f"{side}, {scenario}", points))
        if any(line.points for line in lines):
            charts.append(
                Chart(f"{rows[0].metric.name}: bare against stack", "concurrency", name, tuple(lines), True, top)
            )
    return charts


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    return {
        "schema_version": 1,
        "design": comparison.design,
        "margin": comparison.margin,
        "not_comparable": [one.text for one in comparison.refused],
        "remarks": list(comparison.remarks),
        "findings": [
            {
                "metric": one.metric.id, "scenario": one.load[0], "concurrency": one.load[1], "rate": one.load[2],
                "baseline": one.baseline, "stack": one.stack, "difference": one.effect,
                "kind": "points" if one.metric.share else "ratio", "low": one.low, "high": one.high, "p": one.p,
                "detectable": one.detectable, "verdict": str(one.verdict), "reason": one.reason,
                "counted_from": one.counted_from or None,
            }
            for one in comparison.findings
        ],
        "trends": [
            {
                "metric": one.metric.id, "scenario": one.scenario, "per_doubling": one.per_doubling, "low": one.low,
                "high": one.high, "reading": one.words,
            }
            for one in comparison.trends
        ],
    }  # fmt: skip


def diagnosis_document(diagnoses: Sequence[Diagnosis], unknown: Sequence[str] = ()) -> Document:
    """Return the report of a diagnosis."""
    columns = ("level", "bare low", "bare high", "bare effect", "stack low", "stack high", "stack effect", "verdict")
    rows = tuple((one.load, *_effect_cells(one.bare), *_effect_cells(one.stack), str(one.where)) for one in diagnoses)
    basis = sorted({effect.basis for one in diagnoses for effect in (one.bare, one.stack) if effect is not None})
    lines = (
        "output tokens/s with the knob low and high, bare and behind the stack",
        *(f"intervals: {b}" for b in basis),
        *unknown,
    )
    reasons = Text(tuple(f"{one.load}: {one.why}" for one in diagnoses))
    return Document("obs-probe diagnose", (Text(lines), Table("Where the cap is", columns, rows), reasons))


def _effect_cells(effect: Effect | None) -> tuple[str, str, str]:
    if effect is None:
        return "-", "-", "-"
    change = f"{effect.change:+.1%}"
    if effect.low is not None and effect.high is not None:
        change += f" ({effect.low:+.1%}..{effect.high:+.1%})"
    return f"{effect.low_value:.1f}", f"{effect.high_value:.1f}", change


def diagnosis_json(diagnoses: Sequence[Diagnosis], unknown: Sequence[str] = ()) -> dict[str, Any]:
    """Return a diagnosis as JSON values."""
    return {
        "schema_version": 1,
        "remarks": list(unknown),
        "levels": [asdict(one) | {"where": str(one.where)} for one in diagnoses],
    }
