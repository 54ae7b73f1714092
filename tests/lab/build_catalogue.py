"""Build ``stacks/data/vllm_catalogue.json`` from a catalogue of vLLM releases in CSV form.

The CSV has one row per release, engine and metric (columns version, exposed, type, engine, conditional, updated_when).
It was read from the source distributions of the releases; the JSON keeps what the verdicts need, as runs of releases.

    python tests/lab/build_catalogue.py catalogue.csv exporter/obs_exporter/stacks/data/vllm_catalogue.json
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TypedDict

GENERATIONS = {"V0": "V0", "V1": "V1", "frontend": "V1", "rust-frontend": "rust"}
RUST_SWITCH = "VLLM_USE_RUST_FRONTEND=1"
HIDDEN_SWITCH = "self.show_hidden_metrics"
# The V0 engine ended with 0.10.2; its metrics module stayed in the 0.11.0 sources, and nothing could load it.
LEFTOVERS = {("0.11.0", "V0")}
SWITCHES = {
    "self.kv_cache_metrics_enabled": "--kv-cache-metrics",
    "vllm_config.lora_config is not None": "--enable-lora",
    "envs.VLLM_COMPUTE_NANS_IN_LOGITS": "VLLM_COMPUTE_NANS_IN_LOGITS=1",
    "speculative_config set": "--speculative-config",
    '"realtime" in supported_tasks': "a realtime model",
    "vllm_config.watermark_config is not None": "a watermark configuration",
    "kv_transfer_config is not None and kv_transfer_config.is_kv_consumer": "a KV transfer consumer",
}


class Run(TypedDict):
    """A stretch of releases in which one engine generation treats a family alike."""

    engine: str
    first: str
    last: str
    status: str
    switch: str
    note: str


def _status(row: dict[str, str]) -> tuple[str, str, str]:
    """Return (status, switch, note) of one CSV row."""
    condition = "" if row["conditional"] == RUST_SWITCH else row["conditional"].strip()
    note = row["updated_when"].strip()
    if note.startswith("NEVER"):
        return "dead", "", "registered, but no code updates it"
    if condition == HIDDEN_SWITCH:
        return "hidden", "--show-hidden-metrics-for-version", note
    if condition:
        return "conditional", SWITCHES.get(condition, condition.replace('"', "")), note
    return "registered", "", note


def build(rows: list[dict[str, str]]) -> dict[str, object]:
    """Fold the rows into runs per family and generation."""
    releases = list(dict.fromkeys(row["version"] for row in rows))
    families: dict[str, dict[str, object]] = {}
    seen: dict[tuple[str, str], dict[str, tuple[str, str, str]]] = {}
    for row in rows:
        if not row["exposed"].startswith("vllm:") or (row["version"], row["engine"]) in LEFTOVERS:
            continue
        name = row["exposed"].removeprefix("vllm:")
        kind = "gauge" if row["type"] == "info" else row["type"]
        families.setdefault(name, {"type": kind, "runs": []})
        by_release = seen.setdefault((name, GENERATIONS[row["engine"]]), {})
        by_release.setdefault(row["version"], _status(row))
    for (name, engine), by_release in seen.items():
        if engine == "rust":  # its rows name no condition but its own switch; a feature that V1 needs, it needs as well
            python = seen.get((name, "V1"), {})
            conditional = {
                release: python[release] for release in by_release if python.get(release, ("",))[0] == "conditional"
            }
            by_release = by_release | conditional
        runs: list[Run] = []
        previous = -2
        for index, release in enumerate(releases):
            if release not in by_release:
                continue
            status, switch, note = by_release[release]
            last = runs[-1] if runs else None
            same = last is not None and (last["status"], last["switch"], last["note"]) == (status, switch, note)
            if last is not None and same and index == previous + 1:
                last["last"] = release
            else:
                runs.append(Run(engine=engine, first=release, last=release, status=status, switch=switch, note=note))
            previous = index
        target = families[name]["runs"]
        assert isinstance(target, list)
        target.extend(runs)
    return {
        "source": "vLLM source distributions of the releases listed (0.15.1: wheel)",
        "releases": releases,
        "families": dict(sorted(families.items())),
    }


def main() -> None:
    """Read the CSV named first, write the JSON named second."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    with source.open(newline="", encoding="utf-8") as handle:
        catalogue = build(list(csv.DictReader(handle)))
    lines = json.dumps(catalogue, indent=None, ensure_ascii=False, separators=(",", ":"))
    target.write_text(
        lines.replace('},"', '},\n"').replace('"families":{', '\n"families":{\n') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
