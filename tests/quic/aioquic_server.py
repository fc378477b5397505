# SPDX-License-Identifier: Apache-2.0
"""A server on aioquic for the tests and the lab: GET /bytes/N and POST /upload over HTTP/3 and over hq-interop. Over
hq-interop also GET /bytes/unlimited; and downloads over the `perf` protocol.

Prints "listening ADDRESS:PORT" when it is ready and ends on SIGTERM. Only aioquic's public interface is used, except
for the fill of a stream's buffer.
"""

import argparse
import asyncio
import json
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h0.connection import H0_ALPN
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ProtocolNegotiated, QuicEvent, StreamDataReceived
from aioquic.quic.logger import QuicLogger
from aioquic_parts import serve_until_signal

HQ_NOT_FOUND = 0x404
MAX_BYTES = 1 << 28
UNLIMITED = "/bytes/unlimited"
BUFFERED_BYTES = 1 << 20
"""Unacknowledged and waiting bytes of an endless stream, more than a window in the lab."""
PART_BYTES = 1 << 16
PERF_ALPN, PERF_HEAD_BYTES = "perf", 8


def size(path: str) -> int | None:
    """N of /bytes/N, if it is one."""
    digits = path.removeprefix("/bytes/")
    good = digits != path and digits.isascii() and digits.isdigit() and len(digits) < 10
    return int(digits) if good and int(digits) <= MAX_BYTES else None


class PlainStreams:
    """hq-interop with bodies: aioquic's own H0Connection takes a request line only if nothing follows it."""

    def __init__(self, quic: QuicConnection) -> None:
        self.quic = quic
        self.lines: dict[int, bytes] = {}
        self.in_body: set[int] = set()

    def handle_event(self, event: QuicEvent) -> list[H3Event]:
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4:
            return []
        stream, data = event.stream_id, event.data
        events = []
        if stream not in self.in_body:
            line, found, data = (self.lines.pop(stream, b"") + data).partition(b"\r\n")
            if not found:
                self.lines[stream] = line
                return []
            self.in_body.add(stream)
            method, _, path = line.partition(b" ")
            events.append(HeadersReceived([(b":method", method), (b":path", path)], stream, stream_ended=False))
        return [*events, DataReceived(data, stream, event.end_stream)]

    def send_headers(self, stream_id: int, headers: list, end_stream: bool) -> None:
        pass

    def send_data(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        self.quic.send_stream_data(stream_id, data, end_stream)


class PerfStreams(PlainStreams):
    """The `perf` protocol (draft-banks-quic-performance): a request is the size of its answer, in eight bytes."""

    def handle_event(self, event: QuicEvent) -> list[H3Event]:
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4 or event.stream_id in self.in_body:
            return []
        head = self.lines.pop(event.stream_id, b"") + event.data
        if len(head) < PERF_HEAD_BYTES:
            self.lines[event.stream_id] = head
            return []
        self.in_body.add(event.stream_id)
        count = int.from_bytes(head[:PERF_HEAD_BYTES], "big")
        path = UNLIMITED if count > MAX_BYTES else f"/bytes/{count}"
        headers = [(b":method", b"GET"), (b":path", path.encode())]
        return [HeadersReceived(headers, event.stream_id, stream_ended=False)]


class Answers(QuicConnectionProtocol):
    """One connection of the server."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.http: H3Connection | PlainStreams | None = None
        self.uploads: dict[int, int] = {}
        self.endless: set[int] = set()

    def datagram_received(self, data: bytes, addr: tuple) -> None:
        super().datagram_received(data, addr)
        if self.endless:
            self.fill()

    def fill(self) -> None:
        """Give endless streams as much as their buffers take."""
        for stream in self.endless & self._quic._streams.keys():
            sender = self._quic._streams[stream].sender
            while sender._buffer_stop - sender._buffer_start < BUFFERED_BYTES:
                self._quic.send_stream_data(stream, bytes(PART_BYTES))
        self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            others = {PERF_ALPN: PerfStreams}
            protocol = H3Connection if event.alpn_protocol in H3_ALPN else others.get(event.alpn_protocol, PlainStreams)
            self.http = protocol(self._quic)
        if self.http is not None:
            for received in self.http.handle_event(event):
                self.answer(received)

    def answer(self, event: HeadersReceived | DataReceived) -> None:
        stream = event.stream_id
        if isinstance(event, HeadersReceived):
            headers = dict(event.headers)
            method = headers.get(b":method", b"").decode("ascii", "replace")
            path = headers.get(b":path", b"").decode("ascii", "replace").partition("?")[0]
            if method == "POST" and path == "/upload":
                self.uploads[stream] = 0
            elif method == "GET" and path == UNLIMITED and isinstance(self.http, PlainStreams):
                self.endless.add(stream)
                self.fill()
            elif method == "GET" and (n := size(path)) is not None:
                self.send(stream, 200, bytes(n))
            elif isinstance(self.http, PlainStreams):
                self._quic.reset_stream(stream, HQ_NOT_FOUND)
            else:
                self.send(stream, 404, b"")
        elif stream in self.uploads:
            self.uploads[stream] += len(event.data)
        if event.stream_ended and stream in self.uploads:
            self.send(stream, 200, str(self.uploads.pop(stream)).encode())

    def send(self, stream: int, status: int, body: bytes) -> None:
        headers = [(b":status", str(status).encode()), (b"content-length", str(len(body)).encode())]
        self.http.send_headers(stream, headers, end_stream=False)
        self.http.send_data(stream, body, end_stream=True)
        self.transmit()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="ADDRESS:PORT")
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--qlog", type=Path, help="write a qlog of all connections here at the end")
    parser.add_argument("--retry", action="store_true", help="validate addresses before the handshake")
    parser.add_argument("--cc", default="reno", help="congestion control: reno, cubic, or one registered with aioquic")
    parser.add_argument("--max-payload", type=int, default=1200, help="UDP payload of all packets (default: 1200)")
    args = parser.parse_args()

    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=[*H3_ALPN, *H0_ALPN, PERF_ALPN], idle_timeout=30.0
    )
    configuration.congestion_control_algorithm = args.cc
    configuration.max_datagram_size = args.max_payload
    configuration.load_cert_chain(args.cert, args.key)
    if args.qlog:
        configuration.quic_logger = QuicLogger()
    await serve_until_signal(args.listen, configuration, Answers, retry=args.retry)
    if args.qlog:
        args.qlog.write_text(json.dumps(configuration.quic_logger.to_dict()))


if __name__ == "__main__":
    asyncio.run(main())
