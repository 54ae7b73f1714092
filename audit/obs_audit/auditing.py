"""From what the user asked to a finished report: the frame that gathers, judges and renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from obs_audit import checks, waivers
from obs_audit.evidence import Bundle, Sources, claimed, interpret
from obs_audit.profiles import profile
from obs_audit.verdict import Asked, Report, judge
from obs_exporter.errors import InputError
from obs_exporter.schema import BY_ID


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
    given = sources.given
    for flag, text in (("--stack-version", given.stack_version), ("--engine-version", given.engine_version)):
        try:
            claimed(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=flag) from None
    _check_urls(sources)
    if sources.none:
        return Bundle(given)  # a paper audit needs none of the modules that fetch
    from obs_audit.evidence.gathering import gather

    return gather(sources)


def _check_urls(sources: Sources) -> None:
    """Refuse what cannot be right before anything is sent."""
    urls = [("--url", url or " ") for url in sources.urls] + [("--api-url", sources.api_url)]
    if "://" in sources.baseline:
        urls.append(("--baseline", sources.baseline))
    if "://" in sources.ray_sd:
        urls.append(("--ray-sd", sources.ray_sd))
    for flag, url in urls:
        if url:
            from obs_exporter.sources.scrape import metrics_url

            try:
                metrics_url(url)
            except ValueError as error:
                raise click.BadParameter(str(error), param_hint=flag) from None
    if sources.exercise:
        from obs_exporter.sources.openai import chat_url

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
