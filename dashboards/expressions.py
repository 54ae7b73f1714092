"""PromQL of the boards, built from the schema, so that a renamed metric cannot be left behind in a string.

Every expression works on every stack: sums run over replicas, quantiles over buckets, means over sum and count. Where a
target does not publish a signal, ``state`` says so in the same panel.
"""

from __future__ import annotations

from collections.abc import Iterable

from obs_exporter.schema import BY_ID, Aggregation, Kind, State

IDENTITY = 'stack=~"$stack", target=~"$target"'
SELECT = f'{IDENTITY}, model=~"$model"'
WINDOW = "[$__rate_interval]"
BY = "stack, target, model"
LEGEND = "{{target}} {{model}}"

PUBLISHED = "|".join(state for state in State if state.publishes)
TTFT_SLO, E2E_SLO = "0[.]5", "10([.]0)?"
"""Bucket edges of the two SLOs (TTFT 0.5 s, E2E 10 s), as a pattern for ``le``; vLLM's own buckets have both."""


def gauge(signal: str, by: str = BY) -> str:
    """Return a gauge over the replicas of a target, added up or the fullest, as the schema says."""
    row = BY_ID[signal]
    assert row.kind is Kind.GAUGE, signal  # noqa: S101 - a mistake in a board, found when it is built
    how = "max" if row.aggregation is Aggregation.MAX else "sum"
    return f"{how} by ({by}) ({row.metric}{{{_select(signal)}}})"


def rate(signal: str, by: str = BY) -> str:
    """Return a counter's rate a second over the replicas of a target."""
    row = BY_ID[signal]
    assert row.kind is Kind.COUNTER, signal  # noqa: S101
    return f"sum by ({by}) (rate({row.metric}{{{_select(signal)}}}{WINDOW}))"


def mean(signal: str, by: str = BY) -> str:
    """Return a histogram's mean over the window: sum over count, which every stack with the signal has."""
    metric = _histogram(signal)
    return " / ".join(
        f"sum by ({by}) (rate({metric}_{part}{{{_select(signal)}}}{WINDOW}))" for part in ("sum", "count")
    )


def quantile(level: float, signal: str, by: str = BY) -> str:
    """Return a quantile interpolated in the buckets of all replicas of a target."""
    buckets = f"rate({_histogram(signal)}_bucket{{{_select(signal)}}}{WINDOW})"
    return f"histogram_quantile({level}, sum by (le, {by}) ({buckets}))"


def share_within(signal: str, edge: str) -> str:
    """Return the share of observations at or below a bucket edge."""
    metric, select = _histogram(signal), _select(signal)
    good = f'sum by ({BY}) (rate({metric}_bucket{{{select}, le=~"{edge}"}}{WINDOW}))'
    return f"{good} / sum by ({BY}) (rate({metric}_count{{{select}}}{WINDOW}))"


def goodput_bound() -> str:
    """Return the least of the two shares within an SLO: goodput, which wants both at once, cannot be above it."""
    shares = (("ttft", share_within("ttft", TTFT_SLO)), ("e2e", share_within("request_duration", E2E_SLO)))
    marked = [f'label_replace({share}, "slo", "{name}", "", "")' for name, share in shares]
    return f"min by ({BY}) ({' or '.join(marked)})"


def state(*signals: str) -> str:
    """Return a series without a value (NaN) for each target that lacks one of these signals, named by the reason.

    A target whose page cannot be read is one series, not one a signal.
    """
    return f"({absent(signals, 'signal at all')}) * NaN"


def absent(signals: Iterable[str], all_of_them: str) -> str:
    """Return the series of llm_signal_info that say why signals are not there.

    A target that cannot be read becomes one series, whose label ``signal`` is ``all_of_them``.
    """
    info = f'llm_signal_info{{{IDENTITY}, signal=~"{"|".join(signals)}", state!~"{PUBLISHED}"'
    return together(f'{info}, state!="unreachable"}}', f'{info}, state="unreachable"}}', all_of_them)


def together(reachable: str, unreachable: str, all_of_them: str, also: str = "") -> str:
    """Return the series of two selectors, those of the second one a target; ``also`` are further labels to keep."""
    each = f"max by (stack, target, signal, state, reason{also}) ({reachable})"
    whole = f"max by (stack, target, state, reason) ({unreachable})"
    return f'{each} or label_replace({whole}, "signal", "{all_of_them}", "", "")'


def _histogram(signal: str) -> str:
    row = BY_ID[signal]
    assert row.kind is Kind.HISTOGRAM, signal  # noqa: S101
    return row.metric


def _select(signal: str) -> str:
    return SELECT if "model" in BY_ID[signal].label_names else IDENTITY
