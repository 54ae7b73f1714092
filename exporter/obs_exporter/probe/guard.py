"""Stops a run whose target refuses every request for a reason that no retry can cure. Pure; no I/O."""

from __future__ import annotations

from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.request import TRITON_GENERATE, Endpoint

FIRST = 3
"""So many refusals, counted from the first answer of a level, and nothing between: the run is wrong, not the server."""

_PASSING = frozenset({408, 409, 425, 429})
"""The 4xx that may go away by themselves (RFC 9110 section 15.5, RFC 8470, RFC 6585)."""


class TargetRefusesError(Exception):
    """Every answer was the same refusal; the message says which, and what to change."""


class Guard:
    """Watches the first answers of one level, its warm-up among them."""

    def __init__(self, endpoint: Endpoint, has_key: bool, api: str = "chat") -> None:
        self._endpoint = endpoint
        self._api = api
        self._has_key = has_key
        self._seen = 0
        self._status = 0
        self._detail = ""
        self._watching = True

    @property
    def refused(self) -> int:
        """How many refusals came so far; 0 once anything else has come."""
        return self._seen if self._watching else 0

    def add(self, record: Record) -> None:
        """Take one record."""
        if not self._watching or record.outcome is Outcome.CANCELLED:
            return
        cureless = 400 <= record.status < 500 and record.status not in _PASSING
        if record.outcome is not Outcome.HTTP_ERROR or not cureless or self._status not in (0, record.status):
            self._watching = False
            return
        self._seen += 1
        self._status, self._detail = record.status, record.detail

    def check(self, enough: int = FIRST) -> None:
        """Raise TargetRefusesError when at least ``enough`` answers came and all were the same refusal."""
        if self.refused >= max(1, enough):
            place, hint = self._endpoint.url, refusal_hint(self._endpoint, self._status, self._has_key, self._api)
            raise TargetRefusesError(f"{place}: all of the first {self._seen} answers are {self._detail}: {hint}")


def refusal_hint(endpoint: Endpoint, status: int, has_key: bool, api: str) -> str:
    """Return what to change when a target answers with this status."""
    if status in (401, 403):
        if has_key:
            return "the API key in the environment is not accepted: check OBS_PROBE_API_KEY or --api-key-env"
        return "set the API key in the environment: OBS_PROBE_API_KEY, or the variable that --api-key-env names"
    if status in (404, 405) and api == TRITON_GENERATE:
        return "check --model, and that --url is that of Triton's HTTP port (8000)"
    if status in (404, 405) and not endpoint.path.endswith("/v1"):
        return f"the base URL mostly ends in /v1: try --url {endpoint.url}/v1"
    if status in (404, 405):
        return "check the base URL, --model and --api"
    return "the server does not take such a request: check --model, --api and the request options"
