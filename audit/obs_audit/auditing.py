"""From what the user asked to a finished report: the frame that gathers, judges and renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from obs_audit import checks, waivers
from obs_audit.evidence import Bundle, Given, interpret
from obs_audit.evidence.gathering import Where, gather
from obs_audit.profiles import profile
from obs_audit.verdict import Asked, Report, judge
from obs_exporter import options
from obs_exporter.errors import InputError
from obs_exporter.schema import BY_ID
from obs_exporter.sources.openai import chat_url
from obs_exporter.sources.scrape import metrics_url


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the evidence is, as asked for on the command line."""

    stack: str
    stack_version: str = ""
    engine_version: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_url: str = ""
    bearer_token_file: str = ""
    watch: float = 0.0
    engine_logs: tuple[str, ...] = ()
    ray_sd: str = ""
    annotations: tuple[str, ...] = ()
    baseline: str = ""
    exercise: str = ""
    model: str = ""
    exercise_hard: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be judged and gated on, as asked for on the command line."""

    profile: str = "all"
    required: str = ""
    fail_on: str = "none"
    expect: tuple[str, ...] = ()
    waivers: Path | None = None
    today: datetime | None = None


def split(asked: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a command's parameters into those of the sources and those of the question."""
    names = Question.__dataclass_fields__
    return (
        {name: value for name, value in asked.items() if name not in names},
        {name: value for name, value in asked.items() if name in names},
    )


def gathered(sources: Sources) -> Bundle:
    """Gather the evidence.

    Raises ``click.BadParameter``, naming the flag, for one that makes no sense, and ``InputError`` for a file that
    cannot be read.
    """
    options.claims(sources.stack_version, sources.engine_version)
    _check_urls(sources)
    where = Where(
        Given(sources.stack, sources.stack_version, sources.engine_version),
        urls=sources.urls,
        files=sources.files,
        api_url=sources.api_url,
        bearer_token_file=sources.bearer_token_file,
        watch=sources.watch,
        engine_logs=sources.engine_logs,
        discovery=sources.ray_sd,
        annotations=sources.annotations,
        baseline=sources.baseline,
        exercise_url=sources.exercise,
        model=sources.model,
        hard=sources.exercise_hard,
    )
    return gather(where)


def _check_urls(sources: Sources) -> None:
    """Refuse what cannot be right before anything is sent."""
    urls = [("--url", url) for url in sources.urls] + [("--api-url", sources.api_url)]
    if "://" in sources.baseline:
        urls.append(("--baseline", sources.baseline))
    if "://" in sources.ray_sd:
        urls.append(("--ray-sd", sources.ray_sd))
    for flag, url in urls:
        try:
            _ = metrics_url(url) if url else ""
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=flag) from None
    if sources.exercise:
        try:
            chat_url(sources.exercise)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--exercise") from None
        if not sources.model:
            raise click.UsageError("--exercise needs --model: the name that the API knows the model by")
        if not sources.urls:
            raise click.UsageError("--exercise needs --url: the page whose counters are to move")
    elif sources.exercise_hard:
        raise click.UsageError("--exercise-hard needs --exercise URL")
    if sources.watch and not sources.urls:
        raise click.UsageError("--watch needs --url: a file does not change")


def judged(bundle: Bundle, question: Question) -> Report:
    """Judge a bundle.

    Raises ``click.BadParameter`` for a flag that makes no sense and ``InputError`` for a file of waivers that is wrong.
    """
    required = tuple(signal.strip() for signal in question.required.split(",") if signal.strip())
    unknown = [signal for signal in required if signal not in BY_ID]
    if unknown:
        raise click.BadParameter(f"no such signal: {', '.join(unknown)}; see obs-audit signals", param_hint="--require")
    asked = Asked(
        question.fail_on,
        required,
        profile(question.profile),
        _expected(question.expect),
        waivers.load(question.waivers, checks.IDS) if question.waivers else (),
        _today(question),
    )
    return judge(interpret(bundle), asked)


def _today(question: Question) -> date:
    return question.today.date() if question.today else datetime.now(UTC).date()


def _expected(pairs: tuple[str, ...]) -> dict[str, str]:
    """Split ``key=value`` pairs. Raises ``click.BadParameter`` for one that is none."""
    expected = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip() or not value.strip():
            raise click.BadParameter(f"{pair!r} is no key=value, such as max_model_len=4096", param_hint="--expect")
        expected[name.strip().removeprefix("--").replace("-", "_")] = value.strip()
    return expected


def written(text: str, output: Path | None) -> None:
    """Print a report, or write it into a file. Raises ``InputError`` where that cannot be done."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: {error.strerror or error}") from None
