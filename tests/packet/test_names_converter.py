# SPDX-License-Identifier: Apache-2.0
"""`weir-icn server` and `client` beside UDP programs on a Linux bridge. A stranger there sees every packet, and sends
under any name."""

import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from names_net import PROGRAM, Net, bridged
from names_wire import parsed
from packet_rig import take

from weir.names.packet import DATA, INTEREST, Header, frame
from weir.names.text import name_bits, prefix_bits

SERVER, PHONE = "/weir/web", "/weir/hosts/phone"
PLACES = 1024
LEAST_FRAME_BYTES = 60
WEB, HOST, STRANGER = range(3)
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 4433))
print("ready", flush=True)
while True:
    data, address = s.recvfrom(65536)
    s.sendto(data, address)
"""


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with bridged(tmp_path, subscribers=2) as net:
        start(net, WEB, "ready\n", "/usr/bin/python3", "-c", ECHO)
        start(
            net,
            WEB,
            f"serving {SERVER}\n",
            PROGRAM,
            "server",
            "--interface",
            "e0",
            "--name",
            SERVER,
            "--to",
            "127.0.0.1:4433",
        )
        yield net


def start(net: Net, host: int, line: str, *words: object) -> subprocess.Popen:
    process = net.hosts[host].start(*words, stdout=subprocess.PIPE)
    net.running.append(process)
    assert process.stdout.readline() == line
    return process


@contextmanager
def phone(net: Net) -> Iterator[socket.socket]:
    """A program's socket at an honest client."""
    words = [PROGRAM, "client", "--interface", "e0", "--as", PHONE, "--server", SERVER, "--listen", "127.0.0.1:4433"]
    client = start(net, HOST, "listening 127.0.0.1:4433\n", *words)
    with net.hosts[HOST].inside():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        sock.connect(("127.0.0.1", 4433))
        yield sock
    client.send_signal(signal.SIGINT)
    assert client.wait() == 0


def echoed(sock: socket.socket, tries: int = 40) -> bool:
    """Whether a datagram comes back, asked again as QUIC would."""
    for _ in range(tries):
        sock.send(datagram := os.urandom(200))
        while select.select([sock], [], [], 0.25)[0]:
            if sock.recv(65536) == datagram:
                return True
    return False


def opening(session: int, client: str, datagram: bytes = b"") -> bytes:
    text = client.encode()
    payload = struct.pack("!QB", session, len(text)) + text + datagram
    name = f"{SERVER}/open"
    where = {"prefix": prefix_bits(name), "name": name_bits(name), "segment": session & 0xFFFFFFFF}
    return frame(Header(INTEREST, lifetime=1000, payload_bytes=len(payload), **where), payload)


def answer(session: int, client: str, segment: int, payload: bytes) -> bytes:
    name = f"{client}/{session:016x}"
    where = {"prefix": prefix_bits(name), "name": name_bits(name), "segment": segment}
    return frame(Header(DATA, payload_bytes=len(payload), **where), payload)


def interests(tap: socket.socket, wait_s: float) -> Iterator[Header]:
    """Interests at a tap, until none came for a while."""
    while select.select([tap], [], [], wait_s)[0]:
        raw = take(tap)
        if raw and (packet := parsed(raw)) and packet[0].kind == INTEREST:
            yield packet[0]


@pytest.mark.parametrize("datagram_bytes", [0, 1000])
def test_an_opening_in_anothers_name_draws_three_times_its_bytes(net, datagram_bytes):
    with net.hosts[STRANGER].tap("e0") as tap:
        session, victim = 7 << 40 | 9, "/weir/hosts/victim"
        made = opening(session, victim, bytes(datagram_bytes))
        label = name_bits(f"{victim}/{session:016x}")
        segments = 0
        for count in (1, 2):
            tap.send(made)
            heard = [header for header in interests(tap, 2.5) if header.name == label]
            # A switch makes a frame of each segment.
            segments += sum(1 + header.holes.bit_count() for header in heard)
            assert 0 < segments * LEAST_FRAME_BYTES <= 3 * count * max(LEAST_FRAME_BYTES, len(made))


def hold(tap: socket.socket, first: int, count: int) -> None:
    """Opens sessions under few names, and answers for them: two frames each."""
    for begin in range(first, first + count, 32):
        sessions = [(session, f"/evil/c{session // 400}") for session in range(begin, begin + 32)]
        for session in sessions:
            tap.send(opening(*session))
        time.sleep(0.005)
        for session in sessions:
            tap.send(answer(*session, 0, b"\x40hello"))


def test_a_stranger_does_not_hold_all_places(net):
    with net.hosts[STRANGER].tap("e0") as tap:
        hold(tap, 1, PLACES)
        # Of some the answer came before the Interest.
        hold(tap, PLACES + 1, 64)
        with phone(net) as sock:
            assert echoed(sock)
            # And keeps its place.
            for session in range(2 * PLACES, 4 * PLACES):
                tap.send(opening(session, f"/evil/d{session}"))
            assert echoed(sock)
