# SPDX-License-Identifier: Apache-2.0
"""Datagrams at weir-server that no client would send. Its resident memory stays below 256 MB, and clients are served
while it rains. (What it answers to whom: quic-client/endpoint/tests/it/attack.rs.)"""

import contextlib
import json
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import quic_rig
from hostile_rig import MOST_MB, many, open_files, peak_mb

from weirlab.bench.hostile import datagrams

SEED = 23


@pytest.mark.parametrize("kind", datagrams.KINDS, ids=lambda kind: kind.__name__)
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


WINDOWS = [word for kind in ("stream", "max-stream", "conn", "max-conn") for word in (f"--{kind}-window", "64MiB")]
"""Room for all that the server would send."""


def newest(folder: Path) -> list[dict]:
    """The newest samples of a server."""
    return [json.loads(line) for line in (folder / "stats").read_bytes()[-100_000:].split(b"\n")[1:-1]]


@contextlib.contextmanager
def stopped_clients(server: quic_rig.Server, count: int) -> Iterator[None]:
    """Each offers the largest windows, asks for what never ends, and stops when it has its congestion window open, so
    that as much as can be is under way to it."""
    clients = []
    try:
        for n in range(count):
            clients.append(quic_rig.start(server.url("/bytes/unlimited"), *server.trust, *WINDOWS, "-q"))
            quic_rig.until(
                lambda n=n: any(one["conn"] == n and one["bytes"] > 1e6 for one in newest(server.folder)), "its bytes"
            )
            clients[-1].send_signal(signal.SIGSTOP)
        yield
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def test_validated_clients_that_hold_what_they_can(authority, tmp_path):
    """The server's memory for them stays below its bound; a client that comes while they have all slots is told so, and
    is served once they are given up."""
    places = many(16, 64)
    server = quic_rig.weir(
        tmp_path, authority, "127.0.0.1:0", None, "--max-connections", places, "--idle-timeout-ms", 10000
    )
    try:
        with stopped_clients(server, places):
            refused = server.get("/bytes/200kB")
            held_mb = peak_mb(server.process.pid)
            print(f"{places} clients: {held_mb:.1f} MB")
            assert held_mb < MOST_MB
            if refused.code != quic_rig.OK:  # else one of the first has been given up by then
                assert refused.code == quic_rig.CONNECT, refused
            quic_rig.until(lambda: server.get("/bytes/20MB").code == quic_rig.OK, "a place that is given up")
            assert server.process.poll() is None
    finally:
        server.close()


def test_clients_that_take_no_more_leave_memory_for_those_who_do(authority, tmp_path):
    """Together they could hold many times the memory that the server has for what it sends."""
    clients, memory_mib = many(12, 200), many(4, 128)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, "--send-memory-mib", memory_mib)
    before_mb = peak_mb(server.process.pid)
    try:
        with stopped_clients(server, clients):
            for alpn in ("h3", "hq-interop"):
                assert server.get("/bytes/50MB", "--alpn", alpn).good()["total"]["bytes"] == 50_000_000
            held_mb = peak_mb(server.process.pid)
            with (tmp_path / "stats").open() as stats:
                ends = [json.loads(line)["reason"] for line in stats if '"k":"end"' in line]
            gave_way = sum(reason.startswith("gave way") for reason in ends)
            print(f"{clients} clients, {memory_mib} MiB: {before_mb:.1f} MB, {held_mb:.1f} MB; {gave_way} gave way")
            # A connection takes some memory of its own, and an allocator leaves gaps.
            assert held_mb < min(MOST_MB, before_mb + 2 * memory_mib + clients * 0.25)
            assert gave_way + 2 >= len(ends), "nobody else was ended"
    finally:
        server.close()
