"""Series to draw: simulated engines of four stacks under a load that grows, through the exporter's path, in no time.

Every 15 simulated seconds each target's page is read, derived from and rendered as ``serve`` would, with that moment's
time stamp. The probe's pages are captures of ``obs-probe run``, kept with the tests.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obs_exporter.config import Target
from obs_exporter.derive import Evidence, Memory
from obs_exporter.look import Look, derived, parse_body
from obs_exporter.mapping_once import rendered
from obs_exporter.simulator import LAYERS, Config, Engine, Ramp, Run, Steady, simulate
from obs_exporter.sources.scrape import Access
from obs_exporter.stacks import STACKS, read_nothing, read_page

ROOT = Path(__file__).parents[2]
START = 1_790_000_000
"""Unix time of the first sample; any fixed time gives the same pictures."""
STEP, LENGTH = 15, 1800
PROBE_START = START + LENGTH + 600
CAPTURED = ("probe-bare", "probe-ray", "exporter")
"""Pages of two probe runs, and of the exporter that looked at the probed servers meanwhile (capture.py makes them)."""

ENGINE = Engine(max_num_seqs=16, num_blocks=185, max_model_len=2048, step_s=0.02, jitter=0.2)
LOAD = (Steady(480.0, 3.0), Ramp(360.0, 3.0, 7.5), Steady(240.0, 7.5), Ramp(240.0, 7.5, 3.0), Steady(480.0, 4.0))
FACES = {
    # Target: its stack, the page that it shows, the layer in front. Targets of one stack show the same engine.
    "vllm": ("vllm", "vllm", "direct"),
    "kserve": ("kserve", "kserve", "direct"),
    "triton": ("triton", "triton", "triton"),
    "triton-side-port": ("triton", "vllm", "triton"),
    "ray": ("ray-serve", "ray-serve", "ray"),
}
OFF = "ray/2.60.0-llm-vllm0.29.0-metrics-off/after"


@dataclass
class _Source:
    """One target, its simulated run (none: a captured page, or nothing that answers), and what it remembers."""

    target: Target
    face: str = ""
    run: Run | None = None
    page: bytes = b""
    memory: Memory | None = None

    def look(self, second: float) -> Look:
        """Take the look that the exporter would have taken at that second."""
        stack = STACKS[self.target.stack]
        if self.run is None and not self.page:
            nothing = read_nothing(stack, self.target.claims, "http://10.0.0.9:8000/metrics refused the connection")
            return Look(nothing, 0.01, "refused")
        shown = self.run.page(self.face, second) if self.run is not None else self.page
        page = parse_body(self.target.stack, shown if isinstance(shown, bytes) else shown.encode())
        reading = read_page(stack, page, self.target.claims)
        memory = self.memory or Memory()
        self.memory = memory
        outcome = derived(self.target.stack, reading, page, memory, Evidence(), self.target.settings, second)
        return Look(outcome.reading, 0.01, "", outcome.extras)


def _sources() -> list[_Source]:
    found = []
    runs: dict[str, Run] = {}
    for name, (stack, face, layer) in FACES.items():
        if stack not in runs:
            config = Config(engine=ENGINE, layer=LAYERS[layer], phases=LOAD, cached_prefix_tokens=48)
            runs[stack] = simulate(config, len(runs))
        found.append(_Source(Target(name, stack, Access("http://127.0.0.1:1")), face, runs[stack]))
    off = gzip.decompress((ROOT / "tests" / "data" / f"{OFF}.txt.gz").read_bytes())
    found.append(_Source(Target("ray-metrics-off", "ray-serve", Access("http://127.0.0.1:1")), page=off))
    found.append(_Source(Target("gone", "vllm", Access("http://127.0.0.1:1"))))
    return found


def exposition() -> Iterator[str]:
    """Yield OpenMetrics lines with time stamps."""
    sources = _sources()
    for second in range(0, LENGTH + 1, STEP):
        looks = [(source.target, source.look(float(second))) for source in sources]
        yield from stamped(rendered(looks), START + second, "obs-exporter")
    for name in CAPTURED:
        with gzip.open(ROOT / "tests" / "dashboards" / "pages" / f"{name}.jsonl.gz", "rt") as handle:
            for line in handle:
                row = json.loads(line)
                yield from stamped(row["page"], PROBE_START + row["t"], f"obs-{name}")
    yield "# EOF\n"


def stamped(page: str, moment: float, job: str) -> Iterator[str]:
    """Yield a page's samples with a time stamp and the labels that a scrape adds."""
    for line in page.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        series, _, value = line.rpartition(" ")
        name, brace, labels = series.partition("{")
        inner = labels[:-1] + "," if brace else ""
        yield f'{name}{{{inner}job="{job}",instance="{job}"}} {value} {moment:.3f}\n'
