"""Opens connections to a target: straight, or through a proxy; plain or TLS; HTTP/1.1 or HTTP/2."""

from __future__ import annotations

import ssl

from obs_exporter.probe.request import Endpoint
from obs_exporter.probe.transport import Address, TLSOptions, Transport, resolve


class Dialer:
    """Knows all that a new connection needs; ``address`` is what ``resolve`` gave.

    Raises TransportError on an unknown host or on TLS files that cannot be used, ImportError on HTTP/2 without h2.
    """

    def __init__(
        self, endpoint: Endpoint, tls: TLSOptions, proxy: Endpoint | None, http2: bool, address: Address | None
    ) -> None:
        hop = proxy or endpoint
        self._endpoint = endpoint
        self._family, self._address = address or resolve(hop.host, hop.port)
        self._context: ssl.SSLContext | None = tls.context() if endpoint.tls else None
        self._tunnel = proxy is not None and endpoint.tls
        self._layer = None
        if http2:
            from obs_exporter.probe.http2 import ClientLayer

            self._layer = ClientLayer
            if self._context is not None:
                self._context.set_alpn_protocols(["h2"])

    def dial(self) -> Transport:
        """Return a new connection, being opened. Raises OSError when there is no file descriptor left."""
        layer = self._layer(self._endpoint.scheme) if self._layer is not None else None
        return Transport(self._family, self._address, self._endpoint, self._context, self._tunnel, layer)
