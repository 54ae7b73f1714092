"""One look at one target: fetch its page, parse it, read it, derive what it lacks. The same path for the sidecar,
``map`` and the audit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from obs_exporter import derive
from obs_exporter.config import Target
from obs_exporter.derive import Context, Evidence, Extra, Memory, Outcome, Settings, carried
from obs_exporter.exposition import Page, Wanted, parse
from obs_exporter.sources import endpoints
from obs_exporter.sources.beside import Beside
from obs_exporter.sources.scrape import FetchError, Scraper, redacted
from obs_exporter.stacks import STACKS, Claims, Reading, read_nothing, read_page
from obs_exporter.stacks.endpoints import combine

ASK_AGAIN = 300.0
"""Seconds between two questions for the versions: a rollout changes them, a scrape does not."""
SMALL = 512 * 1024
"""Bytes of a page that may be read every second between the scrapes."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look yields.

    The reading, how long it took, one word where it failed ("" where it did not), ages and bounds of derived values,
    and how old the page is in seconds: above 0 where it may not be asked as often as we are.
    """

    reading: Reading
    seconds: float
    failure: str = ""
    extras: tuple[Extra, ...] = ()
    page_age: float = 0.0


def parse_body(stack: str, body: bytes, *, openmetrics: bool = False, wanted: Wanted | None = None) -> Page:
    """Parse what a stack's mapping reads of a page that is already here."""
    return parse(body, wanted or STACKS[stack].wanted(), openmetrics=openmetrics)


def read_body(
    stack: str, body: bytes, claims: Claims, *, openmetrics: bool = False, wanted: Wanted | None = None
) -> Reading:
    """Read a page that is already here, without deriving anything."""
    return read_page(STACKS[stack], parse_body(stack, body, openmetrics=openmetrics, wanted=wanted), claims)


def derived(
    stack: str, reading: Reading, page: Page, memory: Memory, evidence: Evidence, settings: Settings, now: float,
    took: float | None = None,
) -> Outcome:  # fmt: skip
    """Derive what a page lacks; ``now`` is any clock in seconds, the same for one memory.

    ``took`` is how many seconds the page let us wait, None where that is not known.
    """
    return derive.apply(reading, Context(STACKS[stack], page, memory, evidence, settings, now, took))


class Looker:
    """Looks at one target again and again. Not for use by several threads at once."""

    def __init__(self, target: Target, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is sent yet. ``clock`` gives seconds that never go back."""
        self.target = target
        self._clock = clock
        self._stack = STACKS[target.stack]
        self._wanted = self._stack.wanted()
        self._scraper = Scraper(target.access)
        self._beside = Beside(target.engine_logs, gpu=target.gpu)
        self._memory = Memory()
        self._told = Claims()
        self._asked = -ASK_AGAIN
        self._last: tuple[float, Look] | None = None
        self._size = 0

    def look(self, timeout: float | None = None) -> Look:
        """Fetch and read the page within ``timeout`` seconds. What goes wrong is in the result; nothing is raised."""
        started = self._clock()
        recent = self._recent(started)
        if recent is not None:
            return recent
        try:
            fetched = self._scraper.fetch(timeout=timeout)
        except FetchError as error:
            problem = f"{redacted(self._scraper.url)} {error}"
            reading = read_nothing(self._stack, self.target.claims, problem)
            return self._finished(reading, Page(), started, error.reason)
        took = self._clock() - started
        claims = combine(self.target.claims, self._versions(started, timeout))
        page = parse_body(self.target.stack, fetched.body, openmetrics=fetched.openmetrics, wanted=self._wanted)
        self._size = len(fetched.body)
        reading = read_page(self._stack, page, claims)
        return self._finished(reading, page, started, "" if reading.reachable else "not_metrics", took)

    @property
    def sample_again(self) -> float:
        """Seconds after which a look between two scrapes is worth its cost; 0 where none is.

        It is where the queue wait is an integral over looks. A page that is large, slow or may not be asked often is
        left alone: a look may cost the target a twentieth of the time at most.
        """
        if not self.target.sample_seconds or self._last is None or self._size > SMALL:
            return 0.0
        _, last = self._last
        integral = self._memory.queue.last is not None
        if not integral or self._stack.cadence_of(last.reading.stack_version) is not None:
            return 0.0
        return max(self.target.sample_seconds, 20 * last.seconds)

    def _finished(self, reading: Reading, page: Page, started: float, failure: str, took: float | None = None) -> Look:
        """Derive what the page lacks, and remember the look."""
        now = self._clock()
        evidence = self._beside.read(now, time.time())
        outcome = derived(self.target.stack, reading, page, self._memory, evidence, self.target.settings, now, took)
        look = Look(outcome.reading, self._clock() - started, failure, outcome.extras)
        self._last = (started, look)
        return look

    def _recent(self, now: float) -> Look | None:
        """Return the last look, with its values as old as they are by now, while the page may not be asked again."""
        if self._last is None:
            return None
        time_of, look = self._last
        cadence = self._stack.cadence_of(look.reading.stack_version) if look.reading.reachable else None
        if cadence is None or now - time_of >= cadence.seconds:
            return None
        age = now - time_of
        reading, extras = carried.aged(look.reading, look.extras, age, self.target.settings.stale_after)
        return replace(look, reading=reading, seconds=0.0, extras=extras, page_age=age)

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
        """Close the connections and files."""
        self._scraper.close()
        self._beside.close()
