"""Configuration: what is right is read, what is wrong is refused with file, line and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from obs_exporter.config import load
from obs_exporter.errors import InputError

GOOD = """\
listen: ":9999"
targets:
  - name: chat
    stack: ray-serve
    url: node:8080
    stack_version: "2.60"
    timeout_seconds: 3
    tls: {skip_verify: true}
  - stack: triton
    url: http://user:pw@h:8002
    api_url: h:8000
"""


def test_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "good.yml"
    path.write_text(GOOD)
    config = load(path)
    assert config.listen == ("0.0.0.0", 9999)  # noqa: S104
    chat, triton = config.targets
    assert (chat.name, chat.stack, chat.access.timeout, chat.access.skip_verify) == ("chat", "ray-serve", 3.0, True)
    assert chat.claims.stack_version.best == "2.60"
    assert (triton.name, triton.api_url) == ("h:8002", "h:8000")


TARGET = "targets:\n  - {stack: vllm, url: h}\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "the file is empty; it needs targets:"),
        ("listen: :1\n", 1, "targets: is missing"),
        ("target: []\n", 1, "the file: unknown key 'target'; did you mean 'targets'?"),
        (TARGET + "zzz: 1\n", 3, "the file: unknown key 'zzz'; known are listen, targets"),
        ("targets: []\n", 1, "the file: targets must be a list with at least one target"),
        ("targets:\n  - vllm\n", 2, "targets[0] must be a mapping of name, stack, url"),
        ("targets:\n  - {stack: vllm}\n", 2, "targets[0]: url is missing"),
        ("targets:\n  - url: h\n", 2, "targets[0]: stack is missing"),
        (
            "targets:\n  - stack: sglang\n    url: h\n",
            2,
            "targets[0]: stack must be one of vllm, kserve, triton, ray-serve",
        ),
        ("targets:\n  - stack: vllm\n    url: ftp://h\n", 3, "targets[0]: url must be an http or https URL"),
        ("targets:\n  - stack: vllm\n    url:\n", 3, "targets[0]: url must be an http or https URL"),
        ("targets:\n  - stack: vllm\n    url: h\n    stak: 1\n", 4, "unknown key 'stak'; did you mean 'stack'?"),
        (TARGET.replace("url: h", "url: h, engine_version: new"), 2, "must be a version such as 0.32.0: 'new' is not"),
        (TARGET.replace("url: h", "url: h, timeout_seconds: 90"), 2, "a number of seconds above 0, at most 60"),
        (TARGET.replace("url: h", "url: h, timeout_seconds: fast"), 2, "a number of seconds above 0, at most 60"),
        (TARGET.replace("url: h", "url: h, tls: {insecure: true}"), 2, "targets[0]: tls: unknown key 'insecure'"),
        (TARGET.replace("url: h", "url: h, tls: {ca_file: /none}"), 2, "/none does not exist"),
        (TARGET.replace("url: h", "url: h, url: i"), 2, "targets[0]: 'url' stands twice"),
        (TARGET + "  - {stack: triton, url: h}\n", 2, "two targets are named 'h'; names must differ"),
        ("listen: 9750\n" + TARGET, 1, "listen must be HOST:PORT"),
        ("targets: [\n", 2, "this is no YAML"),
        ("targets: !!python/object:os.system {}\n", 1, "targets must be a list"),
    ],
)
def test_mistakes_name_file_line_and_expectation(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load(path)
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, word in ((tmp_path / "none.yml", "No such file"), (tmp_path, "directory"), (binary, "UTF-8")):
        with pytest.raises(InputError) as caught:
            load(path)
        assert word in caught.value.message
