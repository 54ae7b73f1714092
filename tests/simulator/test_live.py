"""The live server over real sockets: the API's shapes, its timing from below, and patience with rubbish."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from obs_exporter.probe.cli import main as probe
from obs_exporter.simulator import LAYERS, Config, Engine, Lengths, Outage
from obs_exporter.simulator.live import LiveOptions, LiveThread, start_in_thread

STEP_S = 0.02
PREFILL_TOKEN_S = 0.001
ENGINE = Engine(
    max_num_seqs=2, num_blocks=65, max_model_len=512, step_s=STEP_S, prefill_token_s=PREFILL_TOKEN_S, decode_seq_s=0.0
)
Scraper = Callable[[bytes | str], Any]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveThread]:
    config = Config(engine=ENGINE, output_tokens=Lengths(5.0))
    server = start_in_thread(config, LiveOptions(record_truth=True, per_request_metrics=True))
    yield server
    server.stop()


def events(response: requests.Response) -> Iterator[tuple[float, Any]]:
    for line in response.iter_lines():
        if line:
            assert line.startswith(b"data: ")
            data = line.removeprefix(b"data: ")
            yield time.monotonic(), data if data == b"[DONE]" else json.loads(data)


def stream(url: str, **more: Any) -> tuple[float, list[tuple[float, Any]]]:
    body = {"model": "tiny", "prompt": "word" * 40, "stream": True, "max_tokens": 10, "ignore_eos": True} | more
    began = time.monotonic()
    with requests.post(f"{url}/v1/completions", json=body, stream=True, timeout=10) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return began, list(events(response))


def test_a_stream_takes_at_least_the_time_that_the_engine_takes(live: LiveThread) -> None:
    began, seen = stream(live.url, stream_options={"include_usage": True})
    *tokens, usage, done = seen
    assert done[1] == b"[DONE]"
    assert usage[1]["usage"] == {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
    assert usage[1]["choices"] == []
    times = [at for at, _ in tokens]
    assert len(times) == 10
    first = STEP_S + 40 * PREFILL_TOKEN_S
    assert times[0] - began >= first
    assert times[-1] - began >= first + 9 * STEP_S
    reasons = [chunk["choices"][0]["finish_reason"] for _, chunk in tokens]
    assert reasons == [None] * 9 + ["length"]
    request = live.truth().requests[-1]
    assert request.ttft is not None
    assert request.ttft >= first
    assert request.inter_token_latencies == pytest.approx([STEP_S] * 9)


def test_per_request_metrics_are_those_of_the_truth(live: LiveThread) -> None:
    _, seen = stream(live.url, stream_options={"include_usage": True})
    metrics = seen[-2][1]["metrics"]
    request = live.truth().requests[-1]
    assert request.queue_wait is not None
    assert metrics["queue_time_ms"] == pytest.approx(request.queue_wait * 1000)
    assert metrics["mean_itl_ms"] == pytest.approx(STEP_S * 1000)
    assert metrics["time_to_first_token_ms"] == pytest.approx((STEP_S + 40 * PREFILL_TOKEN_S) * 1000)


def test_chat_opens_with_the_role_and_the_whole_answer_has_the_same_text(live: LiveThread) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 4,
            "ignore_eos": True}  # fmt: skip
    url = f"{live.url}/v1/chat/completions"
    with requests.post(url, json=body | {"stream": True}, stream=True, timeout=10) as response:
        chunks = [chunk for _, chunk in events(response)]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[0]["object"] == "chat.completion.chunk"
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1])
    whole = requests.post(url, json=body, timeout=10).json()
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": text}
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 4
    assert whole["system_fingerprint"].startswith("vllm-0.32.0")


def test_without_ignore_eos_the_model_stops_by_itself_but_not_before_min_tokens(live: LiveThread) -> None:
    url = f"{live.url}/v1/completions"
    free = requests.post(url, json={"prompt": "a", "max_tokens": 100}, timeout=10).json()
    assert (free["usage"]["completion_tokens"], free["choices"][0]["finish_reason"]) == (5, "stop")
    long = requests.post(url, json={"prompt": "a", "max_tokens": 100, "min_tokens": 12}, timeout=10).json()
    assert long["usage"]["completion_tokens"] == 12
    ids = requests.post(url, json={"prompt": [1, 2, 3], "max_tokens": 1}, timeout=10).json()
    assert ids["usage"]["prompt_tokens"] == 3


def test_more_clients_than_slots_wait_in_the_engine(live: LiveThread, scrape: Scraper) -> None:
    before = scrape(requests.get(f"{live.url}/metrics", timeout=10).content)
    threads = [threading.Thread(target=stream, args=(live.url,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = scrape(requests.get(f"{live.url}/metrics", timeout=10).content)
    name = "vllm:request_queue_time_seconds"
    assert after.get(f"{name}_count") - before.get(f"{name}_count") == 6
    # Two at a time, 10 tokens each: the last two wait for at least one whole answer, whoever came when.
    assert after.get(f"{name}_sum") - before.get(f"{name}_sum") > 2 * 9 * STEP_S


def test_the_other_pages(live: LiveThread) -> None:
    models = requests.get(f"{live.url}/v1/models", timeout=10).json()
    assert models["data"][0] | {"created": 0} == {
        "id": "tiny", "object": "model", "created": 0, "owned_by": "vllm", "root": "tiny", "parent": None,
        "max_model_len": 512,
    }  # fmt: skip
    assert requests.get(f"{live.url}/version", timeout=10).json() == {"version": "0.32.0"}
    assert requests.get(f"{live.url}/health", timeout=10).status_code == 200
    page = requests.get(f"{live.url}/metrics?name[]=x", timeout=10)
    assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert requests.get(f"{live.url}/nope", timeout=10).status_code == 404
    assert requests.delete(f"{live.url}/metrics", timeout=10).status_code == 405


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b"{}", 400, "prompt must be"),
        (b'{"prompt": "a", "model": "other"}', 404, "does not exist"),
        (b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens must be"),
        (b'{"prompt": "a", "max_tokens": 1e400}', 400, "max_tokens must be"),
        (b'{"prompt": "a", "max_tokens": 2, "min_tokens": 3}', 400, "min_tokens must not"),
        (b'{"prompt": "a", "max_tokens": 512}', 400, "maximum context length is 512"),
        (b'{"prompt": "a", "n": 2}', 400, "n must be 1"),
        (b'{"prompt": "a", "stream": "yes"}', 400, "stream must be true or false"),
        (b'{"prompt": "a", "stream_options": {}, "stream": 1}', 400, "stream must be"),
        (b'{"prompt": "a", "stream_options": {"include_usage": true}}', 400, "needs stream"),
        (b'{"prompt": ["a", "b"]}', 400, "prompt must be"),
        (b'{"prompt": "\\ud800", "model": "\\ud800"}', 404, "does not exist"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(live: LiveThread, body: bytes, status: int, message: str) -> None:
    response = requests.post(f"{live.url}/v1/completions", data=body, timeout=10)
    assert response.status_code == status
    assert message in response.json()["error"]["message"]


def raw(live: LiveThread, data: bytes) -> bytes:
    host, port = live.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: x", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", b"431"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{}", b"400"),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
    ],
)
def test_what_is_not_http_is_answered_and_the_server_lives(live: LiveThread, data: bytes, status: bytes) -> None:
    assert raw(live, data).startswith(b"HTTP/1.1 " + status)
    assert requests.get(f"{live.url}/health", timeout=10).status_code == 200


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_rubbish_never_ends_in_a_server_error(live: LiveThread, data: bytes) -> None:
    answer = raw(live, data)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 2"))


def test_a_client_that_hangs_up_is_dropped_from_the_engine(live: LiveThread) -> None:
    body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}
    with requests.post(f"{live.url}/v1/completions", json=body, stream=True, timeout=10) as response:
        next(response.iter_lines())
    deadline = time.monotonic() + 5
    while live.truth().requests[-1].outcome == "open" and time.monotonic() < deadline:
        time.sleep(0.05)
    truth = live.truth()
    assert truth.requests[-1].outcome == "aborted"
    time.sleep(3 * STEP_S)
    assert live.truth().used_blocks[-1][1] == 0


def test_an_engine_that_dies_takes_its_requests_and_its_page_with_it() -> None:
    with LiveThread(Config(engine=ENGINE), LiveOptions()) as live:
        body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}
        with requests.post(f"{live.url}/v1/completions", json=body, stream=True, timeout=10) as response:
            lines = response.iter_lines()
            next(lines)
            live.restart_engine(down_s=1000.0)
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                list(lines)
        for path in ("/metrics", "/v1/completions"):
            with pytest.raises(requests.ConnectionError):
                requests.request("POST" if "v1" in path else "GET", live.url + path, json={"prompt": "a"}, timeout=10)
        assert requests.get(f"{live.url}/health", timeout=10).status_code == 503


def test_an_engine_that_comes_back_counts_from_zero(scrape: Scraper) -> None:
    with LiveThread(Config(engine=ENGINE), LiveOptions()) as live:
        stream(live.url)
        live.restart_engine(down_s=0.001)
        time.sleep(0.01)
        page = scrape(requests.get(f"{live.url}/metrics", timeout=10).content)
        assert page.get("vllm:generation_tokens_total") == 0
        assert len(stream(live.url)[1]) == 11


def test_the_page_can_be_out_while_the_engine_works() -> None:
    with LiveThread(Config(engine=ENGINE, outages=(Outage(0.0, 1000.0),)), LiveOptions()) as live:
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{live.url}/metrics", timeout=10)
        assert stream(live.url)[1]


def test_ray_244_sends_bursts(tmp_path: Path) -> None:
    engine = dataclasses.replace(ENGINE, step_s=0.01, prefill_token_s=0.0)
    config = Config(engine=engine, layer=LAYERS["ray-2.44"])
    with LiveThread(config, LiveOptions(face="ray-serve-2.44", log_dir=tmp_path)) as live:
        began, seen = stream(live.url, max_tokens=40)
        models = requests.get(f"{live.url}/v1/models", timeout=10).json()
    assert models["data"][0]["rayllm_metadata"]["max_request_context_length"] == 512
    assert seen[0][0] - began >= 0.05
    assert seen[-1][0] - began >= 0.4
    logs = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    replica = next(text for name, text in logs.items() if name.startswith("serve/replica_"))
    assert "Queue time: " in replica
    assert any("# CUDA blocks: 64" in text for text in logs.values())


def test_time_can_run_faster() -> None:
    with LiveThread(Config(engine=ENGINE), LiveOptions(time_scale=20.0, record_truth=True)) as live:
        began = time.monotonic()
        stream(live.url, max_tokens=400)
        took = time.monotonic() - began
        request = live.truth().requests[0]
    assert request.e2e is not None
    assert request.e2e >= 400 * STEP_S
    assert took >= request.e2e / 20


def test_a_taken_port_is_an_error_of_the_caller(live: LiveThread) -> None:
    with pytest.raises(OSError, match="address already in use"):
        start_in_thread(Config(), LiveOptions(port=int(live.url.rpartition(":")[2])))


def test_memory_does_not_grow_with_what_is_over() -> None:
    with LiveThread(Config(engine=ENGINE), LiveOptions(time_scale=50.0)) as live:
        stream(live.url, max_tokens=300)
        time.sleep(1.2)
        assert live.kept_events < 20


def test_triton_has_its_generate_extension_too(live: LiveThread, tmp_path: Path) -> None:
    config = Config(engine=ENGINE, output_tokens=Lengths(5.0))
    server = start_in_thread(config, LiveOptions(face="triton", record_truth=True))
    try:
        base = f"{server.url}/v2/models/tiny"
        assert requests.get(f"{base}/ready", timeout=5).status_code == 200
        body = {"text_input": "word" * 40, "sampling_parameters": '{"max_tokens": 6, "ignore_eos": true}'}
        with requests.post(
            f"{base}/generate_stream", json=body | {"stream": True}, stream=True, timeout=10
        ) as response:
            texts = [event["text_output"] for _, event in events(response)]
        assert len(texts) == 6
        whole = requests.post(f"{base}/generate", json=body, timeout=10).json()
        assert whole == {"model_name": "tiny", "model_version": "1", "text_output": "".join(texts)}
        assert [one.request.prompt_tokens for one in server.truth().requests] == [40, 40]
        for path, wrong in (
            ("generate", b"["),
            ("generate", b'{"text_input": 1}'),
            ("generate_stream", b'{"stream": 3}'),
        ):
            assert requests.post(f"{base}/{path}", data=wrong, timeout=5).status_code == 400
        assert requests.get(f"{base}/generate", timeout=5).status_code == 405
        assert requests.get(f"{server.url}/v2/models/other/ready", timeout=5).status_code == 400
        done = CliRunner().invoke(
            probe, ["run", "--url", server.url, "--model", "tiny", "--api", "triton-generate", "--concurrency", "2",
                    "--requests-per-level", "6", "--repeats", "1", "--max-tokens", "4", "--ignore-eos", "--scenarios",
                    "short", "--no-calibration", "--no-unique-prefix", "--output", str(tmp_path / "x.json")],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        level = json.loads((tmp_path / "x.json").read_text())["levels"][0]
        assert (level["goodput"], level["output_tokens"], level["token_source"]) == (1.0, 24, {"chunks": 24})
    finally:
        server.stop()
    assert requests.get(f"{live.url}/v2/models/tiny/ready", timeout=5).status_code == 404
