# SPDX-License-Identifier: Apache-2.0
"""A server on aioquic that does what a test says, in a thread of the test's own process, and bytes of HTTP/3 to say."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived
from aioquic_parts import LoopbackServer

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
CONTROL, PUSH, QPACK_ENCODER, QPACK_DECODER = 0, 1, 2, 3  # types of one-way streams (RFC 9114 6.2, RFC 9204 4.2)
REQUEST = 0
"""The stream of a client's first request."""
UNI = (3, 7, 11, 15, 19)
"""One-way streams of a server."""


def varint(n: int, size: int = 0) -> bytes:
    """RFC 9000 16, in at least `size` bytes."""
    for exponent, length in enumerate((1, 2, 4, 8)):
        if length >= size and n < 1 << (8 * length - 2):
            return (n | exponent << (8 * length - 2)).to_bytes(length, "big")
    raise ValueError(n)


def frame(kind: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """A frame of HTTP/3; `length` for one that lies about it."""
    return varint(kind) + varint(len(payload) if length is None else length) + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, b"".join(varint(name) + varint(value) for name, value in pairs))


def _string(text: bytes, prefix: int = 7, flags: int = 0) -> bytes:
    """RFC 7541 5.2 without Huffman; prefix bits hold the length's beginning."""
    most = (1 << prefix) - 1
    if len(text) < most:
        return bytes([flags | len(text)]) + text
    rest, out = len(text) - most, [flags | most]
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes([*out, rest]) + text


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    """A field section of literals only (RFC 9204 4.5.6): no Huffman, no tables."""
    return b"\0\0" + b"".join(_string(name, 3, 0x20) + _string(value) for name, value in pairs)


def headers(*pairs: tuple[bytes, bytes]) -> bytes:
    return frame(HEADERS, fields(*pairs))


def ok(length: int | None = None) -> bytes:
    """The header of a good answer."""
    pairs = [(b":status", b"200")]
    if length is not None:
        pairs.append((b"content-length", str(length).encode()))
    return headers(*pairs)


def answer(body: bytes) -> bytes:
    """A good answer."""
    return ok(len(body)) + frame(DATA, body)


@dataclass
class Script:
    """Answer of a server on each stream, and its further actions."""

    request: bytes = b""
    """On the request's stream, once a request has come."""
    fin: bool = True
    control: bytes | None = CONTROL.to_bytes(1, "big") + settings()
    """On the first one-way stream when the connection is up."""
    others: list[tuple[int, bytes, bool]] = field(default_factory=list)
    """Stream, bytes and whether that is its end, after that."""
    then: Callable[[QuicConnection], None] | None = None
    """After the request was answered."""


class _Speaker(QuicConnectionProtocol):
    def __init__(self, server: "Scripted", *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.server = server
        self.script = server.script
        self.up = self.answered = False
        if server.window_bytes is not None:  # aioquic would raise its limits with what it has received
            self._quic._write_connection_limits = self._quic._write_stream_limits = lambda **_: None

    def quic_event_received(self, event: QuicEvent) -> None:
        try:
            self.act(event)
        except Exception as error:  # a test must see it: in a thread of asyncio nobody would
            self.server.errors.append(error)

    def act(self, event: QuicEvent) -> None:
        quic, script = self._quic, self.script
        if isinstance(event, HandshakeCompleted) and not self.up:
            self.up = True
            if script.control is not None:
                quic.send_stream_data(UNI[0], script.control)
            for stream, data, end in sorted(script.others):  # aioquic takes them in no other order
                quic.send_stream_data(stream, data, end)
            self.transmit()
        elif isinstance(event, StreamDataReceived) and event.stream_id == REQUEST and not self.answered:
            self.answered = True
            if script.request or script.fin:
                quic.send_stream_data(REQUEST, script.request, script.fin)
            if script.then:
                self.transmit()
                script.then(quic)
            self.transmit()
        elif isinstance(event, ConnectionTerminated) and script is self.server.script:  # not a late one
            self.server.closed.append(event.error_code)


class Scripted(LoopbackServer):
    """The server. Set `script` before a client is run. `window_bytes`: it takes no more than that of a connection."""

    def __init__(self, cert: object, key: object, alpns: tuple[str, ...] = ("h3",), window_bytes: int | None = None):
        self.window_bytes = window_bytes
        most = window_bytes or 1 << 24
        self.script = Script()
        self.closed: list[int] = []
        """Error codes with which connections ended."""
        self.errors: list[Exception] = []
        configuration = QuicConfiguration(
            is_client=False, alpn_protocols=list(alpns), idle_timeout=20.0, max_data=most, max_stream_data=most
        )
        configuration.load_cert_chain(cert, key)
        super().__init__(configuration, lambda *args, **kwargs: _Speaker(self, *args, **kwargs))

    @contextlib.contextmanager
    def saying(self, script: Script) -> Iterator["Scripted"]:
        """The server with this script, for the length of a with; what went wrong in the server is raised at its end."""
        self.script = script
        self.closed.clear()
        self.errors.clear()
        yield self
        if self.errors:
            raise self.errors[0]
