"""What a server repeats of a secret is in no file and on no screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.redact import HIDDEN, Redactor
from obs_exporter.probe.results import read_records, read_result, requests_path

from .test_refusals import Answer, answering, run

KEY = "sk-0123456789abcdef"
TENANT = "tenant-token-42"


def echo(status: int, form: str) -> Answer:
    """Answer with what the request's headers held."""

    def answer(handler: Any, _number: int) -> tuple[int, bytes]:
        key, tenant = handler.headers["Authorization"].split()[1], handler.headers["X-Tenant"].split()[-1]
        return status, form.replace("KEY", key).replace("TENANT", tenant).encode()

    return answer


@pytest.mark.parametrize(
    ("status", "form"),
    [
        (500, '{"error": {"message": "key KEY of TENANT is not known"}}'),
        (401, '{"error": {"message": "key KEY of TENANT is not known"}}'),
        (200, '{"error": {"message": "key KEY of TENANT is not known"}}'),
        (200, '{"object": "error", "message": "KEY TENANT"}'),
        (200, "this is a debug page with your key in it: KEY and TENANT"),
        (200, '{"choices": [{"message": {"content": "x"}, "finish_reason": "KEY TENANT"}]}'),
    ],
)
def test_an_echoed_secret_is_nowhere(tmp_path: Path, status: int, form: str) -> None:
    prom = tmp_path / "x.prom"
    with answering(echo(status, form)) as (url, _):
        done = run(
            url + "/v1", tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "4", "--header",
            f"X-Tenant: Token {TENANT}", "--textfile", str(prom), OBS_PROBE_API_KEY=KEY,
        )  # fmt: skip
    texts = [done.output, done.stderr, *(path.read_text() for path in tmp_path.iterdir())]
    for secret in (KEY[:8], TENANT):
        assert not any(secret in text for text in texts)
    if status != 401:
        said = [record.detail or record.finish_reason for record in read_records(requests_path(tmp_path / "x.json"))]
        assert any(HIDDEN in text for text in said)


SECRETS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=8, max_size=40)


@given(SECRETS, st.text(max_size=30), st.text(max_size=30))
def test_no_text_keeps_a_secret(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor([secret]).clean(before + secret + after).replace(HIDDEN, "\0")


@given(SECRETS, st.integers(5, 40))
def test_a_cut_off_secret_is_hidden_too(secret: str, length: int) -> None:
    assert Redactor([secret]).clean(f"it said {secret[:length]}") == f"it said {HIDDEN}"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("Qwen-pool", "The model Qwen/Qwen2.5-1.5B-Instruct does not exist."),
        ("token-abc123", "maximum context length is 2048 tokens, however"),
    ],
)
def test_words_that_begin_alike_stay(secret: str, text: str) -> None:
    assert Redactor([secret]).clean(text) == text
    assert secret not in Redactor([secret]).clean(f"{text}{secret}{text}")


def test_no_control_character_reaches_a_terminal() -> None:
    assert Redactor().clean("a\x1b]0;title\x07\nb\x9bc\x7f") == "a ]0;title  b c "


def test_the_model_that_the_server_names_is_sent_as_it_is(tmp_path: Path) -> None:
    """Also where a header's value begins like it."""
    sent: list[str] = []

    def answer(handler: Any, _number: int) -> tuple[int, bytes]:
        sent.append(handler.asked_body["model"])
        return 200, b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'

    models = {"data": [{"id": "Qwen/Qwen2.5-1.5B-Instruct"}]}
    with answering(answer, models) as (url, _):
        done = run(
            url + "/v1", tmp_path / "x.json", "--concurrency", "1", "--requests-per-level", "2", "--header",
            "X-Pool: Qwen-pool", model=None,
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert set(sent) == {"Qwen/Qwen2.5-1.5B-Instruct"}
    assert read_result(tmp_path / "x.json")["target"]["model"] == "Qwen/Qwen2.5-1.5B-Instruct"


def test_what_is_no_secret_stays() -> None:
    assert Redactor(["", "a", KEY]).clean("HTTP 404: a page") == "HTTP 404: a page"


def test_a_slash_that_json_escapes_hides_nothing() -> None:
    assert "SECRETKEY" not in Redactor(['sk-abc/def"SECRETKEY']).clean(r'{"error": "bad key sk-abc\/def\"SECRETKEY"}')
