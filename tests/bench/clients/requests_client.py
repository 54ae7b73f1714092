"""The same load with requests and one thread a slot, as many scripts do it."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import requests

url, slots, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ttft: dict[str, float] = {}
good = [0]
lock = threading.Lock()
BODY = {
    "model": "truth", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 64, "stream": True,
    "stream_options": {"include_usage": True},
}  # fmt: skip


def peak_kb() -> int:
    """This program's own peak: getrusage also counts that of the parent, from before the exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def one(session: requests.Session, index: int) -> None:
    start = time.perf_counter()
    first = None
    headers = {"X-Request-Id": f"r{index}"}
    with session.post(f"{url}/chat/completions", json=BODY, headers=headers, stream=True, timeout=120) as response:
        for line in response.iter_lines(chunk_size=None):
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            event = json.loads(line[6:])
            if first is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - start
    if first is not None:
        with lock:
            ttft[f"r{index}"] = first
            good[0] += first <= 0.5 and time.perf_counter() - start <= 10


def slot(numbers: Iterator[int]) -> None:
    with requests.Session() as session:
        while True:
            with lock:
                index = next(numbers, None)
            if index is None:
                return
            one(session, index)


numbers = iter(range(count))
threads = [threading.Thread(target=slot, args=(numbers,)) for _ in range(slots)]
start, cpu = time.perf_counter(), time.process_time()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
seconds, spent = time.perf_counter() - start, time.process_time() - cpu
rss = peak_kb()
print(json.dumps({"ttft": ttft, "good": good[0], "seconds": seconds, "cpu": spent, "rss_kb": rss}))
