"""One look at one target: fetch its page, parse it, read it. The same path for the sidecar, ``map`` and the audit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from obs_exporter.config import Target
from obs_exporter.exposition import Wanted, parse
from obs_exporter.sources import endpoints
from obs_exporter.sources.scrape import FetchError, Scraper, redacted
from obs_exporter.stacks import STACKS, Claims, Reading, read_nothing, read_page
from obs_exporter.stacks.endpoints import combine

ASK_AGAIN = 300.0
"""Seconds between two questions for the versions: a rollout changes them, a scrape does not."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look yields: the reading, how long it took, and one word where it failed ("" where it did not)."""

    reading: Reading
    seconds: float
    failure: str = ""


def read_body(
    stack: str, body: bytes, claims: Claims, *, openmetrics: bool = False, wanted: Wanted | None = None
) -> Reading:
    """Read a page that is already here."""
    table = STACKS[stack]
    return read_page(table, parse(body, wanted or table.wanted(), openmetrics=openmetrics), claims)


class Looker:
    """Looks at one target again and again. Not for use by several threads at once."""

    def __init__(self, target: Target) -> None:
        """Prepare; nothing is sent yet."""
        self.target = target
        self._stack = STACKS[target.stack]
        self._wanted = self._stack.wanted()
        self._scraper = Scraper(target.access)
        self._told = Claims()
        self._asked = -ASK_AGAIN

    def look(self, timeout: float | None = None) -> Look:
        """Fetch and read the page within ``timeout`` seconds. What goes wrong is in the result; nothing is raised."""
        started = time.monotonic()
        try:
            fetched = self._scraper.fetch(timeout=timeout)
        except FetchError as error:
            problem = f"{redacted(self._scraper.url)} {error}"
            reading = read_nothing(self._stack, self.target.claims, problem)
            return Look(reading, time.monotonic() - started, error.reason)
        claims = combine(self.target.claims, self._versions(started, timeout))
        reading = read_body(
            self.target.stack, fetched.body, claims, openmetrics=fetched.openmetrics, wanted=self._wanted
        )  # fmt: skip
        return Look(reading, time.monotonic() - started, "" if reading.reachable else "not_metrics")

    def _versions(self, now: float, timeout: float | None) -> Claims:
        """Return what the other endpoints tell, asked seldom, and never where flags have told it all."""
        known = self.target.claims
        complete = known.engine_version.candidates and (known.stack_version.candidates or self._stack.is_engine)
        spare = timeout is None or timeout > 2 * endpoints.TIMEOUT
        if complete or not spare or now - self._asked < ASK_AGAIN:
            return self._told
        self._asked = now
        self._told = endpoints.ask(self._scraper, self._stack.endpoints, self.target.api_url)
        return self._told

    def close(self) -> None:
        """Close the connections."""
        self._scraper.close()
