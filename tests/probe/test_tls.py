"""TLS and proxies: the same loop, the same bounds; the error of a bad certificate is told."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from obs_exporter.probe.calibrate import calibrate
from obs_exporter.probe.cli import main
from obs_exporter.probe.client import ClientOptions
from obs_exporter.probe.load import Level
from obs_exporter.probe.outcome import Outcome
from obs_exporter.probe.request import Shape, parse_endpoint
from obs_exporter.probe.results import read_records, read_result, requests_path
from obs_exporter.probe.transport import TLSOptions, TransportError
from obs_exporter.probe.truth import seal
from obs_exporter.probe.truth.process import TruthProcess

from .conftest import FAST, Put

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    near, far = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_pump(reader, far), _pump(near, writer))


@contextmanager
def _relay(handler: Handler, context: ssl.SSLContext | None) -> Iterator[int]:
    """Run an asyncio server in a thread; yield its port."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(handler, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Front(TruthProcess):
    """A truth server as seen through a relay."""

    def __init__(self, inner: TruthProcess, url: str) -> None:
        super().__init__(inner.profile)
        self._inner, self._url = inner, url
        self.port = inner.port

    @property
    def url(self) -> str:
        return self._url


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(file)
    return str(file)


@pytest.fixture
def tls_front(truth_server: TruthProcess, authority: trustme.CA) -> Iterator[_Front]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    with _relay(lambda r, w: _join(r, w, truth_server.port), context) as port:
        yield _Front(truth_server, f"https://127.0.0.1:{port}/v1")


def test_over_tls(put: Put, tls_front: _Front, ca_file: str) -> None:
    got = put(tls_front, "healthy", slots=4, requests=12, options=ClientOptions(tls=TLSOptions(ca_file)))
    assert [record.outcome for record in got.records] == [Outcome.OK] * 12
    assert {record.tokens for record in got.records} == {FAST.tokens}
    for record in got.records:
        assert record.ttft_s is not None
        assert record.ttft_s >= got.truth[record.id].ttft_s
    assert sum(record.connect_s is not None for record in got.records) == 4


def test_a_large_request_over_tls(put: Put, tls_front: _Front, ca_file: str) -> None:
    shape = Shape("healthy", extra={"padding": "x" * 3_000_000})
    got = put(tls_front, slots=1, requests=1, shape=shape, options=ClientOptions(tls=TLSOptions(ca_file)))
    assert got.records[0].outcome is Outcome.OK


def test_an_unknown_certificate_is_a_connect_failure(put: Put, tls_front: _Front) -> None:
    got = put(tls_front, "healthy", slots=1, requests=1)
    assert got.records[0].outcome is Outcome.CONNECT
    assert "certificate" in got.records[0].detail
    insecure = put(tls_front, "healthy", slots=1, requests=1, options=ClientOptions(tls=TLSOptions(insecure=True)))
    assert insecure.records[0].outcome is Outcome.OK


def test_tls_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"nope\.pem"):
        TLSOptions(str(tmp_path / "nope.pem")).context()
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(TransportError, match=r"junk\.pem"):
        TLSOptions(str(junk)).context()


async def _proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A proxy: CONNECT, else absolute-form requests."""
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.split(b" ", 2)
    if method == b"CONNECT":
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _join(reader, writer, int(target.rpartition(b":")[2]))
        return
    endpoint = parse_endpoint(target.decode())
    near, far = await asyncio.open_connection("127.0.0.1", endpoint.port)
    far.write(head.replace(target, endpoint.path.encode(), 1))
    await asyncio.gather(_pump(reader, far), _pump(near, writer))


def test_through_a_proxy(put: Put, truth_server: TruthProcess, tls_front: _Front, ca_file: str) -> None:
    with _relay(_proxy, None) as port:
        options = ClientOptions(tls=TLSOptions(ca_file), proxy=parse_endpoint(f"http://127.0.0.1:{port}"))
        got = put(tls_front, "healthy", slots=2, requests=4, options=options)
        assert [record.outcome for record in got.records] == [Outcome.OK] * 4


async def _refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    writer.close()


def test_a_proxy_that_refuses(put: Put, tls_front: _Front) -> None:
    with _relay(_refusing, None) as port:
        options = ClientOptions(tls=TLSOptions(insecure=True), proxy=parse_endpoint(f"http://127.0.0.1:{port}"))
        got = put(tls_front, "healthy", slots=1, requests=1, options=options)
    assert got.records[0].outcome is Outcome.CONNECT
    assert "refused the tunnel" in got.records[0].detail


def test_the_command_through_a_proxy_plain_and_over_tls(
    truth_server: TruthProcess, tls_front: _Front, ca_file: str, tmp_path: Path
) -> None:
    output = tmp_path / "x.json"
    common = ["--concurrency", "2", "--requests-per-level", "4", "--repeats", "1", "--output", str(output)]
    with _relay(_proxy, None) as port:
        proxy = ["--proxy", f"http://127.0.0.1:{port}"]
        done = CliRunner().invoke(main, ["run", "--url", truth_server.url, *proxy, *common, "--no-calibration"])
        assert done.exit_code == 0, done.output
        assert read_result(output)["levels"][0]["goodput"] == 1.0
        far = ["run", "--url", tls_front.url, "--cacert", ca_file, *proxy, *common]
        done = CliRunner().invoke(main, far)
    assert done.exit_code == 0, done.output
    result = read_result(output)
    assert result["levels"][0]["goodput"] == 1.0
    assert result["target"]["model"] == "truth"
    assert [entry["tls"] for entry in result["calibration"]] == [seal.available()]
    assert not seal.available() or not any("TLS" in note for note in result["notes"])


def test_a_client_certificate(
    put: Put, truth_server: TruthProcess, authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    mine = authority.issue_cert("probe@example.org")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    mine.cert_chain_pems[0].write_to_path(cert)
    mine.private_key_pem.write_to_path(key)
    with _relay(lambda r, w: _join(r, w, truth_server.port), context) as port:
        front = _Front(truth_server, f"https://127.0.0.1:{port}/v1")
        known = ClientOptions(tls=TLSOptions(ca_file, str(cert), str(key)))
        assert put(front, "healthy", slots=1, requests=2, options=known).records[1].outcome is Outcome.OK
        unknown = put(front, "healthy", slots=1, requests=1, options=ClientOptions(tls=TLSOptions(ca_file)))
    assert unknown.records[0].outcome is Outcome.CONNECT


needs_seal = pytest.mark.skipif(not seal.available(), reason="this OpenSSL has no anonymous cipher")


@needs_seal
@pytest.mark.parametrize("behaviour", ["healthy", "split", "not-streamed", "truncated", "reset"])
def test_the_truth_over_tls_is_that_without(put: Put, truth_server: TruthProcess, behaviour: str) -> None:
    with TruthProcess(FAST, tls=True) as server:
        sealed = put(server, behaviour, slots=2, requests=4, options=ClientOptions(tls=seal.AnonymousTLS()))
    plain = put(truth_server, behaviour, slots=2, requests=4)
    assert [record.outcome for record in sealed.records] == [record.outcome for record in plain.records]
    assert [record.tokens for record in sealed.records] == [record.tokens for record in plain.records]
    for record in sealed.records:
        assert record.ttft_s is None or record.ttft_s >= sealed.truth[record.id].ttft_s


@needs_seal
def test_the_probe_measures_its_error_over_tls() -> None:
    done = CliRunner().invoke(main, ["calibrate", "--concurrency", "2", "--tls"])
    assert done.exit_code == 0, done.output
    assert "over TLS" in done.output
    found = calibrate(Level("calibration", 2, None, None, None), 0.005, tls=True)
    assert found.tls
    assert not found.failed
    assert found.ttft_error_p50_s > 0


def test_without_the_cipher_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obs_exporter.probe.calibrate.available", lambda: False)
    done = CliRunner().invoke(main, ["calibrate", "--concurrency", "1", "--tls"])
    assert done.exit_code == 2
    assert "no anonymous cipher" in done.output


def test_a_slow_handshake_is_the_servers_not_the_clients(
    truth_server: TruthProcess, authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    """In an open loop: the front blocks for a while, and those who come meanwhile wait for their connection."""
    came: list[int] = []

    async def blocking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        if len(came) == 6:
            time.sleep(0.8)  # nobody else is served meanwhile: that is the fault
        await _join(reader, writer, truth_server.port)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    output = tmp_path / "x.json"
    with _relay(blocking, context) as port:
        command = ["run", "--url", f"https://127.0.0.1:{port}/v1", "--model", "truth", "--cacert", ca_file, "--rate",
                   "30", "--requests-per-level", "60", "--repeats", "1", "--warmup", "0", "--no-calibration",
                   "--ttft-slo", "0.4", "--max-client-error", "0.3", "--output", str(output)]  # fmt: skip
        done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    (level,) = read_result(output)["levels"]
    assert level["schedule"]["late_s"]["p99"] > 0.4
    assert level["schedule"]["own_late_s"]["p99"] < level["schedule"]["late_s"]["p99"] / 2
    assert not level["client_limited"]
    late = [record for record in read_records(requests_path(output)) if (record.late_s or 0) > 0.4]
    assert late
    assert not any(record.good for record in late)
