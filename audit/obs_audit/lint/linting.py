"""Put sources, names and verdicts together: one finding for each metric of an expression that cannot be answered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from obs_audit.lint.answers import Judge, Verdict, has_model
from obs_audit.lint.promql import Use, fault, label_uses, metric_uses, replaced
from obs_audit.lint.sources import Expression, Source

COMMON_LABELS = {"model_name": "model", "model_id": "model"}
"""Labels of native families that the common schema calls otherwise."""
MODEL_LABELS = frozenset({"model", *COMMON_LABELS})


@dataclass(frozen=True, slots=True)
class Finding:
    """A metric of an expression that has no answer. The two expressions are "" where there is none to offer.

    ``notes`` are what else has to change: units, and labels that the other family does not have. An expression that
    Prometheus cannot read is one finding with the verdict ``syntax`` and no metric.
    """

    file: str
    expression: Expression
    verdict: Verdict
    native: str
    common: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linted:
    """The result over all files: what was judged, what was not, and what has no answer.

    ``unnamed`` are the expressions without any metric name: a variable stands for it, or it is a constant.
    """

    described: str
    expressions: int
    judged: int
    not_judged: tuple[str, ...]
    unnamed: tuple[Expression, ...]
    findings: tuple[Finding, ...]


def lint(sources: Iterable[Source], judge: Judge) -> Linted:
    """Judge every metric name of every expression."""
    sources = list(sources)
    recorded = frozenset().union(*(source.recorded for source in sources))
    findings: list[Finding] = []
    judged: set[str] = set()
    skipped: set[str] = set()
    unnamed: list[Expression] = []
    count = 0
    for source in sources:
        for expression in source.expressions:
            count += 1
            if said := fault(expression.text):
                findings.append(Finding(source.name, expression, Verdict("", "syntax", said), "", ""))
                continue
            named = metric_uses(expression.text)
            if not named:
                unnamed.append(expression)
            uses = [use for use in named if use.name not in recorded]
            verdicts = {use.name: judge.judge(use.name) for use in uses}
            judged |= {name for name, verdict in verdicts.items() if verdict.word != "not_judged"}
            skipped |= {name for name, verdict in verdicts.items() if verdict.word == "not_judged"}
            findings += _findings(source.name, expression, uses, verdicts, judge)
    return Linted(judge.described, count, len(judged), tuple(sorted(skipped)), tuple(unnamed), tuple(findings))


def _findings(
    file: str, expression: Expression, uses: list[Use], verdicts: dict[str, Verdict], judge: Judge
) -> list[Finding]:
    bad = _unanswered(uses, verdicts)
    if not bad:
        return []
    native = {name: verdict.native or ("" if verdict in bad else name) for name, verdict in verdicts.items()}
    common = {name: _common(verdict, judge) for name, verdict in verdicts.items()}
    labels = {use.name for use in label_uses(expression.text)} & MODEL_LABELS
    notes = []
    for name, verdict in verdicts.items():
        if verdict.no_model and labels:
            notes.append(f"{verdict.native} has it, but no label {' or '.join(sorted(labels))}")
            native[name] = ""
        elif common[name] and labels and not has_model(common[name]):
            notes.append(f"{common[name]} has it, but no label model: it is the layer's, of all models")
            common[name] = ""
        notes += [note for note in (verdict.native_note, verdict.common_note) if note]
    on_page = _rewritten(expression.text, uses, native)
    on_schema = _rewritten(expression.text, uses, common, labels=True)
    return [Finding(file, expression, verdict, on_page, on_schema, tuple(dict.fromkeys(notes))) for verdict in bad]


def _unanswered(uses: list[Use], verdicts: dict[str, Verdict]) -> list[Verdict]:
    """Return the verdicts on names without an answer; of a pattern's names one that has an answer is enough."""
    choices: dict[int, list[Use]] = {}
    for use in uses:
        choices.setdefault(use.choice, []).append(use)
    bad: dict[str, Verdict] = {}
    for choice, members in choices.items():
        if choice and any(use.open or verdicts[use.name].answerable for use in members):
            continue
        bad |= {use.name: verdicts[use.name] for use in members if not verdicts[use.name].answerable}
    return list(bad.values())


def _common(verdict: Verdict, judge: Judge) -> str:
    """Return the common name, where this stack publishes it; a name that is nobody's concern here stays."""
    if verdict.word == "not_judged":
        return verdict.name
    name = verdict.common or verdict.name
    return name if name.startswith("llm_") and judge.judge(name).answerable else ""


def _rewritten(text: str, uses: list[Use], names: dict[str, str], *, labels: bool = False) -> str:
    """Return the expression with every name replaced, or "" where one of them has no replacement."""
    if not all(names.values()):
        return ""
    changes = {(use.start, use.end): names[use.name] for use in uses}
    if labels:
        changes |= {
            (use.start, use.end): COMMON_LABELS[use.name] for use in label_uses(text) if use.name in COMMON_LABELS
        }
    return replaced(text, changes)
