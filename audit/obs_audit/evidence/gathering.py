"""Gather the evidence: the only part of an audit that does I/O. What cannot be had is a piece that says why."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from obs_audit import loglines
from obs_audit.evidence.pieces import ACCEPTS, Bundle, Given, Piece, Role
from obs_exporter.errors import InputError
from obs_exporter.exposition import Wanted, parse
from obs_exporter.mapping_once import read_file
from obs_exporter.sources.endpoints import TIMEOUT
from obs_exporter.sources.scrape import ACCEPT, Access, FetchError, Scraper, metrics_url, redacted
from obs_exporter.stacks import STACKS, Stack

DISCOVERY_PATH = "/api/prometheus/sd"
_JSON = "application/json"
_NEGOTIATING = ("vllm", "kserve")
"""Stacks whose page is prometheus_client's, which follows the Accept header."""
_MAX_LOG = 256 * 1024 * 1024
"""Bytes of a log that are read: more than the largest seen, and still seconds to search."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where evidence is to be had, as asked for on the command line."""

    given: Given
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_url: str = ""
    bearer_token_file: str = ""
    watch: float = 0.0
    engine_logs: tuple[str, ...] = ()
    discovery: str = ""
    annotations: tuple[str, ...] = ()
    baseline: str = ""
    exercise_url: str = ""
    model: str = ""
    hard: bool = False


def gather(where: Where) -> Bundle:
    """Gather everything.

    Raises ``InputError`` for a file that cannot be read and a pattern that matches none, ``ValueError`` for a URL that
    is none; a page that cannot be fetched is a piece that says so.
    """
    gatherer = _Gatherer(where)
    try:
        return Bundle(where.given, tuple(gatherer.pieces()))
    finally:
        gatherer.close()


class _Gatherer:
    """Walks through what was asked for, with one kept-alive session a page."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.stack: Stack = STACKS[where.given.stack]
        self.scrapers = [Scraper(Access(url, bearer_token_file=where.bearer_token_file)) for url in where.urls]

    def close(self) -> None:
        for scraper in self.scrapers:
            scraper.close()

    def pieces(self) -> Iterator[Piece]:
        where = self.where
        if where.exercise_url:
            yield from self._exercised()
        pages = list(self._pages())
        yield from pages
        if where.watch and pages:
            time.sleep(where.watch)
            yield from self._later()
        for number, scraper in enumerate(self.scrapers):
            yield from self._negotiated(scraper, number + len(where.files))
        if self.scrapers:
            yield from self._api(pages[len(where.files)])
        if where.baseline:
            yield from _baseline(where.baseline, where.bearer_token_file)
        if where.discovery:
            yield self._discovery()
        for pattern in where.engine_logs:
            yield from _logs(pattern)
        for name in where.annotations:
            yield Piece(Role.ANNOTATIONS, _named(name), read_file(name))

    def _pages(self) -> Iterator[Piece]:
        for number, name in enumerate(self.where.files):
            yield Piece(Role.PAGE, _named(name), read_file(name), number)
        for number, scraper in enumerate(self.scrapers, len(self.where.files)):
            yield _fetched(scraper, Role.PAGE, number)

    def _later(self) -> Iterator[Piece]:
        for number, scraper in enumerate(self.scrapers, len(self.where.files)):
            yield _fetched(scraper, Role.LATER, number)

    def _negotiated(self, scraper: Scraper, number: int) -> Iterator[Piece]:
        """Ask as Prometheus 2 and 3 do, where that can change names.

        It never does on Ray, where up to 2.56 a further fetch takes gauges away from the user's own Prometheus.
        """
        if self.stack.name in _NEGOTIATING:
            for role, accept in ACCEPTS.items():
                yield _fetched(scraper, role, number, accept=accept)

    def _api(self, page: Piece) -> Iterator[Piece]:
        """Ask the API: versions, models, Triton's model configuration, and its own /metrics if on another port."""
        scraper = self.scrapers[0]
        base = _base(self.where.api_url or scraper.url)
        paths = dict.fromkeys([*(endpoint.path for endpoint in self.stack.endpoints), "/v1/models"])
        if self.stack.name == "triton":
            paths |= dict.fromkeys(f"/v2/models/{model}/config" for model in _triton_models(self.stack, page))
        for path in paths:
            piece = _fetched(scraper, Role.DOCUMENT, url=base + path, accept=_JSON, timeout=TIMEOUT)
            if not piece.error:
                yield piece
        if self.where.api_url and base != _base(scraper.url):
            yield _fetched(scraper, Role.API_PAGE, url=f"{base}/metrics", timeout=TIMEOUT)

    def _discovery(self) -> Piece:
        """Read Ray's service discovery, from its file or from the dashboard."""
        text = self.where.discovery
        if "://" not in text:
            return Piece(Role.DISCOVERY, _named(text), read_file(text))
        parts = urlsplit(text)
        path = parts.path if parts.path not in ("", "/") else DISCOVERY_PATH
        return _once(Role.DISCOVERY, urlunsplit(parts._replace(path=path)), accept=_JSON)

    def _exercised(self) -> Iterator[Piece]:
        """Send requests between two fetches of the first page."""
        from obs_audit.exercise import settled, train

        if not self.scrapers:
            raise InputError("--exercise needs --url: the page whose counters are to move")
        scraper = self.scrapers[0]
        yield _fetched(scraper, Role.BEFORE)
        done = train(self.where)
        yield Piece(Role.EXERCISE, redacted(self.where.exercise_url), done.to_json(), taken=time.time())
        yield settled(lambda: _fetched(scraper, Role.AFTER), self.stack)


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


def _baseline(text: str, token: str) -> Iterator[Piece]:
    """Read the bare engine's page from a file, or fetch it and ask that server for its version."""
    if text == "-" or Path(text).exists() or "://" not in text:
        yield Piece(Role.BASELINE, _named(text), read_file(text))
        return
    yield _once(Role.BASELINE, text, token=token)
    version = _once(Role.BASELINE_DOCUMENT, _base(metrics_url(text)) + "/version", accept=_JSON, token=token)
    if not version.error:
        yield version


def _logs(pattern: str) -> Iterator[Piece]:
    """Keep what is known of the lines of each log that matches."""
    names = sorted(glob.glob(pattern, recursive=True))
    files = [name for name in names if Path(name).is_file()]
    if not files:
        raise InputError(f"--engine-log {pattern}: no file matches")
    for name in files:
        try:
            with Path(name).open(encoding="utf-8", errors="replace") as handle:
                body = loglines.excerpt(_bounded(handle))
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from None
        yield Piece(Role.ENGINE_LOG, name, body.encode())


def _bounded(lines: Iterator[str]) -> Iterator[str]:
    size = 0
    for line in lines:
        size += len(line)
        if size > _MAX_LOG:
            return
        yield line


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


def _named(name: str) -> str:
    return "standard input" if name == "-" else name
