"""May two results be compared? What differs, what is not known, and what then cannot be said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
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
        return f"{self.what}: baseline {self.baseline}, stack {self.stack}"


_TARGET = (("engine version", "engine_version", True), ("engine generation", "engine_generation", True),
           ("model", "model", False), ("GPU", "gpu", False))  # fmt: skip
_LIMITS = ("ttft_s", "e2e_s", "tpot_s")
_LOAD = ("api", "stream", "max_tokens", "ignore_eos", "min_tokens", "temperature", "unique_prefix")


def mismatches(baseline: dict[str, Any], stack: dict[str, Any]) -> tuple[list[Mismatch], list[str]]:
    """Return what is known to differ between two results, and what cannot be checked because a side does not say it."""
    found, unknown = [], []
    left, right = baseline["target"], stack["target"]
    for what, key, version in _TARGET:
        a, b = left.get(key), right.get(key)
        if a is None or b is None:
            sides = [name for name, value in (("the baseline", a), ("the stack", b)) if value is None]
            unknown.append(f"{what} is not known of {' and '.join(sides)}: not checked")
        elif a != b:
            found.append(Mismatch(what, str(a), str(b), version))
    settings = left.get("settings") or {}, right.get("settings") or {}
    for key in sorted(set(settings[0]) | set(settings[1])):
        a, b = settings[0].get(key), settings[1].get(key)
        if a is None or b is None:
            unknown.append(f"setting {key} is given for one side only: not checked")
        elif a != b:
            found.append(Mismatch(f"setting {key}", a, b, False))
    loads = baseline.get("load") or {}, stack.get("load") or {}
    if loads[0] and loads[1]:
        found += _different("load: ", _LOAD, *loads)
    return found, unknown


def slo_obstacle(results: Sequence[dict[str, Any]]) -> str:
    """Return why goodput cannot be compared over these results, or "": it is a share within limits."""
    found = [one for other in results[1:] for one in _different("SLO ", _LIMITS, results[0]["slo"], other["slo"])]
    return found[0].text if found else ""


def _different(what: str, keys: Sequence[str], left: dict[str, Any], right: dict[str, Any]) -> list[Mismatch]:
    return [
        Mismatch(what + key, str(left.get(key)), str(right.get(key)), False)
        for key in keys
        if left.get(key) != right.get(key)
    ]


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
        limited = next((level for level in levels if level.get("client_limited")), None)
        if limited is not None:
            return f"{name}: limited by the client: {limited.get('client', {}).get('limited', '')}"
    counts = [{level.get("requests") for level in levels if level.get("requests")} for levels in (baseline, stack)]
    if counts[0] and counts[1] and counts[0] != counts[1] and not timed:
        return f"requests a run differ: {_words(counts[0])} against {_words(counts[1])}"
    shares = [_failed_share(levels) for levels in (baseline, stack)]
    if abs(shares[0] - shares[1]) > _ERROR_SHARE:
        return f"failed requests differ: {shares[0]:.1%} against {shares[1]:.1%}: latencies are of other requests"
    hits = [_hit_ratio(levels) for levels in (baseline, stack)]
    if hits[0] is not None and hits[1] is not None and abs(hits[0] - hits[1]) > _HIT_RATIO:
        return f"prefix cache hits differ: {hits[0]:.0%} against {hits[1]:.0%}"
    return ""


def _words(counts: set[Any]) -> str:
    return "/".join(str(count) for count in sorted(counts))


def _failed_share(levels: Sequence[dict[str, Any]]) -> float:
    sent = sum(level.get("requests") or 0 for level in levels)
    failed = sum(sum((level.get("errors") or {}).values()) for level in levels)
    return failed / sent if sent else 0.0


def _hit_ratio(levels: Sequence[dict[str, Any]]) -> float | None:
    found = [(level.get("server") or {}).get("prefix_cache_hit_ratio", {}).get("value") for level in levels]
    known = [value for value in found if value is not None]
    return max(known) if known else None
