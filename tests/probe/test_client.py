"""The client against a server of known truth. A time may never be shorter than the truth; slack is only above."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.exchange import Exchange
from obs_exporter.probe.outcome import SLO, Outcome, judge
from obs_exporter.probe.request import TRITON_GENERATE, Shape, parse_endpoint
from obs_exporter.probe.truth.behaviours import BEHAVIOURS, FAULTS, Profile
from obs_exporter.probe.truth.process import TruthProcess

from .conftest import FAST, Put

EXPECTED = {
    "error-event": Outcome.STREAM_ERROR, "truncated": Outcome.TRUNCATED, "quiet-end": Outcome.TRUNCATED,
    "stall": Outcome.TIMEOUT, "empty": Outcome.EMPTY, "malformed-json": Outcome.MALFORMED,
    "malformed-http": Outcome.MALFORMED, "http-500": Outcome.HTTP_ERROR, "reset": Outcome.CONNECT,
    "triton-generate-error": Outcome.STREAM_ERROR,
}  # fmt: skip
"""What each fault must be called; every other behaviour is a healthy answer."""


def test_every_fault_has_an_expectation() -> None:
    assert set(EXPECTED) == set(FAULTS)


@pytest.mark.parametrize("behaviour", sorted(BEHAVIOURS))
def test_outcome_of_every_behaviour(put: Put, truth_server: TruthProcess, behaviour: str) -> None:
    got = put(truth_server, behaviour, timeout_s=0.5 if behaviour == "stall" else 20.0)
    expected = EXPECTED.get(behaviour, Outcome.OK)
    assert [record.outcome for record in got.records] == [expected] * 4
    assert all(record.good == (expected is Outcome.OK) for record in got.records)
    assert all(record.detail for record in got.records) == (expected is not Outcome.OK)


@pytest.mark.parametrize("behaviour", sorted(set(BEHAVIOURS) - set(FAULTS) - {"four-no-usage"}))
def test_tokens_are_exact(put: Put, truth_server: TruthProcess, behaviour: str) -> None:
    got = put(truth_server, behaviour)
    assert {record.tokens for record in got.records} == {FAST.tokens}


def test_chunks_are_no_tokens_and_the_source_says_so(put: Put, truth_server: TruthProcess) -> None:
    (record, *_) = put(truth_server, "four-no-usage").records
    assert (record.tokens, record.token_source, record.events) == (FAST.tokens // 4, "chunks", FAST.tokens // 4)


def test_continuous_usage_makes_tpot_exact_with_several_tokens_an_event(put: Put, truth_server: TruthProcess) -> None:
    (plain, *_) = put(truth_server, "four-per-event").records
    (exact, *_) = put(truth_server, "four-continuous").records
    for record, after in ((plain, FAST.tokens - 1), (exact, FAST.tokens - 4)):
        assert record.ttft_s is not None
        assert record.last_s is not None
        assert record.tpot_s == pytest.approx((record.last_s - record.ttft_s) / after)


def test_the_role_chunk_is_not_the_first_token(put: Put, truth_server: TruthProcess) -> None:
    got = put(truth_server, "role-first")
    assert all(record.ttft_s is not None and record.ttft_s >= FAST.ttft_s for record in got.records)


@pytest.mark.parametrize("profile", [Profile(0.03, 0.004, 10), Profile(0.09, 0.001, 25)])
@pytest.mark.parametrize("slots", [1, 16])
def test_never_below_the_truth(
    put: Put, start_truth: Callable[..., TruthProcess], profile: Profile, slots: int
) -> None:
    server = start_truth(profile)
    got = put(server, slots=slots, requests=slots * 3)
    for record in got.records:
        truth = got.truth[record.id]
        assert record.ttft_s is not None
        assert record.e2e_s is not None
        assert record.tpot_s is not None
        assert truth.ttft_s <= record.ttft_s < truth.ttft_s + 1.0
        assert truth.e2e_s <= record.e2e_s < truth.e2e_s + 1.0
        assert record.ttft_s >= profile.ttft_s
        assert record.tokens == profile.tokens
        assert 0 <= record.tpot_s < profile.itl_s + 1.0


def test_constructed_goodput_is_exact(put: Put, start_truth: Callable[..., TruthProcess]) -> None:
    server = start_truth(Profile(0.01, 0.001, 4), "--slow-share", "0.63", "--slow-ttft", "0.8")
    got = put(server, slots=200, requests=200, slo=SLO(ttft_s=0.5))
    assert sum(record.good for record in got.records) == 200 * 37 // 100


def test_the_studys_shape_reads_100_percent(put: Put, start_truth: Callable[..., TruthProcess]) -> None:
    got = put(start_truth(Profile(0.05, 0.005, 32)), slots=64, requests=100)
    assert sum(record.good for record in got.records) == 100


def test_ten_thousand_with_faults_are_accounted_for_once(put: Put, start_truth: Callable[..., TruthProcess]) -> None:
    server = start_truth(Profile(0.002, 0.001, 3), "--faults", "0.05", "--seed", "3")
    got = put(server, slots=64, requests=10000, timeout_s=2.0)
    assert sorted(record.index for record in got.records) == list(range(10000))
    truth = Counter(EXPECTED.get(one.behaviour, Outcome.OK) for one in got.truth.values())
    found = Counter(record.outcome for record in got.records)
    assert found == truth  # of a request that was sent again, the server's last word counts
    assert {Outcome.OK, *EXPECTED.values()} - {Outcome.CONNECT} <= set(found)
    resets = sum(one.behaviour == "reset" for one in got.log)
    assert resets > 0
    assert resets == found[Outcome.CONNECT] + sum(record.redone for record in got.records)


def test_fresh_connections(put: Put, truth_server: TruthProcess) -> None:
    fresh = put(truth_server, slots=1, requests=3, options=ClientOptions(reuse=False)).records
    kept = put(truth_server, slots=1, requests=3).records
    assert [record.connect_s is not None for record in fresh] == [True, True, True]
    assert [record.connect_s is not None for record in kept] == [True, False, False]


def test_completions_api_and_no_stream(put: Put, truth_server: TruthProcess) -> None:
    got = put(truth_server, shape=Shape("not-streamed", api="completions", stream=False))
    assert all(record.outcome is Outcome.OK and not record.streamed for record in got.records)
    assert all(record.tpot_s is None and record.ttft_s == record.e2e_s for record in got.records)


def test_refused_connections_are_connect_outcomes(put: Put) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    got = _exchange(f"http://127.0.0.1:{port}")
    assert got.ending is not None
    assert got.ending.failure is Outcome.CONNECT
    assert "refused" in got.ending.detail


@contextmanager
def _listener(*answers: bytes) -> Iterator[str]:
    """Serve one connection: read a request, write the answers, close."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            line, _ = listener.accept()
            with line:
                line.recv(65536)
                for answer in answers:
                    line.sendall(answer)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def _exchange(url: str, payload: bytes = b"POST / HTTP/1.1\r\n\r\n", timeout_s: float = 5.0) -> Exchange:
    ended: list[Exchange] = []
    client = Client(parse_endpoint(url), ClientOptions(timeout_s=timeout_s), ended.append)
    client.start(payload, None)
    while client.busy:
        client.poll(0.1)
    client.close()
    assert len(ended) == 1
    return ended[0]


def test_closed_before_any_byte_is_connect() -> None:
    with _listener() as url:
        ending = _exchange(url).ending
    assert ending is not None
    assert ending.failure is Outcome.CONNECT


def test_closed_inside_the_head_is_connect() -> None:
    with _listener(b"HTTP/1.1 200 OK\r\nContent-") as url:
        ending = _exchange(url).ending
    assert ending is not None
    assert ending.failure is Outcome.CONNECT


class Endless:
    """A server that sends one line without an end, as fast as it can, until the client hangs up."""

    def __init__(self, start: bytes) -> None:
        self.sent = 0
        self._start = start
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        line, _ = self._listener.accept()
        with self._listener, line:
            line.recv(65536)
            try:
                line.sendall(self._start)
                while self.sent < 400 * 2**20:
                    line.sendall(b"x" * 65536)
                    self.sent += 65536
            except OSError:
                return


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: ",
    ],
)
def test_an_endless_answer_is_cut_off(start: bytes) -> None:
    server = Endless(start)
    got = _exchange(server.url, timeout_s=30.0)
    server.thread.join()
    assert got.answer is not None
    assert got.ending is not None
    assert judge(got.answer, got.ending)[0] is Outcome.MALFORMED
    assert server.sent < 40 * 2**20
    assert got.held < 2 * 2**20


def test_a_large_request_is_sent_whole(put: Put, truth_server: TruthProcess) -> None:
    big = Shape("healthy", extra={"padding": "x" * 8_000_000})
    got = put(truth_server, slots=2, requests=2, shape=big)
    assert [record.outcome for record in got.records] == [Outcome.OK] * 2


def test_cancel_ends_all_and_calls_it_so(truth_server: TruthProcess) -> None:
    from obs_exporter.probe.request import Prompt, RequestBuilder

    endpoint = parse_endpoint(truth_server.url)
    payload = RequestBuilder(endpoint, Shape("stall")).build(Prompt((("user", "x"),), 4), "x")
    ended: list[Exchange] = []
    client = Client(endpoint, ClientOptions(), ended.append)
    for _ in range(3):
        client.start(payload, None)
    for _ in range(20):
        client.poll(0.01)
    client.cancel()
    assert not client.busy
    client.close()
    assert [one.ending.failure for one in ended if one.ending is not None] == [Outcome.CANCELLED] * 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["truth", "triton-generate-old", "triton-generate-error"])
def test_tritons_generate_extension(put: Put, truth_server: TruthProcess, model: str, stream: bool) -> None:
    got = put(truth_server, shape=Shape(model, TRITON_GENERATE, stream))
    failed = model == "triton-generate-error"
    for record in got.records:
        assert record.outcome is (Outcome.STREAM_ERROR if failed else Outcome.OK)
        assert record.finish_reason == ("" if model != "truth" else "stop" if stream else "length")
        if failed:
            assert record.detail == "engine died"
            continue
        truth = got.truth[record.id]
        assert record.tokens == truth.tokens == FAST.tokens
        assert record.token_source == ("usage" if model == "truth" else "chunks")
        assert record.ttft_s is not None
        assert record.ttft_s >= truth.ttft_s
