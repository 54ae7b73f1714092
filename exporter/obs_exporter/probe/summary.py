"""A level's numbers, computed from its records and from nothing else, so that merged shards give the same. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Any

from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.quantiles import LogBins, describe, distribution, doubles

STEADY_SHARE = 0.9
"""A level is in its steady state while at least this share of its slots is in use."""


@dataclass(frozen=True, slots=True, order=True)
class LevelKey:
    """Which repeat of which level a record belongs to; closed loops before open ones, then by load."""

    scenario: str
    concurrency: int
    rate: float
    repeat: int

    @classmethod
    def of(cls, record: Record) -> LevelKey:
        """Return the key of a record's level."""
        return cls(record.scenario, record.concurrency or 0, record.rate or 0.0, record.repeat)


class Accumulator:
    """Takes in the records of one repeat of one level in any order; keeps some 60 bytes of each."""

    def __init__(self, key: LevelKey) -> None:
        self._key = key
        self._outcomes: Counter[str] = Counter()
        self._sources: Counter[str] = Counter()
        self._tokens = 0
        self._good = 0
        self._ambiguous = 0
        self._not_streamed = 0
        self._ttft, self._tpot, self._e2e, self._late, self._queue = (doubles() for _ in range(5))
        self._ttft_due, self._e2e_due, self._own_late = doubles(), doubles(), doubles()
        self._start, self._end, self._first, self._last, self._count = (doubles() for _ in range(5))
        self._gaps = LogBins()
        self._connects = 0
        self._redone = 0

    def add(self, record: Record) -> None:
        """Take in one record."""
        self._outcomes[str(record.outcome)] += 1
        if record.outcome is Outcome.CANCELLED:
            return
        self._good += record.good
        self._connects += record.connect_s is not None
        self._redone += record.redone
        if record.late_s is not None:
            self._late.append(record.late_s)
        if record.own_late_s is not None and not record.redone:  # a second send's lateness is not the client's
            self._own_late.append(record.own_late_s)
        start = record.started_at
        self._start.append(start)
        self._end.append(start + (record.e2e_s or 0.0))
        ok = record.outcome is Outcome.OK
        self._count.append(record.tokens if ok else 0)
        self._first.append(start + (record.ttft_s or 0.0))
        self._last.append(start + (record.last_s or 0.0))
        if ok:
            self._add_latencies(record)

    def _add_latencies(self, record: Record) -> None:
        self._tokens += record.tokens
        self._sources[record.token_source] += record.tokens
        self._ambiguous += record.ambiguous
        self._not_streamed += not record.streamed
        if record.ttft_s is not None:
            self._ttft.append(record.ttft_s)
            if record.late_s is not None:
                self._ttft_due.append(record.ttft_s + record.late_s)
        if record.e2e_s is not None:
            self._e2e.append(record.e2e_s)
            if record.late_s is not None:
                self._e2e_due.append(record.e2e_s + record.late_s)
        if record.tpot_s is not None:
            self._tpot.append(record.tpot_s)
        if record.queue_wait_s is not None:
            self._queue.append(record.queue_wait_s)
        self._gaps.add(gap / 1e6 for gap in record.gaps_us)

    @property
    def finished(self) -> int:
        """Requests in the denominator so far."""
        return len(self._start)

    def summary(self) -> dict[str, Any]:
        """Return the level as JSON values. Percentiles are of successful requests; rates are over the full window."""
        key, sent = self._key, self.finished
        cancelled = self._outcomes[str(Outcome.CANCELLED)]
        duration = max(self._end) - min(self._start) if sent else 0.0
        per_second = round(self._tokens / duration, 3) if duration > 0 else None
        return {
            "scenario": key.scenario,
            "concurrency": key.concurrency or None,
            "rate": key.rate or None,
            "repeat": key.repeat,
            "started_at": round(min(self._start), 6) if sent else None,
            "requests": sent,
            "good": self._good,
            "goodput": round(self._good / sent, 6) if sent else None,
            "errors": {
                kind: count for kind, count in sorted(self._outcomes.items()) if kind not in ("ok", "cancelled")
            },
            "cancelled": cancelled,
            "duration_s": round(duration, 6),
            "output_tokens": self._tokens,
            "output_tokens_per_s": per_second,
            "requests_per_s": round(sent / duration, 4) if duration > 0 else None,
            "token_source": {source: count for source, count in sorted(self._sources.items()) if source},
            "ttft_s": describe(self._ttft) | {"curve": distribution(self._ttft)},
            "tpot_s": describe(self._tpot),
            "itl_s": self._gaps.describe(),
            "e2e_s": describe(self._e2e),
            "engine_queue_wait_s": describe(self._queue),
            "ambiguous_first_tokens": self._ambiguous,
            "not_streamed": self._not_streamed,
            "connections": self._connects,
            "redone": self._redone,
            "shape": self._shape(),
            "schedule": self._schedule(),
        }

    def _shape(self) -> dict[str, Any]:
        """Return what the ends of a closed loop do to throughput: waves, ceiling, and the steady state's rate."""
        slots, sent = self._key.concurrency, self.finished
        if not slots or not sent:
            return {"waves": None, "ceiling": None, "steady": None}
        waves = -(-sent // slots)
        return {
            "waves": round(sent / slots, 3),
            "ceiling": round(sent / (slots * waves), 4),
            "steady": self._steady(slots),
        }

    def _steady(self, slots: int) -> dict[str, Any] | None:
        """Return the longest window with nearly all slots in use, and its throughput; None when there is none."""
        # Merged as it is walked: a list of pairs for 100,000 requests would be most of this process's memory.
        events = heapq.merge(((at, -1) for at in sorted(self._end)), ((at, 1) for at in sorted(self._start)))
        # A slot's next request starts a moment after its last has ended: that dip is no end of the steady state.
        dip = 0.05 * (self._end[0] - self._start[0]) if self._end else 0.0
        level, opened, low_since = 0, None, None
        best: tuple[float, float] | None = None
        for at, change in events:
            if low_since is not None and opened is not None and at - low_since > dip:
                best = _longer(best, (opened, low_since))
                opened, low_since = None, None
            level += change
            if level >= STEADY_SHARE * slots:
                opened = at if opened is None else opened
                low_since = None
            elif opened is not None and low_since is None:
                low_since = at
        if opened is not None and low_since is not None:
            best = _longer(best, (opened, low_since))
        if best is None or best[1] <= best[0]:
            return None
        seconds = best[1] - best[0]
        tokens = sum(self._tokens_within(i, *best) for i in range(len(self._start)))
        return {"duration_s": round(seconds, 6), "output_tokens_per_s": round(tokens / seconds, 3)}

    def _tokens_within(self, i: int, low: float, high: float) -> float:
        """Return a request's tokens inside a window, its tokens spread evenly from the first to the last."""
        count, first, last = self._count[i], self._first[i], self._last[i]
        if not count or last < low or first > high:
            return 0.0
        if last <= first:
            return count
        return count * (min(last, high) - max(first, low)) / (last - first)

    def _schedule(self) -> dict[str, Any] | None:
        """Return how late an open loop's requests left, and TTFT and E2E from their schedule; None in a closed loop."""
        if not self._key.rate:
            return None
        return {
            "late_s": describe(self._late),
            "own_late_s": describe(self._own_late),
            "ttft_from_schedule_s": describe(self._ttft_due) | {"curve": distribution(self._ttft_due)},
            "e2e_from_schedule_s": describe(self._e2e_due),
        }


def _longer(best: tuple[float, float] | None, found: tuple[float, float]) -> tuple[float, float]:
    return found if best is None or found[1] - found[0] > best[1] - best[0] else best
