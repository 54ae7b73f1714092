"""Ask a target's other endpoints for its versions. What does not answer, or answers something else, tells nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from obs_exporter.sources.scrape import FetchError, Scraper
from obs_exporter.stacks.endpoints import Endpoint, combine
from obs_exporter.stacks.model import Claims

TIMEOUT = 2.0
"""Seconds an endpoint may take: versions are a comfort, the page is the job."""


def ask(scraper: Scraper, endpoints: Sequence[Endpoint], api_url: str = "") -> Claims:
    """Return what the endpoints of a target tell, asked on ``api_url`` or on the page's own host and port."""
    base = urlsplit(api_url if "://" in api_url else f"http://{api_url}") if api_url else urlsplit(scraper.url)
    claims = Claims()
    for endpoint in endpoints:
        url = urlunsplit((base.scheme, base.netloc, endpoint.path, "", ""))
        try:
            fetched = scraper.fetch(url=url, accept="application/json", timeout=TIMEOUT)
            document: object = json.loads(fetched.body)
        except (FetchError, ValueError):
            continue
        claims = combine(claims, endpoint.read(document))
    return claims
