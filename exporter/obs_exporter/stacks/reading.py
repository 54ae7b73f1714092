"""Read one page of one stack: who it is, which versions fit, and an answer for every signal of the schema. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from obs_exporter.exposition import Page
from obs_exporter.schema import SIGNALS, Series, Signal, State
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.base import Stack
from obs_exporter.stacks.expectation import expect, merge, on_paper, with_way_back
from obs_exporter.stacks.identity import Identity, identify
from obs_exporter.stacks.mapping import Mapped, apply
from obs_exporter.stacks.model import Answer, Claims, Oddity, Point, Reading, Row
from obs_exporter.stacks.versions import matches


def read_paper(stack: Stack, claims: Claims) -> Reading:
    """Say what a stack is known to do at a version (default: the newest known), without any page."""
    identity = identify(stack, None, claims)
    answers = tuple(_expected(stack, signal, identity.points) for signal in SIGNALS)
    return Reading(stack.name, identity.stack, identity.engine, identity.generation, answers)


def read_nothing(stack: Stack, claims: Claims, problem: str) -> Reading:
    """Say that a source could not be read: every signal is unreachable, for that one reason."""
    oddity = Oddity("unreadable", problem)
    answers = tuple(Answer(signal, State.UNREACHABLE, problem) for signal in SIGNALS)
    return Reading(stack.name, claims.stack_version, claims.engine_version, "", answers, (oddity,), problem)


def read_page(stack: Stack, page: Page, claims: Claims) -> Reading:
    """Map one page and judge what it lacks."""
    problem = page.problem or stack.unrecognised(page) or _only_made_up(stack, page)
    if problem:
        return read_nothing(stack, claims, problem)
    identity = identify(stack, page, claims)
    oddities = [*_page_oddities(stack, page), *_cadence_oddities(stack, identity), *identity.oddities]
    answers = []
    for signal in SIGNALS:
        answer, found = _answer(stack, page, signal, identity)
        answers.append(answer)
        oddities.extend(found)
    unique = tuple(dict.fromkeys(oddities))
    filled = tuple(_with_model(answers))
    return Reading(stack.name, identity.stack, identity.engine, identity.generation, filled, unique)


def _only_made_up(stack: Stack, page: Page) -> str:
    fakes, names = stack.made_up(page)
    if not fakes or fakes < names:
        return ""
    return "these vllm: families are a router's own view of its servers (label server): scrape the engines themselves"


def _page_oddities(stack: Stack, page: Page) -> Iterator[Oddity]:
    fakes, _ = stack.made_up(page)
    if fakes:
        message = f"{fakes} families have series that a router made up from its own view (label server); not used"
        yield Oddity("router_series", message, remedy="scrape the engines themselves")
    if page.damaged:
        first = page.damage[0]
        yield Oddity("damaged_lines", f"{page.damaged} damaged lines, the first is line {first.line}: {first.text}")


def _cadence_oddities(stack: Stack, identity: Identity) -> Iterator[Oddity]:
    cadence = stack.cadence_of(identity.stack)
    if cadence is not None:
        remedy = f"let one scraper ask it, every {cadence.seconds:g} s or less often, or upgrade {stack.title}"
        yield Oddity("destructive_scrape", cadence.reason, remedy=remedy)


def _expected(stack: Stack, signal: Signal, points: tuple[Point, ...]) -> Answer:
    return merge([(point, on_paper(stack, signal.id, point)) for point in points])


def _answer(stack: Stack, page: Page, signal: Signal, identity: Identity) -> tuple[Answer, list[Oddity]]:
    """Answer for one signal: from the page if it can be, else from the tables and what the page lacks."""
    oddities: list[Oddity] = []
    chosen: Answer | None = None
    also: list[str] = []
    for row, name, prefix in _candidates(stack, page, signal, identity):
        mapped = apply(row, name, page, stack.label_rule, row.count)
        if chosen is None:
            oddities.extend(mapped.oddities)
            if mapped.series:
                chosen = _published(stack, page, signal, identity, row, name, prefix, mapped)
                oddities.extend(_name_oddities(row, name, prefix, stack, identity))
        elif mapped.seen and name != chosen.native_name and name not in also:
            also.append(name)
            if row.family in chosen.native_name:
                message = f"{name} repeats {chosen.native_name}; the latter is used"
                oddities.append(Oddity("doubled", message, signal.id))
    if chosen is not None:
        return replace(chosen, also=tuple(also)), oddities
    answer = _absent(stack, page, signal, identity)
    if oddities and answer.state in (State.LOST, State.IDLE):
        reason = "; ".join(dict.fromkeys(oddity.message for oddity in oddities))
        answer = replace(answer, state=State.LOST, reason=reason, remedy="look at the page: the source is damaged")
    return answer, oddities


def _candidates(stack: Stack, page: Page, signal: Signal, identity: Identity) -> Iterator[tuple[Row, str, str]]:
    """Yield (row, name as spelled on the page, prefix): engine rows first, fitting versions before others."""
    point = identity.points[-1]
    engine_rows = [row for row in vllm.ROWS if row.signal == signal.id]
    for fitting in (True, False):
        for row in engine_rows:
            if _fits(row, point.engine) is fitting:
                for prefix in stack.engine_prefixes:
                    name = prefix + row.family
                    if page.has(name):
                        yield row, name, prefix
    ranked = stack.rows_for(signal.id, point)
    others = [row for row in stack.rows if row.signal == signal.id and row not in ranked]
    for row in (*ranked, *others):
        if page.has(row.family):
            yield row, row.family, ""


def _fits(row: Row, version: str) -> bool:
    return not version or matches(row.versions, version)


def _published(
    stack: Stack, page: Page, signal: Signal, identity: Identity, row: Row, name: str, prefix: str, mapped: Mapped
) -> Answer:
    """Build the answer of a signal that has a value."""
    point = identity.points[-1]
    renamed = bool(prefix) and prefix != stack.native_prefix and row.state is State.NATIVE
    foreign = bool(prefix) and not identity.shows(row.family)
    state = State.RENAMED if renamed or (foreign and row.state is State.NATIVE) else row.state
    precision = stack.precision(row, name, point, page)
    return Answer(signal, state, row.note, row.provenance, precision, name, series=mapped.series)


def _name_oddities(row: Row, name: str, prefix: str, stack: Stack, identity: Identity) -> Iterator[Oddity]:
    """Note names that something on the way, or another version, gave to a family."""
    if prefix and not identity.registers(row.family):
        release = identity.engine
        yield Oddity("foreign_version_name", f"vLLM {release} does not call it {name}", row.signal)
    if prefix and prefix in stack.mangled_prefixes:
        yield Oddity(
            "renamed_by_negotiation",
            f"families begin with {prefix} in place of {stack.native_prefix}: a scraper that asks for OpenMetrics "
            "without escaping=allow-utf-8 gets them so from prometheus_client 0.23 and newer",
            remedy="scrape with Accept: text/plain;version=0.0.4 (scrape_protocols: [PrometheusText0.0.4])",
        )


def _absent(stack: Stack, page: Page, signal: Signal, identity: Identity) -> Answer:
    """Answer for a signal that the page has no value of."""
    answers = []
    for point in identity.points:
        answer = stack.lacking(expect(stack, signal.id, point), point, page)
        answers.append((point, with_way_back(answer, stack, point)))
    return merge(answers)


def _with_model(answers: list[Answer]) -> Iterator[Answer]:
    """Fill the model label of series whose family has none, where the page names exactly one model."""
    models = {dict(series.labels).get("model", "") for answer in answers for series in answer.series} - {""}
    model = models.pop() if len(models) == 1 else ""
    for answer in answers:
        if model and any(dict(series.labels).get("model") == "" for series in answer.series):
            yield replace(answer, series=tuple(_named(series, model) for series in answer.series))
        else:
            yield answer


def _named(series: Series, model: str) -> Series:
    labels = dict(series.labels)
    return replace(series, labels=tuple(sorted((labels | {"model": labels.get("model") or model}).items())))
