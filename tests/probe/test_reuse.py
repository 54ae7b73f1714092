"""Servers that close connections which the client meant to use again."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, run_closed
from obs_exporter.probe.metrics import ProbeMetrics
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.request import Prompt, RequestBuilder, Shape, parse_endpoint
from obs_exporter.probe.truth.behaviours import DONE, HEAD_SSE, LAST_CHUNK, chunk, event

WHOLE = HEAD_SSE + chunk(event({"content": "a"}, "stop", 1)) + chunk(DONE) + LAST_CHUNK
Serve = Callable[[socket.socket, int], None]


def read_request(line: socket.socket) -> bytes:
    """Read one request of a test: it comes in one piece, or the connection is closed (b"")."""
    try:
        return line.recv(65536)
    except OSError:
        return b""


def answer_then_close(line: socket.socket, _number: int) -> None:
    """A good server that closes after each answer and does not say so."""
    if read_request(line):
        line.sendall(WHOLE)


def answer_once_then_hang_up(line: socket.socket, _number: int) -> None:
    """Answers the first request; reads the second one and closes: the client cannot see it coming."""
    if read_request(line):
        line.sendall(WHOLE)
        read_request(line)


def answer_once_then_reset(line: socket.socket, number: int) -> None:
    answer_once_then_hang_up(line, number)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def only_the_first_connection_answers(line: socket.socket, number: int) -> None:
    if read_request(line) and number == 0:
        line.sendall(WHOLE)
        read_request(line)


def one_byte_of_the_second_answer(line: socket.socket, number: int) -> None:
    if read_request(line):
        line.sendall(WHOLE)
        if read_request(line):
            line.sendall(b"H")


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """Serve each connection in a thread; close it when ``serve`` returns."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def one(line: socket.socket, number: int) -> None:
        with line:
            serve(line, number)

    def accept() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=one, args=(line, len(threads))))
            threads[-1].start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for one_thread in threads:
            one_thread.join()


def put(url: str, requests: int) -> list[Record]:
    endpoint = parse_endpoint(url)
    builder = RequestBuilder(endpoint, Shape("m"))
    maker, free, records = RecordMaker(SLO()), Slots(), list[Record]()
    level = Level("test", 1, None, requests, None)

    def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
        return builder.build(Prompt((("user", "x"),), 4), str(index)), Ticket(level, 0, index, str(index), scheduled_ns)

    client = Client(endpoint, ClientOptions(5.0), lambda exchange: records.append(maker.make(exchange)), free.free)
    try:
        run_closed(client, free, build, level, 1, iter(range(requests)), Stop())
    finally:
        client.close()
    return records


def test_a_server_that_closes_after_each_answer_is_a_good_server() -> None:
    with serving(answer_then_close) as url:
        records = put(url, 40)
    assert {record.outcome for record in records} == {Outcome.OK}


@pytest.mark.parametrize("serve", [answer_once_then_hang_up, answer_once_then_reset])
def test_a_kept_connection_that_closes_unanswered_is_redone_once_and_told(serve: Serve) -> None:
    with serving(serve) as url:
        records = put(url, 4)
    assert [record.outcome for record in records] == [Outcome.OK] * 4
    assert [record.redone for record in records] == [False, True, True, True]
    assert all(record.connect_s is not None for record in records)
    metrics, level = ProbeMetrics(SLO()), Level("test", 1, None, 4, None)
    for record in records:
        metrics.add("t", level, record)
    assert metrics.registry.get_sample_value(
        "llm_probe_redone_requests_total", {"target": "t", "scenario": "test", "concurrency": "1", "rate": ""}
    ) == sum(record.redone for record in records)


def test_a_new_connection_that_closes_unanswered_is_a_failure() -> None:
    with serving(only_the_first_connection_answers) as url:
        records = put(url, 2)
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.CONNECT]
    assert records[1].redone


def test_one_byte_of_an_answer_and_nothing_is_redone() -> None:
    with serving(one_byte_of_the_second_answer) as url:
        records = put(url, 2)
    assert [(record.outcome, record.redone) for record in records] == [(Outcome.OK, False), (Outcome.CONNECT, False)]
