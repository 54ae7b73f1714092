"""TLS for the truth server, without a certificate: what the probe's error is when every byte must be decrypted.

Nobody is authenticated (TLS 1.2 with an anonymous cipher): both ends are this program, on one machine, and a private
key in the package would only look like a secret. Some builds of OpenSSL have no such cipher; then there is no local TLS
server, and the probe says so.
"""

from __future__ import annotations

import ssl

from obs_exporter.probe.transport import TLSOptions

_CIPHERS = "AECDH-AES128-SHA:@SECLEVEL=0"


def _context(protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    if protocol is ssl.PROTOCOL_TLS_CLIENT:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_ciphers(_CIPHERS)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def available() -> bool:
    """Whether this build of OpenSSL has an anonymous cipher."""
    try:
        _context(ssl.PROTOCOL_TLS_SERVER)
    except ssl.SSLError:
        return False
    return True


class AnonymousTLS(TLSOptions):
    """The client's side. Never for a real target: it accepts whoever answers."""

    def context(self) -> ssl.SSLContext:
        """Return the context. Raises ssl.SSLError when this OpenSSL has no anonymous cipher."""
        return _context(ssl.PROTOCOL_TLS_CLIENT)


def server_context() -> ssl.SSLContext:
    """Return the server's side. Raises ssl.SSLError when this OpenSSL has no anonymous cipher."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class Seal:
    """The server's end of one TLS connection; bytes in and out, no socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._open = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what the peer's bytes say, and what must be answered to them. Raises ssl.SSLError."""
        self._incoming.write(data)
        plain = []
        try:
            if not self._open:
                self._tls.do_handshake()
                self._open = True
            while part := self._tls.read(65536):
                plain.append(part)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain), self._outgoing.read()

    def seal(self, data: bytes) -> bytes:
        """Return ``data`` as it goes over the wire."""
        if data:
            self._tls.write(data)
        return self._outgoing.read()
