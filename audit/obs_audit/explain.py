"""``obs-audit explain SIGNAL``: what it means, who has it since when, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from obs_audit.timeline import lives, stretches
from obs_exporter.schema import BY_ID, Aggregation, Kind, Signal
from obs_exporter.stacks import STACKS, Answer
from obs_exporter.stacks.versions import span

_WINDOW = "5m"


def render(signal_id: str, stacks: Sequence[str]) -> str:
    """Return the explanation as text."""
    signal = BY_ID[signal_id]
    lines = [
        f"{signal.id}: {signal.meaning}",
        f"  {signal.metric}, {signal.kind} in {signal.unit}; several series of one target: {signal.aggregation}",
        "",
        "In the engine (vLLM)",
        *(_engine(signal) or ["  never: this is a signal of the serving layer or of the device"]),
        "",
        "In the stacks, before anything is configured",
    ]
    for stack in stacks:
        lines += [f"  {STACKS[stack].title}", *_stack(stack, signal_id)]
    lines += ["", "How to read it (PromQL)", *_queries(signal, stacks)]
    return "\n".join(lines) + "\n"


def _engine(signal: Signal) -> list[str]:
    """Return each family that carries it, by generation, with its life."""
    lines = []
    for life in lives(signal.id):
        runs = "; ".join(f"{status} {span(tuple(dict.fromkeys((first, last))))}" for status, first, last in life.runs)
        lines.append(f"  {life.generation}  vllm:{life.family}: {runs}" + (f" ({life.note})" if life.note else ""))
    return lines


def _stack(stack: str, signal: str) -> Iterator[str]:
    for run in stretches(stack, signal):
        answer = run.answer
        if answer.state.publishes:
            precision = f", {answer.precision}" if answer.precision != "exact" else ""
            note = f" ({answer.reason})" if answer.reason else ""
            yield f"    {run.title}: {answer.state}{precision}, {answer.native_name}{note}"
        else:
            yield f"    {run.title}: {answer.state}: {answer.reason}"
            if answer.remedy:
                cost = f" (costs: {answer.cost})" if answer.cost else ""
                yield f"      do: {answer.remedy}{cost}"


def _queries(signal: Signal, stacks: Sequence[str]) -> Iterator[str]:
    by = "target, gpu" if signal.metric.startswith("llm_gpu_") else "target, model"
    for title, query in queries(signal.kind, signal.metric, signal.aggregation, by):
        yield f"  common schema, {title}: {query}"
    for stack in stacks:
        answer = _newest(stack, signal.id)
        if answer is None:
            yield f"  {STACKS[stack].title}: no name to query; what can be done is said above"
        else:
            kind, name = _native_kind(stack, answer)
            for title, query in queries(kind, name, signal.aggregation, "instance"):
                yield f"  {STACKS[stack].title}, {title}: {query}"


def _newest(stack: str, signal: str) -> Answer | None:
    """Return the newest answer that has a value."""
    return next((run.answer for run in reversed(stretches(stack, signal)) if run.answer.state.publishes), None)


def _native_kind(stack: str, answer: Answer) -> tuple[Kind | str, str]:
    """Return how the native family is to be queried: a pair of counters and an info family have forms of their own."""
    row = next((row for row in STACKS[stack].rows if row.family == answer.native_name), None)
    if row is not None and row.count:
        return f"{row.count}", row.family
    if answer.native_name.endswith("_info"):
        return "info", answer.native_name
    return answer.signal.kind, answer.native_name


def queries(kind: Kind | str, name: str, aggregation: Aggregation, by: str) -> list[tuple[str, str]]:
    """Return (title, PromQL) of a family."""
    if kind is Kind.GAUGE:
        verb = "max" if aggregation is Aggregation.MAX else "sum"
        return [("now", f"{verb} by ({by}) ({name})")]
    if kind is Kind.COUNTER:
        return [("a second", f"sum by ({by}) (rate({name}[{_WINDOW}]))")]
    if kind is Kind.HISTOGRAM:
        buckets = f"sum by ({by}, le) (rate({name}_bucket[{_WINDOW}]))"
        ratio = f"sum by ({by}) (rate({name}_sum[{_WINDOW}])) / sum by ({by}) (rate({name}_count[{_WINDOW}]))"
        return [("p95", f"histogram_quantile(0.95, {buckets})"), ("mean", ratio)]
    if kind == "info":
        return [("labels", name)]
    ratio = f"sum by ({by}) (rate({name}[{_WINDOW}])) / sum by ({by}) (rate({kind}[{_WINDOW}]))"
    return [("mean, in the native unit", ratio)]
