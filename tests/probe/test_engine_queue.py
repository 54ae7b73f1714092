"""vLLM's own queue wait, where its answers carry it: read, summed up, and never invented."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from obs_exporter.probe.answer import Answer
from obs_exporter.simulator import Config, Engine
from obs_exporter.simulator.live import LiveOptions, start_in_thread

BIN = Path(sys.executable).parent
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        (b'{"queue_time_ms": 250.0}', 0.25),
        (b'{"queue_time_ms": 0}', 0.0),
        (b'{"queue_time_ms": null}', None),
        (b'{"queue_time_ms": -1}', None),
        (b'{"queue_time_ms": true}', None),
        (b'{"queue_time_ms": NaN}', None),
        (b'{"queue_time_ms": 1e999}', None),
        (b"null", None),
        (b"[1]", None),
    ],
)
def test_only_a_number_is_a_wait(metrics: bytes, expected: float | None) -> None:
    answer = Answer("text/event-stream")
    answer.feed(1, TOKEN + b'data: {"choices":[],"metrics":' + metrics + b"}\n\ndata: [DONE]\n\n")
    assert answer.queue_wait_s == expected


@pytest.mark.parametrize("told", [True, False])
def test_a_run_against_an_engine_that_tells_it(tmp_path: Path, told: bool) -> None:
    config = Config(engine=Engine(max_num_seqs=2, step_s=0.005))
    live = start_in_thread(config, LiveOptions(port=0, per_request_metrics=told, record_truth=True))
    output = tmp_path / "run.json"
    try:
        subprocess.run(
            [BIN / "obs-probe", "run", "--url", f"{live.url}/v1", "--concurrency", "6", "--requests-per-level", "18",
             "--max-tokens", "10", "--repeats", "1", "--warmup", "0", "--no-calibration", "--output", output],
            check=True, capture_output=True, timeout=90,
        )  # fmt: skip
        truth = [request.queue_wait for request in live.truth().requests if request.queue_wait is not None]
    finally:
        live.stop()
    wait = json.loads(output.read_text(encoding="utf-8"))["levels"][0]["engine_queue_wait_s"]
    if not told:
        assert wait["mean"] is None
        return
    assert wait["n"] == 18
    assert wait["mean"] == pytest.approx(sum(truth) / len(truth), rel=0.02)
