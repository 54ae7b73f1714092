"""Read one page of one stack: who it is, which versions fit, and an answer for every signal of the schema. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from obs_exporter.exposition import Page
from obs_exporter.schema import SIGNALS, Histogram, Kind, Provenance, Scalar, Series, Signal, State
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.base import Stack
from obs_exporter.stacks.expectation import expect, merge, on_paper, with_way_back
from obs_exporter.stacks.identity import Identity, identify
from obs_exporter.stacks.mapping import NO_NUMBER, Mapped, apply
from obs_exporter.stacks.model import Answer, Claims, Oddity, Point, Reading, Row
from obs_exporter.stacks.versions import matches


def read_paper(stack: Stack, claims: Claims, *, regained: bool = True) -> Reading:
    """Say what a stack is known to do at a version (default: the newest known), without any page.

    With ``regained`` it is what the exporter can publish of it; without, what the stack itself does, where the way back
    is part of the remedy only: a verdict on the stack.
    """
    identity = identify(stack, None, claims)
    answers = tuple(_expected(stack, signal, identity.points, regained) for signal in SIGNALS)
    return Reading(stack.name, identity.stack, identity.engine, identity.generation, answers, identity.oddities)


def read_nothing(stack: Stack, claims: Claims, problem: str) -> Reading:
    """Say that a source could not be read: every signal is unreachable, for that one reason."""
    oddity = Oddity("unreadable", problem)
    answers = tuple(Answer(signal, State.UNREACHABLE, problem) for signal in SIGNALS)
    return Reading(stack.name, claims.stack_version, claims.engine_version, "", answers, (oddity,), problem)


def read_page(stack: Stack, page: Page, claims: Claims) -> Reading:
    """Map one page and judge what it lacks."""
    problem = page.problem or stack.unrecognised(page, claims) or _only_made_up(stack, page)
    if problem and (page.problem or not stack.layer_only(page)):
        return read_nothing(stack, claims, problem)
    identity = identify(stack, page, claims)
    oddities = [*_page_oddities(stack, page), *identity.oddities]
    answers = []
    for signal in SIGNALS:
        answer, found = _answer(stack, page, signal, identity)
        answers.append(answer)
        oddities.extend(found)
    answers, oddities = _without_numbers(answers, oddities)
    oddities.extend(_doubled(stack, answers))
    unique = tuple(dict.fromkeys(oddities))
    filled = tuple(_with_model(answers))
    return Reading(stack.name, identity.stack, identity.engine, identity.generation, filled, unique, problem)


def _without_numbers(answers: list[Answer], oddities: list[Oddity]) -> tuple[list[Answer], list[Oddity]]:
    """Judge NaN in place of values: an engine that never worked has observed nothing yet, any other is damaged."""
    nans = {oddity.signal: oddity.message for oddity in oddities if oddity.code == NO_NUMBER}
    if any(map(_worked, answers)):
        return answers, [replace(one, code="out_of_range") if one.code == NO_NUMBER else one for one in oddities]
    kept = [oddity for oddity in oddities if oddity.code != NO_NUMBER]
    damaged = {oddity.signal for oddity in kept}
    return [
        replace(answer, state=State.IDLE, reason=f"{nans[answer.signal.id]}: nothing observed yet", remedy="")
        if answer.signal.id in nans and answer.signal.id not in damaged and answer.state is State.LOST
        else answer
        for answer in answers
    ], kept  # fmt: skip


def _worked(answer: Answer) -> bool:
    """Whether a published value shows that the engine has, or had, something to do."""
    counting = answer.signal.kind is not Kind.GAUGE or answer.signal.id in ("requests_running", "requests_waiting")
    return counting and any(
        (one.count if isinstance(one, Histogram) else one.value if isinstance(one, Scalar) else 0) > 0
        for one in answer.series
    )


def _doubled(stack: Stack, answers: list[Answer]) -> Iterator[Oddity]:
    """Note, once for each spelling, which families stand on the page a second time."""
    for prefix in stack.engine_prefixes:
        twins = [
            (name, answer.native_name)
            for answer in answers
            for name in answer.also
            if name.startswith(prefix) and any(name == prefix + answer.native_name.removeprefix(other)
                                               for other in stack.engine_prefixes)
        ]  # fmt: skip
        if twins:
            name, used = twins[0]
            message = f"{len(twins)} signals stand twice on the page, such as {name} beside {used}; the latter is used"
            yield Oddity(
                "doubled", message,
                remedy="let dashboards and rules match one spelling, or their sums count everything twice",
            )  # fmt: skip


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


def _expected(stack: Stack, signal: Signal, points: tuple[Point, ...], regained: bool) -> Answer:
    if regained:
        return merge([(point, on_paper(stack, signal.id, point)) for point in points])
    return merge([(point, with_way_back(expect(stack, signal.id, point), stack, point)) for point in points])


def _answer(stack: Stack, page: Page, signal: Signal, identity: Identity) -> tuple[Answer, list[Oddity]]:
    """Answer for one signal: from the page if it can be, else from the tables and what the page lacks."""
    oddities: list[Oddity] = []
    chosen: Answer | None = None
    also: list[str] = []
    for listed, name, prefix in _candidates(stack, page, signal, identity):
        row = stack.adjusted(listed, name, identity.points[-1], page)
        if row is None:
            continue
        mapped = apply(row, name, page, stack.label_rule, row.count)
        if chosen is None:
            oddities.extend(mapped.oddities)
            if mapped.series:
                chosen = _published(stack, page, signal, identity, row, name, prefix, mapped)
                oddities.extend(_name_oddities(stack, page, row, name, prefix, identity))
        elif mapped.seen and name != chosen.native_name and name not in also:
            also.append(name)
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
            for prefix in stack.engine_prefixes:
                name = prefix + row.family
                if page.has(name) and _fits(row, point.engine, page.help(name)) is fitting:
                    yield row, name, prefix
    ranked = stack.rows_for(signal.id, point)
    others = [row for row in stack.rows if row.signal == signal.id and row not in ranked]
    for row in (*ranked, *others):
        if page.has(row.family):
            yield row, row.family, ""


def _fits(row: Row, version: str, text: str) -> bool:
    """Whether a row is meant by a family: by its HELP text where that can tell, else by the version."""
    if row.help and text:
        return row.help in text
    return not version or matches(row.versions, version)


def _published(
    stack: Stack, page: Page, signal: Signal, identity: Identity, row: Row, name: str, prefix: str, mapped: Mapped
) -> Answer:
    """Build the answer of a signal that has a value."""
    point = identity.points[-1]
    renamed = bool(prefix) and prefix != stack.native_prefix and row.state is State.NATIVE
    foreign = bool(prefix) and stack.names_by_engine(page) and not identity.shows(row.family)
    state = State.RENAMED if renamed or (foreign and row.state is State.NATIVE) else row.state
    precision = stack.precision(row, name, point, page)
    return Answer(signal, state, row.note, row.provenance, precision, name, series=mapped.series)


def _name_oddities(stack: Stack, page: Page, row: Row, name: str, prefix: str, identity: Identity) -> Iterator[Oddity]:
    """Note names that something on the way, or another version, gave to a family."""
    if prefix and stack.names_by_engine(page) and not identity.registers(row.family):
        release = identity.engine
        yield Oddity("foreign_version_name", f"vLLM {release} does not call it {name}", row.signal)
    for renaming in stack.renamings:
        if prefix == renaming.prefix:
            begin = f"families begin with {prefix} in place of {stack.native_prefix}"
            yield Oddity(renaming.code, f"{begin}: {renaming.reason}", remedy=renaming.remedy)


def _absent(stack: Stack, page: Page, signal: Signal, identity: Identity) -> Answer:
    """Answer for a signal that the page has no value of."""
    answers = []
    for point in identity.points:
        answer = stack.lacking(expect(stack, signal.id, point), point, page)
        answers.append((point, with_way_back(answer, stack, point)))
    return merge(answers)


def _with_model(answers: list[Answer]) -> Iterator[Answer]:
    """Fill the model label of cache_config_info, which has none, where the engine's other families name one model.

    Nothing else is filled: a label that comes with the first request and goes with a second model would break rates.
    """
    own = [answer for answer in answers if answer.provenance is Provenance.ENGINE]
    models = {dict(series.labels).get("model", "") for answer in own for series in answer.series} - {""}
    model = models.pop() if len(models) == 1 else ""
    for answer in answers:
        if (
            model
            and answer.signal.id in vllm.INFO_SIGNALS
            and any(dict(series.labels).get("model") == "" for series in answer.series)
        ):
            yield replace(answer, series=tuple(_named(series, model) for series in answer.series))
        else:
            yield answer


def _named(series: Series, model: str) -> Series:
    labels = dict(series.labels)
    return replace(series, labels=tuple(sorted((labels | {"model": labels.get("model") or model}).items())))
