# SPDX-License-Identifier: Apache-2.0
"""A client of HTTP/3 on aioquic with tunnels, and targets for them."""

import asyncio
import contextlib
import ssl
from collections import defaultdict
from dataclasses import dataclass, field

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.client import connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from quic_rig import PATIENCE_S

TOKEN = "0123456789abcdef0123456789abcdef"
UDP_PATH = "/.well-known/masque/udp/{}/{}/"
CONNECT_ERROR = 0x10F
DATAGRAM_CAPSULE = b"\x00"


@dataclass
class Stream:
    """Answer to a request, as far as it has come."""

    fields: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    datagrams: list[bytes] = field(default_factory=list)
    ended: bool = False
    reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.fields.get(":status", 0))


class Http(H3Connection):
    """aioquic compares the length of an answer also where there is none: after HEAD (RFC 9110 8.6)."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.heads: set[int] = set()

    def _check_content_length(self, stream: object) -> None:
        if stream.stream_id not in self.heads:
            super()._check_content_length(stream)


class Client(QuicConnectionProtocol):
    """A connection with any number of requests."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        # Only with WebTransport does aioquic offer datagrams.
        self.http = Http(self._quic, enable_webtransport=True)
        self.streams: dict[int, Stream] = defaultdict(Stream)
        self.terminated: events.ConnectionTerminated | None = None
        self.changed = asyncio.Event()

    def request(self, fields: dict[str, str], *, ends: bool = False) -> int:
        stream = self._quic.get_next_available_stream_id()
        if fields[":method"] == "HEAD":
            self.http.heads.add(stream)
        words = [(name.encode(), value.encode()) for name, value in fields.items()]
        self.http.send_headers(stream, words, end_stream=ends)
        self.transmit()
        return stream

    def get(self, path: str, method: str = "GET", **fields: str) -> int:
        head = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        return self.request(head | {name.replace("_", "-"): value for name, value in fields.items()}, ends=True)

    def tcp(self, authority: str, token: str | None = TOKEN) -> int:
        fields = {":method": "CONNECT", ":authority": authority}
        return self.request(fields | ({"proxy-authorization": f"Bearer {token}"} if token else {}))

    def udp(self, host: str, port: int, token: str = TOKEN) -> int:
        path = UDP_PATH.format(host.replace(":", "%3A"), port)
        fields = {":method": "CONNECT", ":protocol": "connect-udp", ":scheme": "https", ":authority": "localhost"}
        more = {":path": path, "capsule-protocol": "?1", "proxy-authorization": f"Bearer {token}"}
        return self.request(fields | more)

    def send(self, stream: int, data: bytes, *, ends: bool = False) -> None:
        self.http.send_data(stream, data, end_stream=ends)
        self.transmit()

    def send_datagram(self, stream: int, payload: bytes) -> None:
        """A UDP payload, in the context of number 0."""
        self.http.send_datagram(stream, b"\x00" + payload)
        self.transmit()

    def reset(self, stream: int) -> None:
        self._quic.reset_stream(stream, CONNECT_ERROR)
        self.transmit()

    async def until(self, true: "callable") -> None:
        """Waits for something that comes by itself, or fails."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                assert self.terminated is None, self.terminated
                self.changed.clear()
                await self.changed.wait()

    async def answer(self, stream: int) -> Stream:
        """The answer's fields have come."""
        await self.until(lambda: self.streams[stream].fields or self.streams[stream].reset is not None)
        return self.streams[stream]

    async def whole(self, stream: int) -> Stream:
        """The answer has ended."""
        await self.until(lambda: self.streams[stream].ended or self.streams[stream].reset is not None)
        return self.streams[stream]

    def quic_event_received(self, event: events.QuicEvent) -> None:
        match event:
            case events.ConnectionTerminated():
                self.terminated = event
            case events.StreamReset():
                self.streams[event.stream_id].reset = event.error_code
        for came in self.http.handle_event(event):
            stream = self.streams[came.stream_id]
            match came:
                case HeadersReceived():
                    stream.fields = {name.decode(): value.decode() for name, value in came.headers}
                case DataReceived():
                    stream.body += came.data
                case DatagramReceived():
                    stream.datagrams.append(came.data.removeprefix(b"\x00"))
            stream.ended |= getattr(came, "stream_ended", False)
        self.changed.set()


@contextlib.asynccontextmanager
async def connected(server, **options):
    """A client of this server."""
    configuration = QuicConfiguration(
        alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_REQUIRED, max_datagram_frame_size=65536, **options
    )
    configuration.load_verify_locations(str(server.ca))
    host, _, port = server.address.rpartition(":")
    async with connect(host.strip("[]"), int(port), configuration=configuration, create_protocol=Client) as client:
        # The server's settings come after the handshake.
        await client.until(lambda: client.http.received_settings is not None)
        yield client


@contextlib.asynccontextmanager
async def tcp_target(serve: "callable", host: str = "127.0.0.1"):
    """A TCP server on a free port, which it yields; `serve(reader, writer)` is run for each connection."""
    server = await asyncio.start_server(serve, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends back what comes, then an end."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write(b"and goodbye")
    writer.write_eof()
    await writer.drain()
    writer.close()


class UdpEcho(asyncio.DatagramProtocol):
    """Sends datagrams back."""

    def __init__(self) -> None:
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple) -> None:
        self.transport.sendto(data, addr)


@contextlib.asynccontextmanager
async def udp_target(host: str = "127.0.0.1"):
    """A UDP echo server on a free port, which it yields."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(UdpEcho, local_addr=(host, 0))
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
