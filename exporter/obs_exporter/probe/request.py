"""What is sent: the target, the prompt and the bytes of one request. Pure; no I/O."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from obs_exporter._version import __version__

_KEY_VARIABLES = ("OBS_PROBE_API_KEY", "OPENAI_API_KEY")
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}
TRITON_GENERATE = "triton-generate"
"""NVIDIA Triton's generate extension, with the inputs of its vLLM backend (vllm_backend src/model.py and
docs/additional_outputs.md): it is there on port 8000 of every Triton, also where no OpenAI frontend runs."""
APIS = (*_PATHS, TRITON_GENERATE)


class RequestError(ValueError):
    """A target or a request that cannot be built; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go: the base URL in parts. ``path`` is the base path without a closing slash ("/v1")."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL, without anything secret."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_endpoint(url: str) -> Endpoint:
    """Return the parts of a base URL. Raises RequestError for anything but a plain http or https URL.

    A message repeats the URL only where nothing in it can be a user name, a password or a token.
    """
    shown = "the URL" if any(mark in url for mark in "@?#") else repr(url)
    how = "give it as http://host:port/v1"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:  # its text may quote the URL
        raise RequestError(f"{shown} is not a URL: its host or port cannot be read: {how}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RequestError(f"{shown} is not an http or https URL: {how}")
    if "@" in url:  # anywhere: a password with a slash in it moves the @ into the path
        raise RequestError(
            "the URL carries a user name or password (or an @, to be written %40): give an API key in the environment"
            " instead"
        )
    if parts.query or parts.fragment:
        raise RequestError(f"{parts.hostname}: a base URL has no query and no fragment: {how}")
    return Endpoint(
        parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/")
    )


def api_key(variable: str | None = None) -> str | None:
    """Return the API key from the environment, or None.

    Raises RequestError when ``variable`` is named and not set, or when the key cannot be a header's value.
    """
    if variable and not variable.replace("_", "a").isalnum():
        raise RequestError(
            "--api-key-env takes the name of an environment variable, not a key: see that none was given"
        )
    key = next(
        (os.environ[name] for name in ((variable,) if variable else _KEY_VARIABLES) if os.environ.get(name)), None
    )
    if variable and not key:
        raise RequestError(f"the environment variable {variable} is not set: export the API key there")
    if key and (not key.isascii() or not key.isprintable() or " " in key):
        raise RequestError("the API key in the environment has blanks or unprintable characters: check how it was set")
    return key


@dataclass(frozen=True, slots=True)
class Shape:
    """What every request of a run shares.

    ``extra`` goes into the JSON body as it is. ``ignore_eos`` and ``min_tokens`` are vLLM's own fields: a server that
    does not know them may refuse the request.
    """

    model: str
    api: str = "chat"
    stream: bool = True
    include_usage: bool = True
    continuous_usage: bool = False
    ignore_eos: bool = False
    min_tokens: int | None = None
    temperature: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: chat messages, and the number of tokens asked for. Other APIs than chat get the joined texts."""

    messages: tuple[tuple[str, str], ...]
    max_tokens: int

    @property
    def text(self) -> str:
        """The joined texts, for an API without messages."""
        return "\n".join(text for _, text in self.messages)

    def with_prefix(self, prefix: str) -> Prompt:
        """Return the prompt with ``prefix`` at its very start, in the first block of the KV cache."""
        (role, text), *rest = self.messages
        return Prompt(((role, f"{prefix} {text}"), *rest), self.max_tokens)


class RequestBuilder:
    """Turns prompts into the bytes of HTTP requests."""

    def __init__(
        self,
        endpoint: Endpoint,
        shape: Shape,
        key: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        absolute_form: bool = False,
    ) -> None:
        if shape.api not in APIS:
            raise RequestError(f"unknown API {shape.api!r}: use one of {', '.join(APIS)}")
        if shape.api == TRITON_GENERATE and endpoint.path.endswith("/v1"):
            raise RequestError(
                f"{endpoint.url}: Triton's generate endpoint is not below /v1: give the URL as http://host:8000, or use"
                " --api chat for its OpenAI frontend"
            )
        self._shape = shape
        self.has_key = key is not None
        self.api = shape.api
        self.least_tokens = max(1, shape.min_tokens or 0)
        path = endpoint.path + _path(shape)
        if absolute_form:
            path = f"{endpoint.scheme}://{endpoint.authority}{path}"
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {endpoint.authority}",
            f"User-Agent: obs-probe/{__version__}",
            "Content-Type: application/json",
            f"Accept: {'text/event-stream' if shape.stream else 'application/json'}",
            "Accept-Encoding: identity",
        ]
        lines += [f"{name}: {value}" for name, value in headers]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        try:
            self._head = "\r\n".join(lines).encode("ascii")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"a header or the path has a character outside ASCII: {error.object[error.start]!r}"
            ) from None

    def build(self, prompt: Prompt, request_id: str) -> bytes:
        """Return the bytes of one request; ``request_id`` goes out as X-Request-Id."""
        body = json.dumps(self._body(prompt), separators=(",", ":")).encode()
        return b"%b\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._head,
            request_id.encode(),
            len(body),
            body,
        )

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        shape = self._shape
        if shape.api == TRITON_GENERATE:
            return _generate_body(shape, prompt)
        body: dict[str, Any] = {"model": shape.model}
        if shape.api == "chat":
            body["messages"] = [{"role": role, "content": text} for role, text in prompt.messages]
        else:
            body["prompt"] = prompt.text
        body["max_tokens"] = prompt.max_tokens
        body["stream"] = shape.stream
        if shape.stream and (shape.include_usage or shape.continuous_usage):
            body["stream_options"] = {"include_usage": True}
            if shape.continuous_usage:
                body["stream_options"]["continuous_usage_stats"] = True
        return body | _sampling(shape) | shape.extra


def _path(shape: Shape) -> str:
    """Return what is added to the base URL."""
    if shape.api == TRITON_GENERATE:
        return f"/v2/models/{quote(shape.model, safe='')}/generate{'_stream' if shape.stream else ''}"
    return _PATHS[shape.api]


def _sampling(shape: Shape) -> dict[str, Any]:
    """Return the sampling parameters that are not at the server's default."""
    given: dict[str, Any] = {}
    if shape.ignore_eos:
        given["ignore_eos"] = True
    if shape.min_tokens is not None:
        given["min_tokens"] = shape.min_tokens
    if shape.temperature is not None:
        given["temperature"] = shape.temperature
    return given


def _generate_body(shape: Shape, prompt: Prompt) -> dict[str, Any]:
    """Return the body of a generate request: sampling parameters are JSON in a string there.

    The finish reason and the token counts come on request, from Triton 24.12 on; an older one takes these fields for
    parameters that nobody reads.
    """
    body: dict[str, Any] = {"text_input": prompt.text, "stream": shape.stream, "exclude_input_in_output": True}
    if shape.include_usage or shape.continuous_usage:
        body["return_num_output_tokens"] = True
    body["return_finish_reason"] = True
    body["sampling_parameters"] = json.dumps({"max_tokens": prompt.max_tokens} | _sampling(shape))
    return body | shape.extra
