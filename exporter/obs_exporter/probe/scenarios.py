"""What users ask, as data: how long prompts and answers are, and what prompts share. Reads chat files, else pure."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obs_exporter.probe.request import Prompt, RequestError


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request. Lengths are words; a word of these texts is about 1.3 tokens of a common tokenizer.

    ``shared_words`` of the prompt are equal in all requests of one repeat of a level, and new in the next.
    """

    name: str
    meaning: str
    prompt_words: int
    max_tokens: int
    shared_words: int = 0


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("short", "a short question, an answer of up to 128 tokens", 24, 128),
        Scenario("long-prompt", "a prompt of about 2,000 tokens, a short answer: prefill decides", 1500, 64),
        Scenario("long-output", "a short question, an answer of up to 1,024 tokens: decode decides", 24, 1024),
        Scenario(
            "shared-prefix", "about 1,300 tokens that all requests share: the prefix cache decides", 24, 128, 1000
        ),
        Scenario("chat", "conversations from a JSONL file (--chat-file)", 0, 256),
    )
}

_WORDS = (
    "harbor", "lantern", "meadow", "copper", "signal", "orchard", "ledger", "glacier", "thread", "canyon", "violin",
    "saddle", "marble", "tunnel", "cradle", "engine", "parcel", "summit", "willow", "anchor", "basket", "cinder",
    "dialect", "ferry", "garden", "hammer", "island", "jacket", "kettle", "ladder", "mirror", "needle", "oyster",
    "pepper", "quarry", "ribbon", "shadow", "timber", "utensil", "valley", "window", "yarrow", "zephyr", "bridge",
)  # fmt: skip


def request_id(run_id: str, *parts: object) -> str:
    """Return an id that no other request has: 16 hex digits from the run's id and the request's place in it."""
    text = "/".join(str(part) for part in (run_id, *parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Prompts:
    """The prompts of one run: the same for the same seed, but for the unique prefix.

    Raises RequestError for an unknown scenario, or for a chat file that is missing or wrong.
    """

    def __init__(
        self, seed: int, unique_prefix: bool, max_tokens: int | None = None, chat_file: str | None = None
    ) -> None:
        self._seed = seed
        self._unique = unique_prefix
        self._max_tokens = max_tokens
        self._chats = _read_chats(Path(chat_file)) if chat_file else ()

    def source(self, name: str, shared_id: str) -> Callable[[int, str], Prompt]:
        """Return the function (index, request id) -> prompt of one repeat of a level; ``shared_id`` is its own."""
        if name not in SCENARIOS:
            raise RequestError(f"unknown scenario {name!r}: use {', '.join(sorted(SCENARIOS))}")
        scenario = SCENARIOS[name]
        tokens = self._max_tokens or scenario.max_tokens
        if name == "chat":
            return self._chat_source(tokens)
        shared = ""
        if scenario.shared_words:
            shared = f"{shared_id} {self._text(scenario.shared_words, 'shared')}\n\n"

        def prompt(index: int, unique_id: str) -> Prompt:
            text = f"Tell me a story with these words in it: {self._text(scenario.prompt_words, index)}."
            if not self._unique:
                return Prompt((("user", shared + text),), tokens)
            if shared:
                # What is shared must stay at the start, so the unique part begins right behind it.
                return Prompt((("user", f"{shared}{unique_id} {text}"),), tokens)
            return Prompt((("user", text),), tokens).with_prefix(unique_id)

        return prompt

    def _chat_source(self, tokens: int) -> Callable[[int, str], Prompt]:
        if not self._chats:
            raise RequestError('the scenario chat needs --chat-file: JSON lines of {"messages": [...]}')

        def prompt(index: int, unique_id: str) -> Prompt:
            messages, own_tokens = self._chats[index % len(self._chats)]
            found = Prompt(messages, self._max_tokens or own_tokens or tokens)
            return found.with_prefix(unique_id) if self._unique else found

        return prompt

    def _text(self, words: int, part: object) -> str:
        rng = random.Random(f"{self._seed}/{part}")  # noqa: S311 - words, not secrets
        return " ".join(rng.choice(_WORDS) for _ in range(words))


_Chat = tuple[tuple[tuple[str, str], ...], int | None]


def _read_chats(path: Path) -> tuple[_Chat, ...]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    chats = tuple(_chat(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not chats:
        raise RequestError(f"{path}: no conversation in it: write one JSON object a line")
    return chats


def _chat(path: Path, number: int, line: str) -> _Chat:
    where = f"{path}:{number}"
    try:
        data: Any = json.loads(line)
        messages = tuple((str(m["role"]), m["content"]) for m in data["messages"])
        tokens = data.get("max_tokens")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RequestError(f'{where}: not {{"messages": [{{"role": ..., "content": ...}}]}}') from None
    if not messages or not all(isinstance(text, str) for _, text in messages):
        raise RequestError(f"{where}: messages must be a list, not empty, whose contents are texts")
    if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
        raise RequestError(f"{where}: max_tokens must be a whole number above 0")
    return messages, tokens
