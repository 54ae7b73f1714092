"""The OpenAI-compatible dialect of the live server: what is asked, and the shapes of answers, as vLLM has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from obs_exporter.simulator.http import HttpError

WORDS = ("the", "queue", "moves", "one", "token", "at", "a", "time", "and", "blocks", "fill", "slowly", "until", "none")
"""What the model says, over and over."""

BYTES_PER_TOKEN = 4
"""How long a prompt's token is taken to be."""

COMPLETION_MAX_TOKENS = 16
"""The default limit of /v1/completions."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request. ``max_tokens`` is None where the client left it open."""

    chat: bool
    prompt_tokens: int
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    stream: bool
    include_usage: bool


def parse(body: bytes, chat: bool, model: str) -> Ask:
    """Read a request's body.

    Raises HttpError 400 with what is wrong, 404 for another model.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise HttpError(400, "the body is not JSON") from None
    if not isinstance(data, dict):
        raise HttpError(400, "the body must be a JSON object")
    asked = data.get("model", model)
    if asked != model:
        raise HttpError(404, f"The model `{asked}` does not exist.")
    if _integer(data, "n", 1, 1) != 1:
        raise HttpError(400, "n must be 1 here")
    limit = "max_completion_tokens" if data.get("max_completion_tokens") is not None else "max_tokens"
    max_tokens = _integer(data, limit, None if chat else COMPLETION_MAX_TOKENS, 1)
    min_tokens = _integer(data, "min_tokens", 0, 0) or 0
    if max_tokens is not None and min_tokens > max_tokens:
        raise HttpError(400, "min_tokens must not be more than max_tokens")
    stream = _boolean(data, "stream")
    options = data.get("stream_options")
    if options is None:
        options = {}
    if not isinstance(options, dict) or (options and not stream):
        raise HttpError(400, "stream_options must be an object, and needs stream")
    text = _messages(data) if chat else data.get("prompt")
    return Ask(
        chat, _count(text), max_tokens, min_tokens, _boolean(data, "ignore_eos"), stream,
        _boolean(options, "include_usage"),
    )  # fmt: skip


def _integer(data: dict[str, Any], name: str, default: int | None, least: int) -> int | None:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise HttpError(400, f"{name} must be a whole number of at least {least}")
    return value


def _boolean(data: dict[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise HttpError(400, f"{name} must be true or false")
    return value


def _messages(data: dict[str, Any]) -> str:
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise HttpError(400, "messages must be a list of objects, and not empty")
    texts: list[str] = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if not isinstance(content, str):
            raise HttpError(400, "a message's content must be text")
        texts.append(content)
    return "\n".join(texts)


def _count(prompt: Any) -> int:
    """Tokens of a prompt: text, token ids, or a list with one of these."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return max(1, -(-len(prompt.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN))
    if isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
        return len(prompt)
    raise HttpError(400, "prompt must be one text or one list of token ids")


@dataclass(frozen=True, slots=True)
class Voice:
    """Makes the answer's pieces for one request."""

    ask: Ask
    name: str
    model: str
    created: int
    fingerprint: str

    def chunk(self, number: int, finish_reason: str | None) -> bytes:
        """The server-sent event of the ``number``-th token (from 0)."""
        if self.ask.chat:
            choice: dict[str, Any] = {"index": 0, "delta": {"content": word(number)}, "logprobs": None}
        else:
            choice = {"index": 0, "text": word(number), "logprobs": None}
        return self._event({"choices": [choice | {"finish_reason": finish_reason}]})

    def opening(self) -> bytes:
        """The event with the role that comes with a chat's first token; nothing for a completion."""
        if not self.ask.chat:
            return b""
        delta = {"role": "assistant", "content": ""}
        return self._event({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]})

    def closing(self, produced: int, metrics: dict[str, float] | None) -> bytes:
        """What follows the last token: usage where it was asked for, the metrics where they are on, and [DONE]."""
        if not self.ask.include_usage:
            return DONE
        extra: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
        return self._event({"choices": [], "usage": self._usage(produced), **extra}) + DONE

    def whole(self, produced: int, finish_reason: str, metrics: dict[str, float] | None) -> bytes:
        """The answer in one piece."""
        text = "".join(word(number) for number in range(produced))
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        choice |= {"message": {"role": "assistant", "content": text}} if self.ask.chat else {"text": text}
        extra: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
        answer = self._frame(".chunk") | {"choices": [choice], "usage": self._usage(produced)} | extra
        return json.dumps(answer).encode()

    def _usage(self, produced: int) -> dict[str, int]:
        prompt = self.ask.prompt_tokens
        return {"prompt_tokens": prompt, "total_tokens": prompt + produced, "completion_tokens": produced}

    def _frame(self, without: str = "") -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return {
            "id": self.name,
            "object": kind.removesuffix(without) if without else kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }

    def _event(self, content: dict[str, Any]) -> bytes:
        return b"data: " + json.dumps(self._frame() | content).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def word(number: int) -> str:
    """The text of the ``number``-th token."""
    return f" {WORDS[number % len(WORDS)]}"


def error_body(status: int, message: str) -> bytes:
    """An error as vLLM words it."""
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


def models_body(model: str, max_model_len: int, created: int, stack_version: str) -> bytes:
    """The answer of /v1/models; Ray Serve LLM has its own card."""
    card: dict[str, Any] = {"id": model, "object": "model", "created": created, "owned_by": "vllm", "root": model}
    if stack_version.startswith("ray-serve"):
        key = "rayllm_metadata" if stack_version == "ray-serve 2.44.1" else "metadata"
        details = {"model_id": model, "input_modality": "text", "max_request_context_length": max_model_len}
        card |= {"owned_by": "organization-owner", "permission": [], key: details}
    else:
        card |= {"parent": None, "max_model_len": max_model_len}
    return json.dumps({"object": "list", "data": [card]}).encode()
