"""Evidence over HTTP: pages, other forms of them, the API's documents. What cannot be had is a piece that says why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from obs_audit.evidence.pieces import ACCEPTS, Piece, Role
from obs_audit.evidence.sources import Sources
from obs_audit.exercise import settled, train
from obs_exporter.exposition import Wanted, parse
from obs_exporter.sources.endpoints import TIMEOUT
from obs_exporter.sources.scrape import ACCEPT, Access, FetchError, Scraper, metrics_url, redacted
from obs_exporter.stacks import STACKS, Stack

DISCOVERY_PATH = "/api/prometheus/sd"
_JSON = "application/json"
_NEGOTIATING = ("vllm", "kserve")
"""Stacks whose page is prometheus_client's, which follows the Accept header."""


class Fetcher:
    """Fetches what one target has, with one kept-alive session a page."""

    def __init__(self, sources: Sources) -> None:
        """Prepare the sessions; nothing is sent yet. Raises ``ValueError`` for a URL that is none."""
        self.sources = sources
        self.stack: Stack = STACKS[sources.given.stack]
        token = sources.bearer_token_file
        self._scrapers = [Scraper(Access(url, bearer_token_file=token)) for url in sources.urls]
        self._first = len(sources.files)

    def close(self) -> None:
        """Close the sessions."""
        for scraper in self._scrapers:
            scraper.close()

    def pages(self, role: Role = Role.PAGE) -> Iterator[Piece]:
        """Fetch each page once."""
        for number, scraper in enumerate(self._scrapers, self._first):
            yield _fetched(scraper, role, number)

    def negotiated(self) -> Iterator[Piece]:
        """Ask as Prometheus 2 and 3 do, where that can change names.

        It never does on Ray, where up to 2.56 a further fetch takes gauges away from the user's own Prometheus.
        """
        for number, scraper in enumerate(self._scrapers, self._first):
            if self.stack.name in _NEGOTIATING:
                for role, accept in ACCEPTS.items():
                    yield _fetched(scraper, role, number, accept=accept)

    def api(self, page: Piece) -> Iterator[Piece]:
        """Ask the API: versions, models, Triton's model configuration, and its own /metrics if on another port."""
        scraper = self._scrapers[0]
        base = _base(self.sources.api_url or scraper.url)
        paths = dict.fromkeys([*(endpoint.path for endpoint in self.stack.endpoints), "/v1/models"])
        if self.stack.name == "triton":
            paths |= dict.fromkeys(f"/v2/models/{model}/config" for model in _triton_models(self.stack, page))
        for path in paths:
            piece = _fetched(scraper, Role.DOCUMENT, url=base + path, accept=_JSON, timeout=TIMEOUT)
            if not piece.error:
                yield piece
        if self.sources.api_url and base != _base(scraper.url):
            yield _fetched(scraper, Role.API_PAGE, url=f"{base}/metrics", timeout=TIMEOUT)

    def exercised(self) -> Iterator[Piece]:
        """Send requests between two fetches of the first page."""
        scraper = self._scrapers[0]
        yield _fetched(scraper, Role.BEFORE)
        done = train(self.sources)
        yield Piece(Role.EXERCISE, redacted(self.sources.exercise), done.to_json(), taken=time.time())
        yield settled(lambda: _fetched(scraper, Role.AFTER), self.stack)

    def baseline(self) -> Iterator[Piece]:
        """Fetch the bare engine's page, and ask that server for its version."""
        url, token = self.sources.baseline, self.sources.bearer_token_file
        yield _once(Role.BASELINE, url, token=token)
        version = _once(Role.BASELINE_DOCUMENT, _base(metrics_url(url)) + "/version", accept=_JSON, token=token)
        if not version.error:
            yield version

    def discovery(self) -> Piece:
        """Ask Ray's dashboard for its service discovery."""
        parts = urlsplit(self.sources.ray_sd)
        path = parts.path if parts.path not in ("", "/") else DISCOVERY_PATH
        return _once(Role.DISCOVERY, urlunsplit(parts._replace(path=path)), accept=_JSON)


def _fetched(
    scraper: Scraper, role: Role, number: int = 0, *, url: str = "", accept: str = ACCEPT, timeout: float | None = None
) -> Piece:
    source = redacted(url or scraper.url)
    taken = time.time()
    try:
        fetched = scraper.fetch(url=url, accept=accept, timeout=timeout)
    except FetchError as error:
        return Piece(role, source, number=number, taken=taken, error=f"{source} {error}")
    return Piece(role, source, fetched.body, number, fetched.content_type, taken)


def _once(role: Role, url: str, *, accept: str = ACCEPT, token: str = "") -> Piece:
    scraper = Scraper(Access(url, bearer_token_file=token))
    try:
        return _fetched(scraper, role, url=url if accept == _JSON else "", accept=accept)
    finally:
        scraper.close()


def _triton_models(stack: Stack, page: Piece) -> list[str]:
    """Return the names of the models that a Triton page counts requests of."""
    if page.error:
        return []
    families = stack.evidence_families
    found = parse(page.body, Wanted(families)).samples
    models = {sample.labels.get("model", "") for name in families for sample in found.get(name, [])}
    return sorted(models - {""})


def _base(url: str) -> str:
    """Return scheme and host of a URL."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))
