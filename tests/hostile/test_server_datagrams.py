# SPDX-License-Identifier: Apache-2.0
"""Datagrams at weir-server that no client would send. Its resident memory stays below 256 MB, and clients are served
while it rains. (What it answers to whom: quic-client/endpoint/tests/attack.rs.)"""

import contextlib
import json
import random
import signal
import socket
import threading
import time

import pytest
import quic_rig
from hostile_rig import MOST_MB, many, open_files, peak_mb

SEED = 23
LEAST_INITIAL_BYTES = 1200
"""RFC 9000 14.1."""


def long_header(rest: random.Random, version: int, dcid_bytes: int = 8, bytes_: int = LEAST_INITIAL_BYTES) -> bytes:
    """A first packet of noise, as well formed as can be seen without keys (RFC 9000 17.2.2)."""
    head = bytes([0xC3]) + version.to_bytes(4, "big")
    head += bytes([dcid_bytes]) + rest.randbytes(dcid_bytes) + bytes([8]) + rest.randbytes(8) + b"\0"
    left = bytes_ - len(head) - 2
    return head + (0x4000 | left).to_bytes(2, "big") + rest.randbytes(left)


def garbage(rest: random.Random) -> bytes:
    return rest.randbytes(rest.choice([0, 1, 2, 20, 100, 1200, 1472]))


def half_open(rest: random.Random) -> bytes:
    return long_header(rest, 1)


def versions(rest: random.Random) -> bytes:
    return long_header(rest, rest.choice([0, 2, 0x0A0A0A0A, rest.randrange(1 << 32)]))


def odd_ids(rest: random.Random) -> bytes:
    return long_header(rest, 1, rest.choice([0, 1, 7, 20, 21, 255]))


def short_headers(rest: random.Random) -> bytes:
    return bytes([0x40 | rest.randrange(64)]) + rest.randbytes(rest.choice([10, 40, 1200]))


def mutated_initials(rest: random.Random) -> bytes:
    datagram = bytearray(long_header(rest, 1))
    for _ in range(rest.randrange(1, 8)):
        datagram[rest.randrange(40)] = rest.randrange(256)
    return bytes(datagram)


@pytest.mark.parametrize(
    "kind", [garbage, half_open, versions, odd_ids, short_headers, mutated_initials], ids=lambda kind: kind.__name__
)
def test_a_rain_of_datagrams(server, kind):
    """From many ports, each a stranger of its own."""
    host, port = server.address.rsplit(":", 1)
    before = open_files(server.process.pid)
    over = threading.Event()
    sent = [0]

    def rain() -> None:
        rest = random.Random(SEED)
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(64)]
            least, most = many(2_000, 200_000), many(20_000, 2_000_000)
            while sent[0] < most and not (over.is_set() and sent[0] >= least):
                sockets[sent[0] % 64].sendto(kind(rest), (host, int(port)))
                sent[0] += 1

    raining = threading.Thread(target=rain)
    raining.start()
    try:
        for alpn in ("h3", "hq-interop"):
            server.get("/bytes/200kB", "--alpn", alpn).good()
    finally:
        over.set()
        raining.join()
    server.get("/bytes/200kB").good()
    assert peak_mb(server.process.pid) < MOST_MB, sent
    assert open_files(server.process.pid) <= before + 1
    assert server.process.poll() is None


def test_clients_that_vanish(server):
    """Killed in the middle of a download, each leaves a connection behind that the server must give up by itself."""
    for _ in range(many(3, 20)):
        clients = [quic_rig.start(server.url("/bytes/unlimited"), *server.trust, "-q") for _ in range(many(8, 16))]
        time.sleep(0.3)
        for client in clients:
            client.kill()
            client.communicate()
    server.get("/bytes/200kB").good()
    assert peak_mb(server.process.pid) < MOST_MB


def test_validated_clients_that_hold_what_they_can(authority, tmp_path):
    """Each offers the largest windows, asks for what never ends, and takes no more. What the server keeps for them
    stays below its bound; who comes while they have all places is told so, and is served once they are given up."""
    places = many(16, 40)
    server = quic_rig.weir(
        tmp_path, authority, "127.0.0.1:0", None, "--max-connections", places, "--idle-timeout-ms", 10000
    )
    windows = ["--stream-window", "64MiB", "--max-stream-window", "64MiB"]
    windows += ["--conn-window", "64MiB", "--max-conn-window", "64MiB"]
    clients = []

    def sent() -> list[dict]:
        newest = (tmp_path / "stats").read_bytes()[-100_000:].split(b"\n")[1:-1]
        return [json.loads(line) for line in newest]

    try:
        for n in range(places):
            clients.append(quic_rig.start(server.url("/bytes/unlimited"), *server.trust, *windows, "-q"))
            # of one that has opened its congestion window, so that much is under way to it
            quic_rig.until(lambda n=n: any(one["conn"] == n and one["bytes"] > 1e6 for one in sent()), "its bytes")
            clients[-1].send_signal(signal.SIGSTOP)
        refused = server.get("/bytes/200kB")
        held_mb = peak_mb(server.process.pid)
        print(f"{places} clients: {held_mb:.1f} MB")
        assert held_mb < MOST_MB
        if refused.code != quic_rig.OK:  # else one of the first has been given up by then
            assert refused.code == quic_rig.CONNECT, refused
        quic_rig.until(lambda: server.get("/bytes/200kB").code == quic_rig.OK, "a place that is given up")
        assert server.process.poll() is None
    finally:
        for client in clients:
            client.kill()
            client.communicate()
        server.close()
