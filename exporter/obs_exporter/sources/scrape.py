"""Fetch a metrics page over HTTP: one kept-alive session a target, hard limits on time and size, errors as words.

The page is asked for as ``text/plain;version=0.0.4``: under an OpenMetrics request prometheus_client from 0.23 renames
``vllm:`` to ``vllm_`` and leaves the types behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter

ACCEPT = "text/plain;version=0.0.4"
MAX_BYTES = 32 * 1024 * 1024
"""A page of 2,300 series is 0.9 MB; what is above this limit is no metrics page of a sane server."""
DEFAULT_TIMEOUT = 8.0
"""Seconds for a whole fetch: below the 10 s that Prometheus grants a scrape by default."""
_CHUNK = 64 * 1024


class FetchError(Exception):
    """A page could not be fetched. ``reason`` is one word for a label, the message is for people."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the word and the sentence."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one target.

    ``timeout`` bounds the whole fetch in seconds, ``connect_timeout`` the TCP connect. The bearer token is read from
    its file at each fetch, since mounted tokens rotate; it is never kept, logged or shown.
    """

    url: str
    timeout: float = DEFAULT_TIMEOUT
    connect_timeout: float = 2.0
    bearer_token_file: str = ""
    ca_file: str = ""
    skip_verify: bool = False
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Fetched:
    """A page as it came: its bytes, its content type, and how long it took."""

    body: bytes
    content_type: str
    seconds: float

    @property
    def openmetrics(self) -> bool:
        """Whether the server declared the OpenMetrics format."""
        return "openmetrics" in self.content_type


def metrics_url(url: str) -> str:
    """Complete a URL: the scheme http and the path /metrics where they are missing.

    Raises ``ValueError`` where no host can be seen or the scheme is another one.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{redacted(url)!r} is no http or https URL")
    _ = parts.port  # raises ValueError for a port that is none
    return urlunsplit(parts._replace(path=parts.path if parts.path not in ("", "/") else "/metrics"))


def redacted(url: str) -> str:
    """Return a URL without user, password, query and fragment: what may appear in logs, labels and reports."""
    scheme, separator, rest = url.partition("://")
    parts = urlsplit(url if separator else f"//{url}")
    host = parts.netloc.rpartition("@")[2]
    return f"{scheme}://{host}{parts.path}" if separator and rest else f"{host}{parts.path}"


class Scraper:
    """Fetches one target's page again and again over one session. Not for use by several threads at once."""

    def __init__(self, access: Access) -> None:
        """Prepare the session; nothing is sent yet."""
        self.access = access
        self.url = metrics_url(access.url)
        self._session = requests.Session()
        self._session.trust_env = False  # neither proxies nor netrc: the target is the pod next door
        self._session.headers.update({"User-Agent": "obs-exporter", "Accept-Encoding": "gzip"})
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=1, max_retries=0)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)

    def fetch(self, *, url: str = "", accept: str = ACCEPT, timeout: float | None = None) -> Fetched:
        """Fetch the page, or another URL of the same target.

        Raises ``FetchError`` with one of the reasons connect, timeout, tls, http_status, too_large, broken, token.
        """
        limit = min(self.access.timeout, timeout) if timeout else self.access.timeout
        started = time.monotonic()
        try:
            with self._session.get(
                url or self.url,
                headers={"Accept": accept},
                auth=bearer(self.access),
                timeout=(min(self.access.connect_timeout, limit), limit),
                verify=self._verify(),
                stream=True,
            ) as response:
                body = self._read(response, started + limit)
                content_type = response.headers.get("Content-Type", "")
        except requests.exceptions.RequestException as error:
            raise explained(error, limit) from None
        if response.status_code != 200:
            raise FetchError("http_status", f"answered HTTP {response.status_code}")
        return Fetched(body, content_type, time.monotonic() - started)

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        """Read the body within the limits of size and time; a server that drips or never ends is cut off."""
        chunks: list[bytes] = []
        size = 0
        for chunk in response.iter_content(_CHUNK):
            size += len(chunk)
            if size > self.access.max_bytes:
                raise FetchError("too_large", f"sent more than {self.access.max_bytes} bytes")
            if time.monotonic() > deadline:
                raise FetchError("timeout", f"was still sending after its time was up ({size} bytes so far)")
            chunks.append(chunk)
        return b"".join(chunks)

    def _verify(self) -> bool | str:
        return False if self.access.skip_verify else (self.access.ca_file or True)

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()


Sign = Callable[[requests.PreparedRequest], requests.PreparedRequest]


def bearer(access: Access) -> Sign | None:
    """Return what signs a request with the token, which goes before a user and password in the URL.

    Raises ``FetchError`` where the token's file cannot be read.
    """
    path = access.bearer_token_file
    if not path:
        return None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FetchError("token", f"the bearer token file {path} cannot be read: {_why(error)}") from None

    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is no text"


def explained(error: requests.exceptions.RequestException, limit: float) -> FetchError:
    """Turn a library's exception into a word and a sentence, without the URL that it quotes."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return FetchError("timeout", "did not accept the connection in time")
    if isinstance(error, requests.exceptions.Timeout):
        return FetchError("timeout", f"did not answer within {limit:g} s")
    if isinstance(error, requests.exceptions.SSLError):
        return FetchError("tls", "TLS failed: the certificate is not trusted, or the port speaks plain HTTP")
    text = str(error)
    if isinstance(error, requests.exceptions.ConnectionError) and "refused" in text:
        return FetchError("connect", "refused the connection: nothing listens there")
    if isinstance(error, requests.exceptions.ConnectionError) and ("resolve" in text or "getaddrinfo" in text):
        return FetchError("connect", "the host name is not known")
    if isinstance(error, requests.exceptions.ConnectionError) and "timed out" in text.lower():
        return FetchError("timeout", f"did not send the rest within {limit:g} s")
    if isinstance(error, requests.exceptions.TooManyRedirects):
        return FetchError("http_status", "redirects in a circle")
    if isinstance(error, (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError)):
        return FetchError("broken", "broke off in the middle of the body")
    if isinstance(error, requests.exceptions.ConnectionError):
        return FetchError("connect", "closed or lost the connection, or does not speak HTTP")
    return FetchError("broken", f"could not be read ({type(error).__name__})")
