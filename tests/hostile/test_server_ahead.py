# SPDX-License-Identifier: Apache-2.0
"""Clients of weir-server that send ahead of what can be read, and never send what is missing. All together stay below a
budget, counted as what it becomes in memory; who loses packets and sends them again is never closed for them."""

import contextlib
import json
import random
import select
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import quic_rig
from hostile_rig import MOST_MB, many, peak_mb
from raw_quic import RawClient, crypto, stream
from scripted import HEADERS, varint

STREAM_BYTES = 1_000_000
"""Less than a stream's window; a connection's is 1.5 MiB at the beginning."""
LARGE_BYTES = 1300
"""Size of one packet's content."""
PATIENT = ["--idle-timeout-ms", 600_000]
"""Nobody is given up for silence."""
GAVE_WAY = "gave way: held memory for what can't be read yet"


def whole(count: int) -> Iterable[bytes]:
    """Full packets, without the first byte of each stream."""
    for n in range(min(count // 10, 1_500_000 // LARGE_BYTES)):
        number, offset = divmod(n * LARGE_BYTES, STREAM_BYTES)
        yield stream(4 * number, 1 + offset, bytes(LARGE_BYTES))


def bytes_with_gaps(count: int) -> Iterable[bytes]:
    """One byte of every two."""
    return (stream(4 * (n // 8000), 1 + 2 * (n % 8000), b"x") for n in range(count))


def backwards(count: int) -> Iterable[bytes]:
    """The same from the end: nodes of a tree are left as empty as they can be."""
    return (stream(4 * (n // 8000), 16_001 - 2 * (n % 8000), b"x") for n in range(count))


def filled(count: int) -> Iterable[bytes]:
    """The same, and then whole pieces over them, of which the bytes between are new."""
    for number in range(0, count // 4000):
        yield from (stream(4 * number, 1 + 2 * n, b"x") for n in range(2000))
        yield from (stream(4 * number, 1 + n * LARGE_BYTES, bytes(LARGE_BYTES)) for n in range(3))


def overlaps(count: int) -> Iterable[bytes]:
    """Full packets, of each of which one byte is new: hardly any window is used."""
    return (stream(0, 1 + n, bytes(LARGE_BYTES)) for n in range(count // 10))


def handshake(count: int) -> Iterable[bytes]:
    """CRYPTO frames, which flow control does not bound (RFC 9000 7.5)."""
    return (crypto(100 + 2 * n, b"x") for n in range(min(count, 32_000)))


def headers(count: int) -> Iterable[bytes]:
    """Headers of requests of which the last byte is missing."""
    size = 30_000
    for number in range(min(count // 200, 45)):
        text = varint(HEADERS) + varint(size) + bytes(size - 1)
        yield from (stream(4 * number, at, text[at : at + LARGE_BYTES]) for at in range(0, len(text), LARGE_BYTES))


KINDS = [whole, bytes_with_gaps, backwards, filled, overlaps, handshake, headers]


@contextlib.contextmanager
def lossy(address: str, every: int) -> Iterator[str]:
    """The way to a server on which one of so many datagrams is lost, each way, at random. Gives its address."""
    rest, over = random.Random(every), threading.Event()
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.bind(("127.0.0.1", 0))
    host, _, port = address.rpartition(":")
    backs: dict[tuple, socket.socket] = {}

    def carry() -> None:
        fronts: dict[socket.socket, tuple] = {}
        while not over.is_set():
            for ready in select.select([front, *fronts], [], [], 0.05)[0]:
                data, client = ready.recvfrom(65536)
                if ready is front and client not in backs:
                    backs[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    backs[client].connect((host, int(port)))
                    fronts[backs[client]] = client
                if rest.randrange(every) == 0:
                    continue
                with contextlib.suppress(ConnectionRefusedError):
                    if ready is front:
                        backs[client].send(data)
                    else:
                        front.sendto(data, fronts[ready])

    carrying = threading.Thread(target=carry)
    carrying.start()
    try:
        yield ":".join(map(str, front.getsockname()))
    finally:
        over.set()
        carrying.join()
        for one in (front, *backs.values()):
            one.close()


def waits(address: str) -> int:
    """Number of bytes that wait at a UDP port."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    sockets = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(one[4].split(":")[1], 16) for one in sockets if one[1].endswith(port))


def ends(server: quic_rig.Server) -> list[str]:
    """Why connections ended so far."""
    with (server.folder / "stats").open() as stats:
        return [json.loads(line)["reason"] for line in stats if '"k":"end"' in line and line.endswith("\n")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_clients_that_send_ahead_leave_memory_for_others(authority, tmp_path, kind: Callable[[int], Iterable[bytes]]):
    """Together they would hold many times the memory that there is for it. Meanwhile one uploads and one downloads,
    and both lose one packet of fifty."""
    clients, memory_mib, count = many(64, 200), many(2, 64), many(6000, 40_000)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--receive-memory-mib", memory_mib, *PATIENT)
    before_mb = peak_mb(server.process.pid)
    hostile, honest = [], []
    try:
        with lossy(server.address, 50) as address:
            for n in range(clients):
                if n % (clients // 4) == 0:
                    words = [f"https://{address}", *server.trust, "--json"]
                    honest.append(quic_rig.start(*words, "--upload", "--bytes", many("1MB", "10MB")))
                    words[0] += f"/bytes/{many('1MB', '10MB')}"
                    honest.append(quic_rig.start(*words))
                hostile.append(RawClient(server.address, server.ca))
                assert hostile[-1].is_up, hostile[-1].over
                hostile[-1].flood(kind(count))
            for one in honest:
                quic_rig.ended(one).good()
        held_mb = peak_mb(server.process.pid)
        why = ends(server)
        gave_way = why.count(GAVE_WAY)
        print(f"{kind.__name__}: {clients} clients, {memory_mib} MiB: {before_mb:.1f} MB, {held_mb:.1f} MB; {gave_way}")
        # A connection takes some memory of its own, and an allocator leaves gaps.
        assert held_mb < min(MOST_MB, before_mb + 1.5 * memory_mib + 4 + clients * 0.1)
        assert gave_way > 0
        assert set(why) <= {GAVE_WAY, "closed by client"}, "nobody was ended for another reason"
        for one in hostile:
            one.turn()
        told = {one.over.error_code for one in hostile if one.over}
        assert told == {0x107}, "H3_EXCESSIVE_LOAD, for those who still listen"
    finally:
        for one in hostile:
            one.close()
        server.close()


def test_handshakes_that_begin_in_the_middle(authority, tmp_path):
    """Of clients whose addresses nobody has validated: first packets without the beginning of what they say. (More of
    them than 200 would have to prove their addresses first.)"""
    clients, memory_mib = many(64, 190), many(2, 64)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--receive-memory-mib", memory_mib, *PATIENT)
    before_mb = peak_mb(server.process.pid)
    hostile = []
    try:
        for _ in range(clients):
            hostile.append(RawClient(server.address, server.ca, begin_only=True))
            hostile[-1].flood(handshake(32_000))
            quic_rig.until(lambda: not waits(server.address), "the server has read all")
        server.get("/bytes/200kB").good()
        held_mb, gave_way = peak_mb(server.process.pid), ends(server).count(GAVE_WAY)
        print(f"{clients} handshakes, {memory_mib} MiB: {before_mb:.1f} MB, {held_mb:.1f} MB; {gave_way} gave way")
        assert held_mb < min(MOST_MB, before_mb + 1.5 * memory_mib + 4 + clients * 0.1)
        assert gave_way > 0
    finally:
        for one in hostile:
            one.close()
        server.close()
