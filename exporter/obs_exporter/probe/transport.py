"""One non-blocking connection, plain or TLS, HTTP/1.1 or HTTP/2. The only socket code of the client.

What it reads carries the time at which the kernel received it (``stamps``).
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obs_exporter.probe.request import Endpoint
from obs_exporter.probe.stamps import Piece, ask_for_stamps, receive

if TYPE_CHECKING:
    from obs_exporter.probe.http2 import ClientLayer

_MAX_TUNNEL_ANSWER = 64 * 1024
_FIRST_READ = 512
_READ = 16384
_SMALL_READS = 4096
"""Bytes of an answer read in small pieces, so that the first tokens are less often merged into one read."""


class TransportError(Exception):
    """The connection failed; the message says how."""


@dataclass(frozen=True, slots=True)
class TLSOptions:
    """How to check the server and show who we are; ``insecure`` accepts any certificate."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises TransportError when a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            name = self.cert_file or self.ca_file
            raise TransportError(f"TLS files cannot be used ({name}): {error}") from None
        context.set_alpn_protocols(["http/1.1"])
        return context


Address = tuple[int, tuple[str, int]]
"""A socket family and the address in it."""


def resolve(host: str, port: int) -> Address:
    """Return (family, address) of a host, the first address that takes a connection, else the first of all.

    Raises TransportError when the name has no address.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TransportError(f"{host}: no address: {error}") from None
    for family, _, _, _, address in found if len(found) > 1 else ():
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(2.0)
            if probe.connect_ex(address) == 0:
                return family, (str(address[0]), int(address[1]))
    family, _, _, _, address = found[0]
    return family, (str(address[0]), int(address[1]))


class Transport:
    """A connection being opened, open, or closed. Reads and writes never wait.

    ``layer`` translates between HTTP/1.1 bytes here and HTTP/2 frames there.
    """

    def __init__(
        self, family: int, address: tuple[str, int], target: Endpoint, context: ssl.SSLContext | None, tunnel: bool,
        layer: ClientLayer | None = None,
    ) -> None:  # fmt: skip
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.fd = self._socket.fileno()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stamps = ask_for_stamps(self._socket)
        self._read_bytes = 0
        self._out = b""
        self._tls: ssl.SSLObject | None = None
        self._layer = layer
        self._tunnel = b""
        if tunnel:
            name = f"{target.host}:{target.port}"
            self._tunnel = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
        self._tunnel_answer = b""
        self._context = context
        self._target = target
        self._connected = False
        self._ready = False
        self.opening_ns = 0
        self.refused = self._connect(address)

    def _connect(self, address: tuple[str, int]) -> str:
        """Begin to connect; return the error of a connection that failed at once, else ""."""
        try:
            self._socket.connect(address)
        except BlockingIOError:
            return ""
        except OSError as error:
            return _reason(error)
        return ""

    @property
    def ready(self) -> bool:
        """Whether a request can be sent."""
        return self._ready

    @property
    def wants_write(self) -> bool:
        """Whether to wait until the kernel takes more bytes."""
        return not self._connected or bool(self._out)

    def advance(self) -> None:
        """Go on with opening the connection after the socket became readable or writable. Raises TransportError."""
        if not self._connected:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise TransportError(_reason(OSError(code, "")))
            self._connected = True
            if self._tunnel:
                self._out = self._tunnel
        if self._out:
            self.flush()
        if self._tunnel and not self._read_tunnel():
            return
        if self._context is None:
            self._ready = True
        elif not self._ready:
            self._handshake(self._context)

    def _read_tunnel(self) -> bool:
        """Read the proxy's answer to CONNECT; return whether the tunnel stands. Raises TransportError if refused."""
        while b"\r\n\r\n" not in self._tunnel_answer:
            piece = self._receive()
            if piece is None:
                return False
            if not piece.data:
                raise TransportError("the proxy closed the connection")
            self._tunnel_answer += piece.data
            if len(self._tunnel_answer) > _MAX_TUNNEL_ANSWER:
                raise TransportError(f"the proxy's answer passes {_MAX_TUNNEL_ANSWER} bytes")
        words = self._tunnel_answer.split(None, 2)
        if len(words) < 2 or not words[1].startswith(b"2"):
            raise TransportError(f"the proxy refused the tunnel: {self._tunnel_answer[:60]!r}")
        self._tunnel = b""
        return True

    def _handshake(self, context: ssl.SSLContext) -> None:
        if self._tls is None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=self._target.host)
        while True:
            try:
                self._tls.do_handshake()
                self._ready = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise TransportError(f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}") from None
            self._out += self._outgoing.read()
            if self._out:
                self.flush()
            if self._ready:
                self._check_protocol(self._tls)
                return
            piece = self._receive()
            if piece is None:
                return
            if not piece.data:
                raise TransportError("the server closed the connection during the TLS handshake")
            self._incoming.write(piece.data)

    def _check_protocol(self, tls: ssl.SSLObject) -> None:
        if self._layer is not None and tls.selected_alpn_protocol() != "h2":
            raise TransportError("the server does not speak HTTP/2 (ALPN chose nothing of ours): leave out --http2")

    def send(self, data: bytes) -> None:
        """Hand a request to the kernel, as much as it takes now; ``flush`` sends the rest. Raises TransportError."""
        self._read_bytes = 0
        self._put(data if self._layer is None else self._through(self._layer.request, data))

    def _through(self, step: Callable[[bytes], bytes], data: bytes) -> bytes:
        from obs_exporter.probe.http2 import HTTP2Error

        try:
            return step(data)
        except HTTP2Error as error:
            raise TransportError(f"HTTP/2: {error}") from None

    def _put(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        self._out += data
        self.flush()

    def flush(self) -> None:
        """Hand over what is left to send. Raises TransportError."""
        try:
            while self._out:
                self._out = self._out[self._socket.send(self._out) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise TransportError(_reason(error)) from None

    def read(self) -> Piece | None:
        """Return what has come, None when nothing has, and a piece without data at the end of the connection.

        Raises TransportError.
        """
        piece = self._receive() if self._tls is None else self._decrypted()
        if self._layer is None or piece is None or not piece.data:
            return piece
        said = self._through(self._layer.receive, piece.data)
        if answer := self._layer.outgoing():
            self._put(answer)
        return Piece(said, piece.at_ns, piece.lag_ns) if said else None

    def _decrypted(self) -> Piece | None:
        piece = self._receive()
        if self._tls is None or piece is None or not piece.data:
            return piece
        self._incoming.write(piece.data)
        plain = []
        ended = False
        try:
            while not ended:
                data = self._tls.read(65536)
                plain.append(data)
                ended = not data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TransportError(f"TLS: {error.reason or error}") from None
        return Piece(b"".join(plain), piece.at_ns, piece.lag_ns) if plain else None

    def _receive(self) -> Piece | None:
        size = _FIRST_READ if self._read_bytes < _SMALL_READS else _READ
        try:
            piece = receive(self._socket, size, self._stamps)
        except BlockingIOError:
            return None
        except OSError as error:
            raise TransportError(_reason(error)) from None
        self._read_bytes += len(piece.data)
        return piece

    def quiet(self) -> bool:
        """Whether an idle connection is sound: neither closed by the server nor with bytes that nobody asked for."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close the socket; errors of a connection that is gone anyway do not matter."""
        self._socket.close()


def _reason(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()
