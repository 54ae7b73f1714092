"""Targets, prompts and the bytes of a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from obs_exporter.probe.request import (
    TRITON_GENERATE,
    Prompt,
    RequestBuilder,
    RequestError,
    Shape,
    api_key,
    parse_endpoint,
)
from obs_exporter.probe.scenarios import SCENARIOS, Prompts, request_id


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("http://h:8000/v1/", "h:8000", "/v1"),
        ("h:80/v1", "h", "/v1"),
        ("https://h", "h", ""),
        ("http://[::1]:9/v1", "[::1]:9", "/v1"),
    ],
)
def test_endpoints(url: str, authority: str, path: str) -> None:
    found = parse_endpoint(url)
    assert (found.authority, found.path) == (authority, path)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/v1", "http://", "http://u:secret@h/v1", "http://h:99999/v1", "http://h/v1?a=1", "",
        "http://u:secret@127.0.0.1:port/v1", "ftp://u:secret@h", "http://u:secret@[::1/v1", "//u:secret@h/v1",
        "http://u:se/secret@h/v1", "http://u:12/secret@h/v1", "http://u:se?secret@h/v1", "http://u:se#secret@h/v1",
        "ftp://h/v1?token=secret", "http://[h?token=secret", "http://h:x?token=secret", "http://u:secret@\u2100/v1",
        "secret@h/v1", "http://:secret@h",
    ],
)  # fmt: skip
def test_bad_urls_are_refused_and_no_secret_is_repeated(url: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_endpoint(url)
    assert "secret" not in str(caught.value)


def body_of(shape: Shape, prompt: Prompt | None = None) -> dict[str, Any]:
    builder = RequestBuilder(parse_endpoint("http://h:1/v1"), shape, "key", (("X-Tenant", "t"),))
    sent = builder.build(prompt or Prompt((("user", "hi"),), 5), "id1")
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert b"Content-Length: %d" % len(body) in lines
    assert b"Authorization: Bearer key" in lines
    assert b"X-Tenant: t" in lines
    assert b"X-Request-Id: id1" in lines
    return dict(json.loads(body), path=lines[0].decode())


def test_chat_and_completions() -> None:
    chat = body_of(Shape("m", continuous_usage=True, ignore_eos=True, min_tokens=5, temperature=0.0))
    assert chat["path"] == "POST /v1/chat/completions HTTP/1.1"
    assert chat["messages"] == [{"role": "user", "content": "hi"}]
    assert chat["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (chat["ignore_eos"], chat["min_tokens"], chat["temperature"], chat["max_tokens"]) == (True, 5, 0.0, 5)
    plain = body_of(Shape("m", api="completions", stream=False))
    assert plain["path"] == "POST /v1/completions HTTP/1.1"
    assert plain["prompt"] == "hi"
    assert "stream_options" not in plain
    assert "ignore_eos" not in plain


def test_tritons_generate_extension() -> None:
    shape = Shape("my model", TRITON_GENERATE, min_tokens=3, ignore_eos=True, extra={"id": "x"})
    sent = RequestBuilder(parse_endpoint("http://h:1"), shape).build(
        Prompt((("system", "be"), ("user", "hi")), 5), "id1"
    )
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/models/my%20model/generate_stream HTTP/1.1\r\n")
    fields = json.loads(body)
    assert json.loads(fields.pop("sampling_parameters")) == {"max_tokens": 5, "min_tokens": 3, "ignore_eos": True}
    assert fields == {
        "text_input": "be\nhi", "stream": True, "exclude_input_in_output": True, "return_finish_reason": True,
        "return_num_output_tokens": True, "id": "x",
    }  # fmt: skip
    with pytest.raises(RequestError, match="not below /v1"):
        RequestBuilder(parse_endpoint("http://h:1/v1"), shape)


def test_the_key_comes_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OBS_PROBE_API_KEY", "OPENAI_API_KEY", "MINE"):
        monkeypatch.delenv(name, raising=False)
    assert api_key() is None
    monkeypatch.setenv("OPENAI_API_KEY", "b")
    assert api_key() == "b"
    monkeypatch.setenv("OBS_PROBE_API_KEY", "a")
    assert api_key() == "a"
    with pytest.raises(RequestError, match="MINE is not set"):
        api_key("MINE")
    monkeypatch.setenv("MINE", "a\r\nX: 1")
    with pytest.raises(RequestError, match="unprintable"):
        api_key("MINE")
    with pytest.raises(RequestError, match="name of an environment variable") as given:
        api_key("sk-0123456789")
    assert "sk-" not in str(given.value)


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - {"chat"}))
def test_prompts_differ_from_their_first_word_on_unless_they_share(name: str) -> None:
    prompts = Prompts(1, unique_prefix=True)
    source = prompts.source(name, "shared1")
    texts = [source(index, request_id("run", index)).messages[0][1] for index in range(50)]
    assert len(set(texts)) == 50
    firsts = {text[:16] for text in texts}
    assert len(firsts) == (1 if SCENARIOS[name].shared_words else 50)


def test_what_is_shared_is_new_in_the_next_repeat() -> None:
    prompts = Prompts(1, unique_prefix=True)
    first, second = (prompts.source("shared-prefix", shared)(0, "u").messages[0][1] for shared in ("a", "b"))
    assert first[:1] != second[:1]


def test_ids_are_new_in_every_run_and_repeat() -> None:
    ids = {request_id(run, repeat, index) for run in ("r1", "r2") for repeat in range(3) for index in range(100)}
    assert len(ids) == 600


def test_the_seed_decides_the_words() -> None:
    texts = [Prompts(seed, unique_prefix=False).source("short", "")(3, "").messages[0][1] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_chats_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a\u2028b"}], "max_tokens": 3}
    file.write_text(json.dumps(chat, ensure_ascii=False) + "\n\n", encoding="utf-8")
    prompt = Prompts(0, True, chat_file=str(file)).source("chat", "")(5, "u")
    assert prompt.messages == (("system", "u s"), ("user", "a\u2028b"))
    assert prompt.max_tokens == 3
    file.write_text(file.read_text("utf-8"), encoding="utf-8-sig")  # as some editors write it
    assert Prompts(0, True, 7, str(file)).source("chat", "")(5, "u").max_tokens == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no conversation"),
        ("{", ":1: not"),
        ('{"messages": []}', "must be a list"),
        ('{"messages": [{"role": "user"}]}', ":1: not"),
        ('{"messages": [{"role": "user", "content": 5}]}', "must be a list"),
        ('{"messages": [{"role": "u", "content": "x"}], "max_tokens": 0}', "above 0"),
    ],
)
def test_bad_chat_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(text)
    with pytest.raises(RequestError, match=words):
        Prompts(0, True, chat_file=str(file))
