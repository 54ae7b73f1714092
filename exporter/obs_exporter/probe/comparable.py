"""May two results be compared? What differs, what is not known, and what then cannot be said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_ERROR_SHARE = 0.05
_HIT_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that differs; ``version`` marks those that --allow-version-mismatch lets pass."""

    what: str
    baseline: str
    stack: str
    version: bool

    @property
    def text(self) -> str:
        """The mismatch in words."""
        hint = " (one model under two names? run --weights says so)" if self.what == "model" else ""
        return f"{self.what}: baseline {self.baseline}, stack {self.stack}{hint}"


_VERSIONS = {"engine version": "engine_version", "engine generation": "engine_generation"}
_TARGET = _VERSIONS | {"model": "model", "GPU": "gpu"}
_LIMITS = ("ttft_s", "e2e_s", "tpot_s")
_LOAD = (
    "api", "stream", "max_tokens", "ignore_eos", "min_tokens", "temperature", "unique_prefix", "continuous_usage",
    "http2", "fresh_connections", "proxied",
)  # fmt: skip

Results = Sequence[dict[str, Any]]


def mismatches(baseline: Results, stack: Results) -> tuple[list[Mismatch], list[str]]:
    """Return what is known to differ between any of the results, and what cannot be checked: a result does not say it.

    The results of one side are held against each other too: they are taken for runs of one thing.
    """
    found = _mixed_loops(baseline, stack)
    unknown: list[str] = []
    left, right = [_facts(one) for one in baseline], [_facts(one) for one in stack]
    for what in dict.fromkeys((*_TARGET, *(key for facts in (*left, *right) for key in facts))):
        values = _told(left, what), _told(right, what)
        silent = [name for name, side in (("baseline", left), ("stack", right)) if any(what not in one for one in side)]
        if len({*values[0], *values[1]}) > 1:
            found.append(Mismatch(what, _words(values[0]), _words(values[1]), what in _VERSIONS))
        elif silent:
            unknown.append(f"{what} is not known of the {' and the '.join(silent)}: not checked")
    if not any(one.get("load") for one in (*baseline, *stack)):
        unknown.append("what was asked (max_tokens and other options) is not known of either side: not checked")
    return found, unknown


def _facts(result: dict[str, Any]) -> dict[str, str]:
    """Return what a result says of itself that must agree; what it does not say is not in it."""
    target, load = result["target"], result.get("load") or {}
    target = target | {"model": target.get("weights") or target.get("model")}
    told = {what: str(target[key]) for what, key in _TARGET.items() if target.get(key) is not None}
    settings = {f"setting {key}": str(value) for key, value in sorted((target.get("settings") or {}).items())}
    return told | settings | {f"load: {key}": str(load[key]) for key in _LOAD if key in load}


def _told(side: Sequence[dict[str, str]], what: str) -> list[str]:
    return list(dict.fromkeys(facts[what] for facts in side if what in facts))


def _mixed_loops(baseline: Results, stack: Results) -> list[Mismatch]:
    """Return the mismatch of closed and open loops: their latencies mean different things."""
    loops = [
        sorted({"closed loop" if level.get("concurrency") else "open loop" for one in side for level in one["levels"]})
        for side in (baseline, stack)
    ]
    mixed = len({*loops[0], *loops[1]}) > 1
    return [Mismatch("kind of load", _words(loops[0]), _words(loops[1]), False)] if mixed else []


def _words(values: Iterable[object]) -> str:
    return "/".join(map(str, values)) or "not known"


def slo_obstacle(baseline: Results, stack: Results) -> str:
    """Return why goodput cannot be compared over these results, or "": it is a share within limits."""
    for key in _LIMITS:
        left, right = (list(dict.fromkeys(one["slo"].get(key) for one in side)) for side in (baseline, stack))
        if len({*left, *right}) > 1:
            return Mismatch(f"SLO {key}", _words(left), _words(right), False).text
    return ""


def cannot_say(allowed: Sequence[Mismatch]) -> list[str]:
    """Return what a comparison across versions cannot say."""
    return [
        f"{mismatch.text}: the difference holds the engine's own change between these as well as the layer's cost;"
        " how much is the layer's cannot be said"
        for mismatch in allowed
    ]


def level_obstacle(baseline: Sequence[dict[str, Any]], stack: Sequence[dict[str, Any]], timed: bool = False) -> str:
    """Return why the runs of one level cannot be compared, or ""; ``timed`` levels were ended by the clock."""
    for name, levels in (("baseline", baseline), ("stack", stack)):
        limited = client_obstacle(levels)
        if limited:
            return f"{name}: {limited}"
    counts = [sorted({int(level["requests"]) for level in side if level.get("requests")}) for side in (baseline, stack)]
    if counts[0] and counts[1] and counts[0] != counts[1] and not timed:
        return f"requests a run differ: {_words(counts[0])} against {_words(counts[1])}"
    shares = [_failed_share(levels) for levels in (baseline, stack)]
    if abs(shares[0] - shares[1]) > _ERROR_SHARE:
        return f"failed requests differ: {shares[0]:.1%} against {shares[1]:.1%}: latencies are of other requests"
    hits = [_hit_ratio(levels) for levels in (baseline, stack)]
    if hits[0] is not None and hits[1] is not None and abs(hits[0] - hits[1]) > _HIT_RATIO:
        return f"prefix cache hits differ: {hits[0]:.0%} against {hits[1]:.0%}"
    return ""


def client_obstacle(levels: Sequence[dict[str, Any]]) -> str:
    """Return why the numbers of one of these levels are the client's and not the server's, or ""."""
    limited = next((level for level in levels if level.get("client_limited")), None)
    if limited is None:
        return ""
    return f"limited by the client: {(limited.get('client') or {}).get('limited') or 'no reason is told'}"


def _failed_share(levels: Sequence[dict[str, Any]]) -> float:
    sent = sum(level.get("requests") or 0 for level in levels)
    failed = sum(sum((level.get("errors") or {}).values()) for level in levels)
    return failed / sent if sent else 0.0


def _hit_ratio(levels: Sequence[dict[str, Any]]) -> float | None:
    found = [((level.get("server") or {}).get("prefix_cache_hit_ratio") or {}).get("value") for level in levels]
    known = [value for value in found if value is not None]
    return max(known) if known else None
