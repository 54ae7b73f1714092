"""Send a few small requests through a stack and count, on the client's side, what its counters should show after."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from obs_audit.evidence.exercise import Exercise
from obs_audit.evidence.pieces import Piece
from obs_audit.evidence.sources import Sources
from obs_exporter.sources.openai import Client, Usage
from obs_exporter.sources.scrape import Access, FetchError
from obs_exporter.stacks import Stack

REQUESTS, TOKENS = 6, 16
HARD_REQUESTS, HARD_CLIENTS, HARD_TOKENS, HARD_WORDS = 96, 48, 512, 400
"""A load that fills a small KV cache: more clients than slots, prompts that fit all at once, and answers of a known
length that grow out of their blocks."""
_WORDS = ("stone", "water", "hill", "bridge", "cloud", "field", "harbour")
TIMEOUT = 120.0
"""Seconds that one answer may take."""

SETTLE = {"ray-serve": 22.0}
"""Seconds until counters show what has happened: Ray's processes report every 10 s, each in its own phase."""
DEFAULT_SETTLE = 1.0


def train(sources: Sources) -> Exercise:
    """Send the requests, one after the other, or many at once for a hard exercise. Failures are counted, not raised."""
    access = Access(sources.exercise, timeout=TIMEOUT, bearer_token_file=sources.bearer_token_file)
    if sources.exercise_hard:
        shares = [HARD_REQUESTS // HARD_CLIENTS] * HARD_CLIENTS
        with ThreadPoolExecutor(HARD_CLIENTS) as pool:
            results = list(pool.map(lambda job: _series(access, sources.model, *job), enumerate(shares)))
        answers = [answer for result in results for answer in result]
    else:
        answers = _series(access, sources.model, 0, REQUESTS, hard=False)
    return counted(answers, hard=sources.exercise_hard)


def _series(access: Access, model: str, client: int, requests: int, hard: bool = True) -> list[Usage | FetchError]:
    """Send requests of one client, each with a prompt of its own, so that no prefix cache answers for it."""
    answers: list[Usage | FetchError] = []
    session = Client(access, model)
    size = _Size(HARD_TOKENS, HARD_WORDS, exactly=True) if hard else _Size(TOKENS)
    try:
        for number in range(requests):
            prompt = f"Client {client}, question {number}: name {number + 3} rivers and say where they end."
            answer = _answer(session, prompt, size)
            while isinstance(answer, FetchError) and answer.reason == "bad_request" and size.tokens > TOKENS:
                # Such a request never reached the engine: the fields are refused, or it is longer than the context.
                plain = replace(size, exactly=False)
                answer = _answer(session, prompt, plain) if size.exactly else answer
                if isinstance(answer, Usage):
                    size = plain
                elif answer.reason == "bad_request":
                    size = size.half()
                    answer = _answer(session, prompt, size)
            answers.append(answer)
    finally:
        session.close()
    return answers


@dataclass(frozen=True, slots=True)
class _Size:
    """How long a request is: tokens of the answer, words added to the prompt, whether the answer may end earlier."""

    tokens: int
    words: int = 0
    exactly: bool = False

    def half(self) -> _Size:
        """Return half of it."""
        return replace(self, tokens=self.tokens // 2, words=self.words // 2)

    def prompt(self, beginning: str) -> str:
        """Return a prompt with its words."""
        return " ".join([beginning, *(_WORDS[index % len(_WORDS)] for index in range(self.words))])


def _answer(session: Client, prompt: str, size: _Size) -> Usage | FetchError:
    try:
        return session.ask(size.prompt(prompt), size.tokens, exactly=size.exactly)
    except FetchError as error:
        return error


def counted(answers: list[Usage | FetchError], *, hard: bool) -> Exercise:
    """Add up what the client saw."""
    good = [answer for answer in answers if isinstance(answer, Usage)]
    failures = [answer for answer in answers if isinstance(answer, FetchError)]
    told = [(usage.prompt_tokens, usage.completion_tokens) for usage in good]
    return Exercise(
        requests=len(good),
        failed=len(failures),
        prompt_tokens=sum(prompt or 0 for prompt, _ in told),
        completion_tokens=sum(completion or 0 for _, completion in told),
        untold=sum(1 for pair in told if None in pair),
        hard=hard,
        error=str(failures[0]) if failures else "",
    )


def settled(fetch: Callable[[], Piece], stack: Stack) -> Piece:
    """Fetch the page once the stack has had the time to report."""
    time.sleep(SETTLE.get(stack.name, DEFAULT_SETTLE))
    return fetch()
