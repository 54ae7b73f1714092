"""The same load with aiohttp, as a careful user would write it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp

url, slots, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ttft: dict[str, float] = {}
good = 0
BODY = {
    "model": "truth", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 64, "stream": True,
    "stream_options": {"include_usage": True},
}  # fmt: skip


def peak_kb() -> int:
    """This program's own peak: getrusage also counts that of the parent, from before the exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


async def one(session: aiohttp.ClientSession, index: int) -> None:
    global good
    start = time.perf_counter()
    first = None
    async with session.post(f"{url}/chat/completions", json=BODY, headers={"X-Request-Id": f"r{index}"}) as response:
        async for line in response.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            if first is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                first = time.perf_counter() - start
    if first is not None:
        ttft[f"r{index}"] = first
        good += first <= 0.5 and time.perf_counter() - start <= 10


async def main() -> tuple[float, float]:
    numbers = iter(range(requests))

    async def slot(session: aiohttp.ClientSession) -> None:
        for index in numbers:
            await one(session, index)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        start, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(slot(session) for _ in range(slots)))
        return time.perf_counter() - start, time.process_time() - cpu


seconds, spent = asyncio.run(main())
rss = peak_kb()
print(json.dumps({"ttft": ttft, "good": good, "seconds": seconds, "cpu": spent, "rss_kb": rss}))
