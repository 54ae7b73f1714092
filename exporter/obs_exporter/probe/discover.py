"""What the target says of itself before a run: its models, and the engine's version where it has /version."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

from obs_exporter.probe.guard import refusal_hint
from obs_exporter.probe.request import TRITON_GENERATE, Endpoint
from obs_exporter.probe.transport import TLSOptions

_TIMEOUT_S = 5.0
_MAX_BODY = 1024 * 1024


class DiscoverError(Exception):
    """The target does not tell; the message says what to give instead."""


class StatusError(ValueError):
    """An HTTP status other than 200."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Hop:
    """How the target is reached."""

    endpoint: Endpoint
    tls: TLSOptions = field(default_factory=TLSOptions)
    proxy: Endpoint | None = None
    key: str | None = None


def first_model(hop: Hop, api: str) -> str:
    """Return the first model that GET /models lists. Raises DiscoverError."""
    if api == TRITON_GENERATE:
        raise DiscoverError(f"{hop.endpoint.url}: --api {api} needs --model: the name of Triton's model")
    path = f"{hop.endpoint.path}/models"
    try:
        data = _get(hop, path)
        return str(data["data"][0]["id"])
    except StatusError as error:
        hint = refusal_hint(hop.endpoint, error.status, hop.key is not None, api)
        raise DiscoverError(f"{hop.endpoint.url}: GET {path} answers {error}: {hint}; or give --model") from None
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        reason = str(error) or error.__class__.__name__
        raise DiscoverError(f"{hop.endpoint.url}: GET {path} names no model ({reason}): give --model") from None


def engine_version(hop: Hop) -> str | None:
    """Return what GET /version says (vLLM's own server has it; layers mostly do not), or None."""
    try:
        version = _get(hop, "/version")["version"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return None
    return version if isinstance(version, str) and version else None


def _get(hop: Hop, path: str) -> Any:
    """Return the JSON that a GET brings. Raises OSError, HTTPException or ValueError."""
    target = hop.endpoint
    near = hop.proxy or target
    connection: HTTPConnection
    if target.tls:
        connection = HTTPSConnection(near.host, near.port, timeout=_TIMEOUT_S, context=hop.tls.context())
        if hop.proxy is not None:
            connection.set_tunnel(target.host, target.port)
    else:
        connection = HTTPConnection(near.host, near.port, timeout=_TIMEOUT_S)
        if hop.proxy is not None:
            path = f"http://{target.authority}{path}"
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {hop.key}"} if hop.key else {})
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read(_MAX_BODY)
    finally:
        connection.close()
    if response.status != 200:
        raise StatusError(response.status)
    return json.loads(body)
