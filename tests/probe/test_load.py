"""Open and closed loops: arrivals, schedules, and judging from the schedule."""

from __future__ import annotations

import itertools
import time

import pytest

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, arrivals, run_closed, run_open
from obs_exporter.probe.outcome import SLO, Outcome, Record, meets
from obs_exporter.probe.request import Prompt, RequestBuilder, Shape, parse_endpoint
from obs_exporter.probe.truth.process import TruthProcess


def test_arrivals_are_poisson_and_repeatable() -> None:
    first = list(itertools.islice(arrivals(50.0, "a"), 20000))
    assert first == list(itertools.islice(arrivals(50.0, "a"), 20000))
    assert first != list(itertools.islice(arrivals(50.0, "b"), 20000))
    gaps = [b - a for a, b in itertools.pairwise(first)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.02, rel=0.03)
    spread = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert spread == pytest.approx(mean**2, rel=0.06)  # an exponential's standard deviation is its mean


def drive(
    server: TruthProcess, model: str, level: Level, times: list[float] | None, stop: Stop | None = None
) -> list[Record]:
    endpoint = parse_endpoint(server.url)
    builder = RequestBuilder(endpoint, Shape(model))
    maker, slots, records = RecordMaker(SLO()), Slots(), list[Record]()

    def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
        name = f"{model}-{index}"
        return builder.build(Prompt((("user", "x"),), 8), name), Ticket(level, 0, index, name, scheduled_ns)

    client = Client(
        endpoint, ClientOptions(timeout_s=5), lambda exchange: records.append(maker.make(exchange)), slots.free
    )
    try:
        if times is not None:
            run_open(client, build, level, iter(times), itertools.count(), stop or Stop())
        else:
            run_closed(client, slots, build, level, level.concurrency or 1, itertools.count(), stop or Stop())
    finally:
        client.close()
    return records


def test_a_slow_server_does_not_slow_the_questions(truth_server: TruthProcess) -> None:
    # Each answer takes over 0.2 s ("stall" runs into no timeout here), 40 come within 0.2 s: they overlap.
    times = [i * 0.005 for i in range(40)]
    start = time.time()
    records = drive(truth_server, "not-streamed", Level("x", None, 200.0, 40, None), times)
    assert len(records) == 40
    for record in records:
        assert record.late_s is not None
        assert record.late_s >= 0
        due = start + times[record.index]
        assert record.started_at >= due - 0.01


def test_an_open_loop_ends_with_its_duration(truth_server: TruthProcess) -> None:
    times = [0.05, 0.1, 0.4, 0.6]
    records = drive(truth_server, "healthy", Level("x", None, 5.0, None, 0.5), times)
    assert sorted(record.index for record in records) == [0, 1, 2]


def test_a_closed_loop_ends_with_its_duration(truth_server: TruthProcess) -> None:
    start = time.monotonic()
    records = drive(truth_server, "healthy", Level("x", 4, None, None, 0.3), None)
    assert time.monotonic() - start >= 0.3
    assert {record.outcome for record in records} == {Outcome.OK}
    assert len(records) >= 8


def test_a_stop_cancels_what_is_in_flight(truth_server: TruthProcess) -> None:
    stop = Stop()
    stop.requested = True
    assert drive(truth_server, "healthy", Level("x", 4, None, 100, None), None, stop) == []


def test_lateness_counts_against_the_slo() -> None:
    slo = SLO(ttft_s=0.5, e2e_s=1.0)
    assert meets(slo, 0.3, 0.9, None, 0.0)
    assert not meets(slo, 0.3, 0.9, None, 0.25)
    assert not meets(slo, 0.3, 0.7, None, 0.31)
    assert not meets(slo, None, 0.7, None, 0.0)
    assert not meets(SLO(tpot_s=0.01), 0.1, 0.5, 0.02, 0.0)
