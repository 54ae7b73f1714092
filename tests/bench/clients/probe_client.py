"""The probe's client: URL SLOTS REQUESTS -> one JSON object with each request's id and TTFT, and what it cost."""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Slots, Stop, Ticket, run_closed
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.request import Prompt, RequestBuilder, Shape, parse_endpoint
from obs_exporter.probe.truth.seal import AnonymousTLS

url, slots, requests = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
endpoint = parse_endpoint(url)
builder = RequestBuilder(endpoint, Shape("truth"))
maker, free, records = RecordMaker(SLO()), Slots(), list[Record]()
level = Level("bench", slots, None, requests, None)
prompt = Prompt((("user", "hello"),), 64)


def peak_kb() -> int:
    """This program's own peak: getrusage also counts that of the parent, from before the exec."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def build(index: int, scheduled_ns: int | None) -> tuple[bytes, Ticket]:
    name = f"r{index}"
    return builder.build(prompt, name), Ticket(level, 0, index, name, scheduled_ns)


options = ClientOptions(tls=AnonymousTLS()) if endpoint.tls else ClientOptions()
client = Client(endpoint, options, lambda exchange: records.append(maker.make(exchange)), free.free)
gc.disable()  # as the runner does while a level is loaded
start, cpu = time.perf_counter(), time.process_time()
run_closed(client, free, build, level, slots, iter(range(requests)), Stop())
print(json.dumps({
    "ttft": {record.id: record.ttft_s for record in records if record.outcome is Outcome.OK},
    "good": sum(record.good for record in records), "seconds": time.perf_counter() - start,
    "cpu": time.process_time() - cpu, "rss_kb": peak_kb(),
}))  # fmt: skip
