# SPDX-License-Identifier: Apache-2.0
"""A relay on aioquic for the tests: CONNECT (RFC 9114 4.4) and CONNECT-UDP (RFC 9298), with a token and its own names.

Prints "listening ADDRESS:PORT" when it is ready and ends on SIGTERM. Only aioquic's public interface is used.
"""

import argparse
import asyncio
import contextlib
import urllib.parse

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, FrameUnexpected, H3Connection
from aioquic.h3.events import DatagramReceived, DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated, QuicEvent, StreamReset
from aioquic_parts import serve_until_signal

UDP_PATH = "/.well-known/masque/udp/"
H3_CONNECT_ERROR = 0x10F
PART_BYTES = 1 << 16

names: dict[str, str] = {}
token = ""


class Datagrams(asyncio.DatagramProtocol):
    """The socket of a tunnel of UDP."""

    def __init__(self, relay: "Relay", stream: int) -> None:
        self.relay, self.stream = relay, stream

    def datagram_received(self, data: bytes, _address: object) -> None:
        self.relay.http.send_datagram(self.stream, b"\0" + data)
        self.relay.transmit()


class Relay(QuicConnectionProtocol):
    """One connection of the relay."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.http: H3Connection | None = None
        self.to_tcp: dict[int, asyncio.Queue] = {}
        self.to_udp: dict[int, asyncio.DatagramTransport] = {}
        self.tasks: dict[int, asyncio.Task] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic, enable_webtransport=True)
        if isinstance(event, ConnectionTerminated):
            for stream in list(self.tasks):
                self.end(stream)
        if isinstance(event, StreamReset):
            self.end(event.stream_id)
        if self.http is not None:
            for received in self.http.handle_event(event):
                self.take(received)

    def end(self, stream: int) -> None:
        if task := self.tasks.pop(stream, None):
            task.cancel()
        if transport := self.to_udp.pop(stream, None):
            transport.close()

    def take(self, event: object) -> None:
        if isinstance(event, HeadersReceived):
            fields = {name.decode(): value.decode() for name, value in event.headers}
            self.tasks[event.stream_id] = asyncio.ensure_future(self.opened(event.stream_id, fields))
        elif isinstance(event, DataReceived) and event.stream_id in self.to_tcp:
            self.to_tcp[event.stream_id].put_nowait((event.data, event.stream_ended))
        elif isinstance(event, DatagramReceived) and event.stream_id in self.to_udp and event.data[:1] == b"\0":
            self.to_udp[event.stream_id].sendto(event.data[1:])

    def answer(self, stream: int, status: int, *fields: tuple[bytes, bytes]) -> None:
        self.http.send_headers(stream, [(b":status", str(status).encode()), *fields], end_stream=status != 200)
        self.transmit()

    async def opened(self, stream: int, fields: dict[str, str]) -> None:
        if token and fields.get("proxy-authorization") != f"Bearer {token}":
            return self.answer(stream, 407)
        if fields.get(":protocol") == "connect-udp":
            host, port = fields[":path"].removeprefix(UDP_PATH).rstrip("/").split("/")
            host = urllib.parse.unquote(host)
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: Datagrams(self, stream), remote_addr=(names.get(host, host), int(port))
            )
            self.to_udp[stream] = transport
            return self.answer(stream, 200, (b"capsule-protocol", b"?1"))
        host, _, port = fields[":authority"].rpartition(":")
        self.to_tcp[stream] = asyncio.Queue()
        try:
            reader, writer = await asyncio.open_connection(names.get(host, host).strip("[]"), int(port))
        except ConnectionRefusedError:
            return self.answer(stream, 502, (b"proxy-status", b"relay; error=connection_refused"))
        except OSError:
            return self.answer(stream, 502, (b"proxy-status", b"relay; error=dns_error"))
        self.answer(stream, 200)
        with contextlib.closing(writer):
            await asyncio.gather(self.up(stream, writer), self.down(stream, reader))

    async def up(self, stream: int, writer: asyncio.StreamWriter) -> None:
        ended = False
        while not ended:
            data, ended = await self.to_tcp[stream].get()
            with contextlib.suppress(ConnectionError):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def down(self, stream: int, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(PART_BYTES):
                self.http.send_data(stream, data, end_stream=False)
                self.transmit()
            self.http.send_data(stream, b"", end_stream=True)
        except ConnectionError:
            self._quic.reset_stream(stream, H3_CONNECT_ERROR)
        except FrameUnexpected:
            pass  # the client has given the stream up
        self.transmit()


async def main() -> None:
    global token
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="ADDRESS:PORT")
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--token", default="", help="expected of clients")
    parser.add_argument(
        "--name", action="append", default=[], metavar="NAME=ADDRESS", help="a name that only this relay knows"
    )
    args = parser.parse_args()
    token = args.token
    names.update(pair.split("=", 1) for pair in args.name)

    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=H3_ALPN, idle_timeout=30.0, max_datagram_frame_size=1 << 16
    )
    configuration.load_cert_chain(args.cert, args.key)
    await serve_until_signal(args.listen, configuration, Relay)


if __name__ == "__main__":
    asyncio.run(main())
