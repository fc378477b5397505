# SPDX-License-Identifier: Apache-2.0
"""An exchange on aioquic, client and server: all that QUIC offers an application, at the same time.

The client opens streams. The first line of each says what the server does with it:

  echo            what follows comes back; of a unidirectional stream on one of the server's, after a line "echo ID"
  send LABEL N    N bytes of the content LABEL come
  stop CODE       the server cancels its reading
  reset CODE      some bytes come, then the server cancels its writing
  drop            nothing comes

A cancel that the server sees it reports on a unidirectional stream of its own: "reset ID CODE" or "stop ID CODE". A
DATAGRAM frame comes back with "back" before it. quicgo/exchange is the same on quic-go.

The server prints "listening ADDRESS:PORT" when it is ready and ends on SIGTERM. The client prints what it saw as JSON.
"""

import argparse
import asyncio
import functools
import hashlib
import json
import signal
import ssl
from collections import defaultdict
from dataclasses import dataclass, field

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.client import connect
from aioquic.asyncio.server import QuicServer
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration

ALPN = "exchange"
CHUNK_BYTES = 1 << 16
AHEAD_BYTES = 1 << 19
"""Limit of bulk data under way: aioquic takes all that it is given."""
DATAGRAMS = 50
AGAIN_S = 0.2
"""DATAGRAM frames may be lost: one that is not back is sent again after this time."""
GIVE_UP_S = 45


def content(label: str, size: int) -> bytes:
    return hashlib.shake_128(label.encode()).digest(size)


@dataclass
class Stream:
    """Data of a stream."""

    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None
    stopped: int | None = None


class Party(QuicConnectionProtocol):
    """One end of a connection."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.streams: dict[int, Stream] = defaultdict(Stream)
        self.datagrams: list[bytes] = []
        self.handshake: events.HandshakeCompleted | None = None
        self.terminated: str | None = None
        self.changed = asyncio.Event()

    def quic_event_received(self, event: events.QuicEvent) -> None:
        match event:
            case events.StreamDataReceived():
                self.streams[event.stream_id].data += event.data
                self.streams[event.stream_id].ended |= event.end_stream
            case events.StreamReset():
                self.streams[event.stream_id].reset = event.error_code
            case events.StopSendingReceived():
                self.streams[event.stream_id].stopped = event.error_code
            case events.DatagramFrameReceived():
                self.datagrams.append(event.data)
            case events.HandshakeCompleted():
                self.handshake = event
            case events.ConnectionTerminated():
                self.terminated = f"{event.error_code} {event.reason_phrase}"
        self.changed.set()

    async def until(self, true: "callable") -> None:
        while not true():
            if self.terminated is not None:
                raise ConnectionError(self.terminated)
            self.changed.clear()
            await self.changed.wait()

    async def line(self, stream: int) -> str:
        """Takes the first line off a stream."""
        came = self.streams[stream]
        await self.until(lambda: b"\n" in came.data)
        line, _, rest = came.data.partition(b"\n")
        came.data[:] = rest
        return line.decode()

    def write(self, stream: int, data: bytes, end: bool = False) -> None:
        self._quic.send_stream_data(stream, data, end)
        self.transmit()

    def open(self, first: str, data: bytes = b"", end: bool = False, one_way: bool = False) -> int:
        stream = self._quic.get_next_available_stream_id(is_unidirectional=one_way)
        self.write(stream, first.encode() + b"\n" + data, end)
        return stream

    def cancel_read(self, stream: int, code: int) -> None:
        self._quic.stop_stream(stream, code)
        self.transmit()

    def cancel_write(self, stream: int, code: int) -> None:
        self._quic.reset_stream(stream, code)
        self.transmit()

    def send_datagram(self, data: bytes) -> None:
        self._quic.send_datagram_frame(data)
        self.transmit()


class Server(Party):
    """One connection of the server."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.tasks: dict[int, asyncio.Task] = {}

    def quic_event_received(self, event: events.QuicEvent) -> None:
        super().quic_event_received(event)
        match event:
            case events.DatagramFrameReceived():
                self.send_datagram(b"back" + event.data)
            case events.StreamReset():
                self.open(f"reset {event.stream_id} {event.error_code}", end=True, one_way=True)
            case events.StopSendingReceived():
                self.open(f"stop {event.stream_id} {event.error_code}", end=True, one_way=True)
            case events.StreamDataReceived() if event.stream_id not in self.tasks:
                self.tasks[event.stream_id] = asyncio.create_task(self.serve(event.stream_id))
            case events.ConnectionTerminated():
                for task in self.tasks.values():
                    task.cancel()

    async def serve(self, stream: int) -> None:
        one_way = stream % 4 == 2
        match (await self.line(stream)).split():
            case ["echo"]:
                await self.echo(stream, self.open(f"echo {stream}", one_way=True) if one_way else stream)
            case ["send", label, size]:
                self.write(stream, content(label, int(size)), end=True)
            case ["stop", code]:
                self.cancel_read(stream, int(code))
            case ["reset", code]:
                self.write(stream, content("reset", 5000))
                self.cancel_write(stream, int(code))

    async def echo(self, stream: int, back: int) -> None:
        came = self.streams[stream]
        ended = False
        while not ended:
            await self.until(lambda: came.data or came.ended or came.reset is not None)
            ended, data = came.ended, bytes(came.data)
            if came.reset is not None:
                return
            came.data.clear()
            self.write(back, data, ended)


class Client(Party):
    """The client's connection."""

    async def told(self, what: str) -> None:
        """The server reported a cancel, or opened a stream with this line."""
        await self.until(lambda: any(i % 4 == 3 and came.data.startswith(what.encode() + b"\n")
                                     for i, came in self.streams.items()))  # fmt: skip

    async def bulk(self, size: int, others: asyncio.Event) -> int:
        """Both ways on one stream, so much and until the others are through."""
        stream = self.open("echo")
        came, sent = self.streams[stream], bytearray()

        def has_room() -> bool:
            return len(sent) - len(came.data) < AHEAD_BYTES

        while len(sent) < size or not others.is_set():
            chunk = content(f"bulk {len(sent)}", CHUNK_BYTES)
            sent += chunk
            self.write(stream, chunk)
            await self.until(has_room)
        self.write(stream, b"", end=True)
        await self.until(lambda: came.ended)
        assert came.data == sent, "the bulk came back changed"
        return len(sent)

    async def fetch(self, label: str, size: int) -> int:
        stream = self.open(f"send {label} {size}", end=True)
        came = self.streams[stream]
        await self.until(lambda: came.ended)
        assert came.data == content(label, size), label
        return size

    async def one_way(self, size: int) -> int:
        data = content("one way", size)
        stream = self.open("echo", data, end=True, one_way=True)
        await self.told(f"echo {stream}")
        back = next(c for i, c in self.streams.items() if i % 4 == 3 and c.data.startswith(b"echo %d\n" % stream))
        await self.until(lambda: back.ended)
        assert back.data.partition(b"\n")[2] == data, "one way came back changed"
        return size

    async def exchange_datagrams(self) -> int:
        wanted = {b"back" + data: data for data in (content(f"datagram {i}", 8 + 20 * i) for i in range(DATAGRAMS))}
        while missing := set(wanted) - set(self.datagrams):
            for back in missing:
                self.send_datagram(wanted[back])
            try:
                await asyncio.wait_for(self.until(lambda: set(wanted) <= set(self.datagrams)), AGAIN_S)
            except TimeoutError:
                continue
        assert set(self.datagrams) == set(wanted), "a datagram came that nobody sent"
        return len(wanted)

    async def server_cancels_reading(self, code: int, one_way: bool) -> int:
        stream = self.open(f"stop {code}", content("stop", 100_000), one_way=one_way)
        await self.until(lambda: self.streams[stream].stopped is not None)
        return self.streams[stream].stopped

    async def server_cancels_writing(self, code: int) -> int:
        stream = self.open(f"reset {code}")
        await self.until(lambda: self.streams[stream].reset is not None)
        return self.streams[stream].reset

    async def client_cancels_reading(self, code: int) -> int:
        stream = self.open("send cancelled 4000000")
        await self.until(lambda: self.streams[stream].data)
        self.cancel_read(stream, code)
        await self.told(f"stop {stream} {code}")
        await self.until(lambda: self.streams[stream].reset is not None)
        return self.streams[stream].reset

    async def client_cancels_writing(self, code: int, one_way: bool) -> int:
        stream = self.open("drop", content("drop", 100_000), one_way=one_way)
        self.cancel_write(stream, code)
        await self.told(f"reset {stream} {code}")
        return code

    async def exchange(self, size: int) -> dict:
        others = asyncio.Event()
        bulk = asyncio.create_task(self.bulk(size, others))
        cases = {
            "fetched": self.fetch("fetched", 1_000_000),
            "one_way": self.one_way(300_000),
            "datagrams": self.exchange_datagrams(),
            "server_cancels_reading": self.server_cancels_reading(71, False),
            "server_cancels_reading_one_way": self.server_cancels_reading(72, True),
            "server_cancels_writing": self.server_cancels_writing(73),
            "client_cancels_reading": self.client_cancels_reading(74),
            "client_cancels_writing": self.client_cancels_writing(75, False),
            "client_cancels_writing_one_way": self.client_cancels_writing(76, True),
        }
        seen = dict(zip(cases, await asyncio.gather(*cases.values()), strict=True))
        others.set()
        return {"bulk": await bulk, **seen}


async def resume(open_connection: "callable") -> dict:
    """Two connections. The second asks in its first packets, with the ticket of the first (0-RTT)."""
    tickets = []
    async with open_connection(session_ticket_handler=tickets.append) as client:
        await client.fetch("first", 100_000)
        await client.until(lambda: tickets)
    async with open_connection(session_ticket=tickets[-1], wait_connected=False) as client:
        asked = asyncio.create_task(client.fetch("early", 100_000))
        # on the loop's next turn it has asked, and no answer can be here
        await asyncio.sleep(0)
        assert client.handshake is None
        await asked
        return {"resumed": client.handshake.session_resumed, "early": client.handshake.early_data_accepted}


def configuration(is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(is_client=is_client, alpn_protocols=[ALPN], max_datagram_frame_size=65536)


async def be_client(args: argparse.Namespace) -> None:
    def open_connection(session_ticket=None, **kwargs):
        mine = configuration(is_client=True)
        mine.verify_mode = ssl.CERT_REQUIRED
        mine.load_verify_locations(args.ca)
        mine.session_ticket = session_ticket
        host, _, port = args.connect.rpartition(":")
        return connect(host, int(port), configuration=mine, create_protocol=Client, **kwargs)

    async with asyncio.timeout(GIVE_UP_S):
        if args.resume:
            seen = await resume(open_connection)
        else:
            async with open_connection() as client:
                seen = await client.exchange(args.bytes)
    print(json.dumps(seen))


async def be_server(args: argparse.Namespace) -> None:
    mine = configuration(is_client=False)
    mine.load_cert_chain(args.cert, args.key)
    tickets = {}
    create = functools.partial(
        QuicServer,
        configuration=mine,
        create_protocol=Server,
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
    )
    host, _, port = args.listen.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(create, local_addr=(host, int(port)))
    address, bound, *_ = transport.get_extra_info("sockname")
    print(f"listening {address}:{bound}", flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", help="ADDRESS:PORT: be the server")
    parser.add_argument("--cert", help="certificate chain of the server, PEM")
    parser.add_argument("--key", help="its key, PEM")
    parser.add_argument("--connect", help="ADDRESS:PORT: be the client")
    parser.add_argument("--ca", help="vouches for the server, PEM")
    parser.add_argument("--bytes", type=int, default=0, help="of the bulk, each way, at least")
    parser.add_argument("--resume", action="store_true", help="instead: two connections, 0-RTT on the second")
    args = parser.parse_args()
    asyncio.run(be_server(args) if args.listen else be_client(args))


if __name__ == "__main__":
    main()
