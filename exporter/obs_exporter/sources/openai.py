"""Ask an OpenAI-compatible API for a short answer and read what its ``usage`` says: requests that are counted."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter

from obs_exporter.sources.scrape import Access, FetchError, bearer, explained, redacted

_MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """What one answer cost: tokens as the server told them (None where it told nothing) and seconds for all of it."""

    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


def chat_url(base: str) -> str:
    """Complete a base URL to that of chat completions; a base that ends in a version, as /openai/v1, is kept.

    Raises ``ValueError`` where no host can be seen.
    """
    parts = urlsplit(base if "://" in base else f"http://{base}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{redacted(base)!r} is no http or https URL")
    path = parts.path.rstrip("/")
    if not path.endswith("/v1"):
        path += "/v1"
    return urlunsplit(parts._replace(path=f"{path}/chat/completions"))


class Client:
    """Asks one model over one session. Not for use by several threads at once."""

    def __init__(self, access: Access, model: str) -> None:
        """Prepare the session; nothing is sent yet. ``access.timeout`` bounds each answer, in seconds."""
        self.access = access
        self.model = model
        self.url = chat_url(access.url)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update({"User-Agent": "obs-audit"})
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=1, max_retries=0))

    def ask(self, prompt: str, max_tokens: int, *, exactly: bool = False) -> Usage:
        """Ask for at most ``max_tokens`` tokens, not streamed.

        With ``exactly`` it is to be that many, whatever the model would say (``ignore_eos`` and ``min_tokens``, which
        vLLM's API has and the OpenAI API has not). Raises ``FetchError``, as a fetched page does, with the further
        reason bad_request (HTTP 400, or 422 from a server that checks fields strictly).
        """
        limit = self.access.timeout
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": max_tokens,
            "temperature": 0,
            **({"ignore_eos": True, "min_tokens": max_tokens} if exactly else {}),
        }
        started = time.monotonic()
        try:
            response = self._session.post(
                self.url,
                json=body,
                auth=bearer(self.access),
                timeout=(min(self.access.connect_timeout, limit), limit),
                verify=False if self.access.skip_verify else (self.access.ca_file or True),
            )
        except requests.exceptions.RequestException as error:
            raise explained(error, limit) from None
        if response.status_code != 200:
            reason = "bad_request" if response.status_code in (400, 422) else "http_status"
            raise FetchError(reason, f"answered HTTP {response.status_code}")
        if len(response.content) > _MAX_BYTES:
            raise FetchError("too_large", f"sent more than {_MAX_BYTES} bytes")
        return _usage(response.content, time.monotonic() - started)

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()


def _usage(body: bytes, seconds: float) -> Usage:
    """Read an answer. Raises ``FetchError`` for what is no chat completion."""
    try:
        document = json.loads(body)
    except ValueError:
        raise FetchError("broken", "answered something else than JSON") from None
    if not isinstance(document, dict) or "choices" not in document:
        raise FetchError("broken", "answered JSON that is no chat completion")
    usage = document.get("usage")
    told = usage if isinstance(usage, dict) else {}
    counts = [told.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (count if isinstance(count, int) else None for count in counts)
    return Usage(prompt, completion, seconds)
