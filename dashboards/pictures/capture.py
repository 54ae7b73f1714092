"""Capture two probe runs and the exporter beside them: ``python -m dashboards.pictures.capture FOLDER``.

Two simulated servers of 4 slots, one with Ray's layer in front, one ``obs-probe run`` on each (concurrency 2, then 8),
and one exporter that looks at both. Takes half a minute; what it writes is kept under tests/dashboards/pages.
"""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

STEP = 1.65
LEVEL_S = 8
SHOWN = ("llm_probe_", "llm_signal_info", "llm_time_to_first_token_seconds", "llm_request_duration_seconds")
"""Beginnings of the names that the board asks for; the rest would only make the files large."""
SERVERS = {"bare": ("bare-vllm", "vllm", "vllm"), "ray": ("ray-serve", "ray-serve", "ray-serve")}
"""By file name: the target's name, the face of its page, its stack."""


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - our own server
            return True
    except OSError:
        return False


def _page(port: int) -> str:
    """Return the metrics page on a port, "" while or after nothing answers there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as response:
            lines = response.read().decode().splitlines(keepends=True)
    except OSError:
        return ""
    return "".join(line for line in lines if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(SHOWN))


def _started(stack: ExitStack, folder: Path, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    path = Path(sys.executable).parent / program
    process = subprocess.Popen([path, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait, 20)
    stack.callback(process.terminate)
    return process


def capture(folder: Path) -> dict[str, list[str]]:
    """Return the lines by file name: JSON with ``t``, seconds since the first look, and ``page``."""
    lines: dict[str, list[str]] = {name: [] for name in (*(f"probe-{name}" for name in SERVERS), "exporter")}
    shown = {name: _port() for name in lines}
    with ExitStack() as stack:
        targets = []
        for target, face, kind in SERVERS.values():
            port = _port()
            _started(stack, folder, "obs-exporter", "simulate", "--face", face, "--listen", f"127.0.0.1:{port}",
                     "--max-num-seqs", "4")  # fmt: skip
            targets.append({"name": target, "stack": kind, "url": f"http://127.0.0.1:{port}/metrics"})
        config = folder / "targets.yml"
        config.write_text(json.dumps({"listen": f"127.0.0.1:{shown['exporter']}", "targets": targets}))
        while not all(_answers(entry["url"]) for entry in targets):
            time.sleep(0.2)
        _started(stack, folder, "obs-exporter", "serve", "--config", str(config))
        runs = [
            _started(
                stack, folder, "obs-probe", "run", f"--url={entry['url'].removesuffix('/metrics')}/v1",
                f"--name={entry['name']}", "--model=tiny", "--scenarios=short", "--concurrency=2,8",
                f"--duration={LEVEL_S}", "--repeats=1", "--no-calibration", "--quiet",
                f"--listen=127.0.0.1:{shown[f'probe-{name}']}", f"--output={name}.json",
            )
            for name, entry in zip(SERVERS, targets, strict=True)
        ]  # fmt: skip
        while not all(_page(port) for port in shown.values()):
            time.sleep(0.1)
        begun = time.monotonic()
        while all(run.poll() is None for run in runs):
            now = round(time.monotonic() - begun, 2)
            for name, port in shown.items():
                if page := _page(port):
                    lines[name].append(json.dumps({"t": now, "page": page}))
            time.sleep(STEP)
    return lines


def main(folder: Path) -> int:
    """Write one file a page. Returns the exit code."""
    with tempfile.TemporaryDirectory() as name:
        captured = capture(Path(name))
    for name, lines in captured.items():
        text = "\n".join(lines) + "\n"
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
