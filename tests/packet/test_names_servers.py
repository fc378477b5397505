# SPDX-License-Identifier: Apache-2.0
"""`weir-icn get` at servers that are up and of no use: they close each connection, or never answer."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from names_net import PUBLISHER, Net, bridged

TIMEOUT, CONNECT = 5, 3
"""Exit codes."""

HOSTILE = """
import asyncio, sys
from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived

class Hostile(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.data:
            print("asked", flush=True)
            if sys.argv[3] == "closes":
                self.close(error_code=7)
                self.transmit()

async def main():
    configuration = QuicConfiguration(alpn_protocols=["weir-icn/1"], is_client=False)
    configuration.load_cert_chain(sys.argv[1], sys.argv[2])
    await serve("10.9.0.1", 4435, configuration=configuration, create_protocol=Hostile)
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
AT = "10.9.0.1:4435"


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    pytest.importorskip("aioquic")
    with bridged(tmp_path, subscribers=1) as net:
        yield net


def hostile(net: Net, kind: str) -> subprocess.Popen:
    """A publisher, and beside it such a server, with the same certificate."""
    (net.folder / "files").mkdir()
    (net.folder / "files" / "film").write_bytes(os.urandom(50_000))
    net.publish(net.folder / "files")
    key, rest = (net.folder / "state" / "weir-server.pem").read_text().split("-----BEGIN CERTIFICATE-----", 1)
    (net.folder / "key.pem").write_text(key)
    (net.folder / "chain.pem").write_text("-----BEGIN CERTIFICATE-----" + rest)
    words = [sys.executable, "-c", HOSTILE, net.folder / "chain.pem", net.folder / "key.pem", kind]
    server = net.hosts[0].start(*words, stdout=subprocess.PIPE)
    net.running.append(server)
    assert server.stdout.readline() == "ready\n"
    return server


def asked(server: subprocess.Popen) -> int:
    """Number of requests to the server, which is ended."""
    server.kill()
    return server.stdout.read().count("asked")


def test_a_server_that_closes_each_connection_is_asked_at_intervals_that_grow(net):
    server = hostile(net, "closes")
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--give-up-s", 6, at=AT)
    getter.communicate()
    assert getter.returncode in (TIMEOUT, CONNECT)
    # After 0.25, 0.5, 1, 2, 4 s, each less its jitter of up to a half: 8 in 6 s.
    assert 2 <= asked(server) <= 10


@pytest.mark.parametrize("kind", ["closes", "is silent"])
def test_another_server_is_asked_then(net, kind):
    server = hostile(net, kind)
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--from", PUBLISHER, at=AT)
    out, errors = getter.communicate()
    assert getter.returncode == 0, errors
    assert json.loads(out)["objects"][0]["outcome"] == "complete"
    assert (net.folder / "out").read_bytes() == (net.folder / "files" / "film").read_bytes()
    assert asked(server) >= 1


def test_the_time_after_which_to_give_up_is_that_of_the_ask(net):
    server = hostile(net, "is silent")
    getter = net.get(1, "/weir/files/film", net.folder / "out", "--give-up-s", 2, at=AT)
    getter.communicate(timeout=60)
    assert getter.returncode == TIMEOUT
    assert asked(server) == 1
