"""What an audit judges: pages with the place they came from. Gathering is the only part that does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from obs_audit.inventory import Counts, count
from obs_exporter.config import Target
from obs_exporter.exposition import parse
from obs_exporter.mapping_once import read_file
from obs_exporter.sources import endpoints
from obs_exporter.sources.scrape import FetchError, Scraper, redacted
from obs_exporter.stacks import STACKS, Claims, Reading, read_nothing, read_page, read_paper
from obs_exporter.stacks.endpoints import combine


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One page with its reading; ``source`` is a file name or a URL without secrets. No counts if unreadable."""

    source: str
    reading: Reading
    counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All exhibits of one target, in the order given; none for a paper audit, whose reading is that of the tables."""

    stack: str
    exhibits: tuple[Exhibit, ...]
    paper: Reading


def from_page(stack: str, source: str, body: bytes, claims: Claims, *, openmetrics: bool = False) -> Exhibit:
    """Judge one page that is already here."""
    table = STACKS[stack]
    page = parse(body, table.wanted(), openmetrics=openmetrics)
    reading = read_page(table, page, claims)
    return Exhibit(source, reading, count(table, page, body) if reading.reachable else None)


def collect(stack: str, files: Sequence[str], targets: Sequence[Target], claims: Claims) -> Evidence:
    """Read the files and fetch the targets' pages.

    Raises ``InputError`` for a file that cannot be read; a page that cannot be fetched is an exhibit that says so.
    """
    exhibits = [from_page(stack, _name(file), read_file(file), claims) for file in files]
    exhibits += [_fetched(target) for target in targets]
    return Evidence(stack, tuple(exhibits), read_paper(STACKS[stack], claims))


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _fetched(target: Target) -> Exhibit:
    """Fetch one page and ask the target's other endpoints for versions."""
    scraper = Scraper(target.access)
    source = redacted(scraper.url)
    try:
        fetched = scraper.fetch()
        told = endpoints.ask(scraper, STACKS[target.stack].endpoints, target.api_url)
    except FetchError as error:
        return Exhibit(source, read_nothing(STACKS[target.stack], target.claims, f"{source} {error}"))
    finally:
        scraper.close()
    claims = combine(target.claims, told)
    return from_page(target.stack, source, fetched.body, claims, openmetrics=fetched.openmetrics)
