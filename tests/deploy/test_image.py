"""The image, as far as it can be checked without an engine to build it: the file, its lock, and what runs inside."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_hadolint_has_nothing_to_say(tool: Callable[[str], str]) -> None:
    command = [tool("hadolint"), str(ROOT / "deploy" / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_both_bases_are_pinned_by_digest_and_the_last_has_no_shell() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", base) for base in bases)
    assert bases[-1].startswith("gcr.io/distroless/python3-debian13:nonroot@")
    last = DOCKERFILE.rpartition("FROM ")[2]
    assert not re.search(r"^RUN", last, re.MULTILINE)
    assert "USER 65532:65532" in last
    assert re.search(r'^ENTRYPOINT \["', last, re.MULTILINE)


def test_the_lock_has_every_dependency_with_hashes() -> None:
    text = (ROOT / "deploy" / "requirements.lock").read_text()
    entries = re.split(r"^(?=[a-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    locked = {}
    for entry in entries:
        name, _, rest = entry.partition("==")
        assert "--hash=sha256:" in rest, name
        locked[canonicalize_name(name)] = rest.split()[0]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for text in needed:
        requirement = Requirement(text)
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), (requirement, version)


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == allowed
    assert all((ROOT / name).exists() for name in names)


def test_the_programs_are_where_the_entry_points_look_for_them(tmp_path: Path) -> None:
    """The install line of the Dockerfile, run here into a folder that the dependencies have been in before."""
    (tmp_path / "app" / "bin").mkdir(parents=True)
    (tmp_path / "app" / "bin" / "normalizer").touch()
    source = tmp_path / "src"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    for name in ("exporter", "audit"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    line = re.search(r"^RUN pip (install --no-deps .+?) \\$", DOCKERFILE, re.MULTILINE)
    assert line
    arguments = line[1].replace("/app", str(tmp_path / "app")).split()
    pip = [sys.executable, "-m", "pip", *arguments, "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run(pip, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shebang = re.search(r"^ +&& (sed -i .+) /app/bin/obs-\* \\$", DOCKERFILE, re.MULTILINE)
    assert shebang
    programs = sorted((tmp_path / "app" / "bin").glob("obs-*"))
    assert [program.name for program in programs] == ["obs-audit", "obs-exporter", "obs-probe"]
    subprocess.run([*shlex.split(shebang[1]), *map(str, programs)], check=True)
    assert {program.read_text().splitlines()[0] for program in programs} == {"#!/usr/bin/python3"}
    entry = re.search(r'^ENTRYPOINT \["/usr/bin/python3", "/app/(\S+)"\]', DOCKERFILE, re.MULTILINE)
    assert entry
    started = "".join(path.read_text() for path in sorted((ROOT / "deploy").rglob("*.yaml")))
    wanted = {entry[1], *re.findall(r"/app/(bin/[\w-]+)", started)}
    assert wanted == {"bin/obs-exporter", "bin/obs-probe"}
    for program in wanted:
        command = [sys.executable, str(tmp_path / "app" / program), "--help"]
        paths = {"PYTHONPATH": str(tmp_path / "app")}
        done = subprocess.run(command, env=paths, capture_output=True, text=True, check=False)
        assert (done.returncode, "Usage" in done.stdout) == (0, True), (program, done.stderr)


WATCHED = """
import os, runpy, sys

def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        if str(arguments[0]) != os.devnull:
            raise PermissionError(30, "read-only file system", arguments[0])
    if event in ("os.mkdir", "os.rename", "os.remove", "tempfile.mkstemp", "tempfile.mkdtemp", "subprocess.Popen"):
        raise PermissionError(30, "read-only file system", event)

sys.addaudithook(watch)
sys.argv = ["obs-exporter", *sys.argv[1:]]
from obs_exporter.cli import main
main()
"""


def test_the_exporter_writes_nothing_and_starts_no_program(tmp_path: Path) -> None:
    """Any write, and any program started, fails in this process, as on a read-only root without a shell."""
    command = [sys.executable, "-B", "-c", WATCHED, "serve", "--stack", "vllm", "--url", "http://127.0.0.1:1/metrics",
               "--listen", "127.0.0.1:0"]  # fmt: skip
    environment = {"PATH": "", "HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd="/")
    try:
        assert process.stderr
        lines: list[str] = []
        url = None
        while url is None:
            line = process.stderr.readline()
            assert line, lines
            lines.append(line)
            url = re.search(r"http://127\.0\.0\.1:\d+", line)
        page = _page(url[0])
        assert 'obs_exporter_target_up{stack="vllm",target="127.0.0.1:1"} 0.0' in page
    finally:
        process.terminate()
        process.wait(20)
        if process.stderr:
            process.stderr.close()


def _page(url: str) -> str:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:  # noqa: S310
                text: str = response.read().decode()
                return text
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_the_watch_would_catch_a_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WATCHED.replace("main()\n", f"open({str(tmp_path / 'x')!r}, 'w')\n")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "read-only file system" in done.stderr
