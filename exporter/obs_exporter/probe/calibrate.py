"""The probe's own error: the same client, the same load, against a local server whose truth is known per request.

The error of a request is what the client measured less what the server truly did. A level whose client is wrong by more
than the limit says so (``client_limited``) instead of calling the client's error the server's.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, arrivals, run_closed, run_open
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.quantiles import quantile
from obs_exporter.probe.request import Prompt, RequestBuilder, Shape, parse_endpoint
from obs_exporter.probe.truth.behaviours import Profile
from obs_exporter.probe.truth.process import Truth, TruthProcess
from obs_exporter.probe.truth.seal import AnonymousTLS, available

_PROFILES = (Profile(ttft_s=0.05, itl_s=0.01, tokens=16), Profile(ttft_s=0.05, itl_s=0.01, tokens=64))
"""The truth to measure: 50 ms to the first token, then 100 tokens a second and stream. Few slots get short answers, to
be done soon; many get long ones, so that the starts of the streams do not decide the rate."""
_MANY = 16

_WAVES = 3
_MIN_REQUESTS = 8
_OPEN_SECONDS = 2.0
_MIN_RATE = 10.0
"""Open loops slower than this are calibrated at this rate: at their own a few seconds would bring no request."""
_RATE_FLOOR = 0.95


@dataclass(frozen=True, slots=True)
class Calibration:
    """The client's error at one load. Errors are seconds of measured minus true TTFT; ``cpu_s`` is CPU per request.

    ``rate_ratio`` is the request rate reached over the ideal one, once the connections stand (None for an open loop).
    ``tls``, ``http2``: over these.
    """

    concurrency: int | None
    rate: float | None
    requests: int
    ttft_error_p50_s: float
    ttft_error_p99_s: float
    rate_ratio: float | None
    ambiguous: int
    lag_p99_s: float | None
    cpu_s: float
    failed: int
    limit_s: float
    tls: bool = False
    http2: bool = False

    @property
    def limited(self) -> str:
        """Why this client cannot measure at this load, or "" when it can."""
        if self.failed:
            return f"{self.failed} of {self.requests} calibration requests failed against the local server"
        if self.ttft_error_p99_s > self.limit_s:
            return (
                f"the client's own TTFT error is {self.ttft_error_p99_s * 1e3:.1f} ms at p99"
                f" (limit {self.limit_s * 1e3:g} ms)"
            )
        if self.rate_ratio is not None and self.rate_ratio < _RATE_FLOOR:
            return f"the client reaches {self.rate_ratio:.0%} of the ideal request rate"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        rounded = {k: round(v, 9) if isinstance(v, float) else v for k, v in asdict(self).items()}
        return rounded | {"client_limited": bool(self.limited), "reason": self.limited}


def calibrate(
    level: Level, limit_s: float, slots: int | None = None, tls: bool = False, http2: bool = False
) -> Calibration:
    """Measure the client at one level's load (a shard's ``slots`` of it). Raises TruthError when no server starts.

    ``tls`` asks for TLS, as the target has it; without a cipher for it in this OpenSSL, the result's ``tls`` is false.
    """
    tls = tls and available()
    options = ClientOptions(timeout_s=30, http2=http2)
    if tls:
        options = replace(options, tls=AnonymousTLS())
    concurrency = slots if slots is not None else level.concurrency
    profile = _PROFILES[concurrency is None or concurrency >= _MANY]
    with TruthProcess(profile, tls=tls) as server:
        lag = LagHistogram()
        records, cpu = _measure(server.url, concurrency, level.rate, options, lag)
        truths = {truth.id: truth for truth in server.truth()}
    errors = sorted(_errors(records, truths))
    return Calibration(
        concurrency=level.concurrency, rate=level.rate, requests=len(records),
        ttft_error_p50_s=quantile(errors, 0.5) if errors else float("inf"),
        ttft_error_p99_s=quantile(errors, 0.99) if errors else float("inf"),
        rate_ratio=_rate_ratio(records, concurrency, profile) if concurrency else None,
        ambiguous=sum(record.ambiguous for record in records), lag_p99_s=lag.bound(0.99),
        cpu_s=cpu / len(records), failed=len(records) - len(errors), limit_s=limit_s, tls=tls, http2=http2,
    )  # fmt: skip


def _measure(
    url: str, concurrency: int | None, rate: float | None, options: ClientOptions, lag: LagHistogram
) -> tuple[list[Record], float]:
    """Put the load on; return the records and the CPU seconds that it cost."""
    endpoint = parse_endpoint(url)
    builder = RequestBuilder(endpoint, Shape(model="truth"))
    maker, slots, records = RecordMaker(SLO()), Slots(), list[Record]()
    prompt = Prompt((("user", "calibration"),), 64)
    requests = (
        None if concurrency is None else max(concurrency * _WAVES, -(-_MIN_REQUESTS // concurrency) * concurrency)
    )
    level = Level("calibration", concurrency, rate, requests, None if requests else _OPEN_SECONDS)

    def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
        name = f"calibration-{index}"
        return builder.build(prompt, name), Ticket(level, 0, index, name, scheduled_ns)

    client = Client(endpoint, options, lambda exchange: records.append(maker.make(exchange)), slots.free, lag.add)
    cpu = time.process_time()
    try:
        if concurrency is not None and requests is not None:
            run_closed(client, slots, build, level, concurrency, iter(range(requests)), Stop())
        else:
            run_open(
                client, build, level, arrivals(max(rate or 0.0, _MIN_RATE), "calibration"), itertools.count(), Stop()
            )
    finally:
        client.close()
    return records, time.process_time() - cpu


def _rate_ratio(records: list[Record], slots: int, profile: Profile) -> float:
    """Return an answer's true time over what a slot spends on it: that time as measured, and the gap until the next.

    Whichever slot takes it, the k-th request to end makes room for the k-th after the first ``slots``.
    """
    starts = sorted(record.started_at for record in records)[slots:]
    ends = sorted(record.started_at + (record.e2e_s or 0.0) for record in records)
    gap = sum(start - end for start, end in zip(starts, ends, strict=False)) / max(1, len(starts))
    taken = sum(record.e2e_s or 0.0 for record in records) / len(records)
    return round(profile.e2e_s / (taken + gap), 4)


def _errors(records: list[Record], truths: dict[str, Truth]) -> list[float]:
    """Return measured minus true TTFT of every request that went well."""
    return [
        record.ttft_s - truths[record.id].ttft_s
        for record in records
        if record.outcome is Outcome.OK and record.ttft_s is not None and record.id in truths
    ]
