"""What the tables say of a signal before any page is read: the paper half of every verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from obs_exporter.schema import BY_ID, Provenance, Signal, State
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.base import Stack
from obs_exporter.stacks.catalogue import Engine, Registration, catalogue
from obs_exporter.stacks.model import Answer, Point, Row
from obs_exporter.stacks.versions import matches, span


@lru_cache(maxsize=32768)
def expect(stack: Stack, signal_id: str, point: Point) -> Answer:
    """Say what a stack does with a signal at one pair of versions; remembered, since tables do not change.

    The stack's own families come first, then its rules, then what the engine registers.
    """
    signal = BY_ID[signal_id]
    rows = stack.rows_for(signal_id, point)
    if rows:
        return _published(signal, rows[0], rows[0].family, rows[0].state, stack, point)
    rule = stack.rule_for(signal_id, point)
    lacks = rule is not None and _engine_lacks(signal_id, rule.state, point)
    if rule is not None and not lacks:
        return Answer(signal, rule.state, rule.reason, remedy=rule.remedy, cost=rule.cost)
    if not point.engine:
        return Answer(signal, State.LOST, "the engine's version is not known")
    answer = _by_engine(stack, signal, point)
    if rule is None or not rule.remedy or not answer.remedy:
        return answer
    # A newer engine alone would not bring it back: the layer keeps it in.
    return replace(answer, remedy=f"{answer.remedy}, and then {rule.remedy}", cost=rule.cost)


def on_paper(stack: Stack, signal_id: str, point: Point) -> Answer:
    """Say what a stack does with a signal, and where it has none to show, how the exporter does all the same.

    A way back that needs nothing is the answer; one that needs a log or a flag is a remedy, and the signal stays lost
    until it is given.
    """
    answer = expect(stack, signal_id, point)
    way = stack.way_back(signal_id, point) if answer.state in _BACK else None
    if way is None or way.needs:
        return with_way_back(answer, stack, point)
    provenance = Provenance.LOG if way.state is State.LOG else Provenance.COMPUTED
    source = "the engine's log" if way.state is State.LOG else "computed"
    reason = f"{way.how} ({answer.reason})"
    return Answer(answer.signal, way.state, reason, provenance, way.precision, source, answer.remedies)


_BACK = (State.LOST, State.NEVER)
"""What can come back. What a switch shows stays hidden: the source's own value is better than any derived one."""


def with_way_back(answer: Answer, stack: Stack, point: Point) -> Answer:
    """Add to an answer without a value what would bring it back."""
    way = stack.way_back(answer.signal.id, point) if answer.state in _BACK else None
    if way is None:
        return answer
    if not way.needs:
        return replace(answer, alternative=f"obs-exporter derives it ({way.precision}): {way.how}")
    return replace(answer, alternative=f"let obs-exporter have {way.needs}: {way.how}")


def _engine_lacks(signal_id: str, state: State, point: Point) -> bool:
    """Whether a rule would call lost or hidden what the engine of this version never had."""
    if state not in (State.LOST, State.HIDDEN) or signal_id not in vllm.SIGNALS or not point.engine:
        return False
    return not vllm.rows_at(signal_id, Engine(point.engine, point.generation), catalogue())


def _by_engine(stack: Stack, signal: Signal, point: Point) -> Answer:
    """Answer from the engine's own table."""
    having = vllm.rows_at(signal.id, Engine(point.engine, point.generation), catalogue())
    rows = [(row, entry) for row, entry in having if not row.versions or row in _fitting(row.signal, point)]
    for row, entry in rows:
        if entry.status == "registered":
            prefix = stack.engine_prefixes[0]
            renamed = prefix != stack.native_prefix and row.state is State.NATIVE
            state = State.RENAMED if renamed else row.state
            return _published(signal, row, prefix + row.family, state, stack, point)
    for row, entry in rows:
        if entry.status in ("hidden", "conditional"):
            return _switchable(signal, row, entry, stack, point)
    return Answer(signal, State.NEVER, _never(signal, point), remedy=_upgrade(signal))


def _fitting(signal_id: str, point: Point) -> list[Row]:
    return [row for row in vllm.ROWS if row.signal == signal_id and matches(row.versions, point.engine)]


def _published(signal: Signal, row: Row, name: str, state: State, stack: Stack, point: Point) -> Answer:
    provenance = row.provenance
    precision = stack.precision(row, name, point, None)
    return Answer(signal, state, row.note, provenance, precision, name)


def _switchable(signal: Signal, row: Row, entry: Registration, stack: Stack, point: Point) -> Answer:
    hidden = entry.status == "hidden"
    switch = vllm.hidden_switch(point.engine) if hidden else entry.switch
    reason = f"vLLM {point.engine} has {stack.native_prefix}{row.family}, but shows it only with {switch}"
    cost = "the release after next removes it" if hidden else ""
    return Answer(
        signal, State.HIDDEN, reason, native_name=stack.native_prefix + row.family,
        remedy=f"start the engine with {switch}", cost=cost,
    )  # fmt: skip


def _lifespans(signal: Signal, generation: str) -> list[tuple[str, str]]:
    """Return the first and last release of each row that carries a signal in one generation."""
    spans = []
    for row in vllm.ROWS:
        if row.signal == signal.id:
            having = catalogue().having(row.family, generation)
            fitting = [release for release in having if matches(row.versions, release)]
            spans += [(fitting[0], fitting[-1])] if fitting else []
    return spans


def _never(signal: Signal, point: Point) -> str:
    generations = [(name, _lifespans(signal, name)) for name in ("V0", "V1")]
    having = [f"{name} from {span_start(spans)}" for name, spans in generations if spans]
    where = f" (vLLM has it in {', '.join(having)})" if having else ""
    return f"vLLM {point.engine} with the {point.generation} engine has no such metric{where}"


def span_start(spans: Sequence[tuple[str, str]]) -> str:
    """Return the first release of several lifespans, in release order."""
    order = catalogue().releases
    return min((first for first, _ in spans), key=order.index)


def _upgrade(signal: Signal) -> str:
    spans = _lifespans(signal, "V1")
    return f"upgrade vLLM to {span_start(spans)} or newer" if spans else ""


def merge(answers: Sequence[tuple[Point, Answer]]) -> Answer:
    """Make one answer of those at several possible versions: the newest's, with the others named.

    ``answers`` is never empty and in rising order of version.
    """
    newest = answers[-1][1]
    by_stack = len({point.stack for point, _ in answers}) > 1
    groups: dict[tuple[State, str], list[Point]] = {}
    for point, answer in answers:
        groups.setdefault((answer.state, answer.remedies), []).append(point)
    if len(groups) == 1:
        return newest
    several = len({point.generation for point, _ in answers}) > 1
    spans = {group: _versions(points, by_stack=by_stack, several=several) for group, points in groups.items()}
    named = [f"{state} for {spans[state, remedy]}" for state, remedy in groups]
    remedies = [f"{spans[state, remedy]}: {remedy}" for state, remedy in groups if remedy]
    differ = len({state for state, _ in groups}) > 1
    return replace(
        newest,
        reason=f"{newest.reason}; by version: {', '.join(named)}".removeprefix("; ") if differ else newest.reason,
        remedy="; ".join(remedies) if len(remedies) > 1 else newest.remedy,
    )


def _versions(points: Sequence[Point], *, by_stack: bool, several: bool) -> str:
    """Write the versions of a group; with the generation where the group has one and others have another."""
    if by_stack:
        return span([point.stack for point in points])
    generations = {point.generation for point in points}
    suffix = f" ({generations.pop()})" if several and len(generations) == 1 else ""
    return f"vLLM {span([point.engine for point in points])}{suffix}"
