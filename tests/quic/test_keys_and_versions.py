# SPDX-License-Identifier: Apache-2.0
"""Retry, key updates (RFC 9001 6) and versions of QUIC, with aioquic as the peer."""

import asyncio
import ssl

import pytest
import quic_rig
from quic_rig import PATIENCE_S, TLS, client

pytest.importorskip("aioquic")
from aioquic.asyncio.client import connect
from aioquic.h0.connection import H0_ALPN
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion
from echoing import Echoing, Speaker

BYTES = 4_000_000
DATAGRAMS = 100
"""Datagrams between two key updates: the peer has confirmed the first by then (RFC 9001 6.1)."""


@pytest.fixture
def serve(authority):
    """Starts a server with these options."""
    made = authority.issue("127.0.0.1")
    running = []

    def start(**options: object) -> Echoing:
        running.append(Echoing(made.cert, made.key, **options))
        return running[-1]

    yield start
    for server in running:
        server.close()


def test_a_server_that_asks_for_the_address_first(serve, authority):
    """aioquic then accepts no connection without a token of its Retry packets."""
    server = serve(retry=True)
    (flow,) = client(server.url("/bytes/1000"), "--ca", authority.ca, "--json").good()["flows"]
    assert flow["bytes"] == 1000


class Updating(Speaker):
    """Updates its keys again and again."""

    received = updates = 0

    def datagram_received(self, data, addr) -> None:
        super().datagram_received(data, addr)
        Updating.received += 1
        if Updating.received % DATAGRAMS == 0:
            self.request_key_update()
            Updating.updates += 1
            self.transmit()


@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
def test_a_server_updates_its_keys_during_a_transfer(serve, authority, tmp_path, upload):
    Updating.received = Updating.updates = 0
    server = serve(protocol=Updating)
    (tmp_path / "body").write_bytes(b"x" * BYTES)
    options = ["-d", f"@{tmp_path / 'body'}"] if upload else []
    path = "/bytes/0" if upload else f"/bytes/{BYTES}"
    (flow,) = client(server.url(path), "--ca", authority.ca, "--json", *options).good()["flows"]
    assert flow["bytes"] == (0 if upload else BYTES)
    assert Updating.updates > 1


async def download(server: quic_rig.Server) -> int:
    """A download whose client updates its keys at each tenth of it; gives the bytes."""
    configuration = QuicConfiguration(alpn_protocols=H0_ALPN, verify_mode=ssl.CERT_REQUIRED)
    configuration.load_verify_locations(str(server.ca))
    host, _, port = server.address.rpartition(":")
    async with connect(host, int(port), configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(f"GET /bytes/{BYTES}\r\n".encode())
        writer.write_eof()
        total = updates = 0
        while part := await reader.read(BYTES // 10):
            total += len(part)
            if total > (updates + 1) * BYTES // 10:
                updates += 1
                connection.request_key_update()
        return total


def test_a_client_updates_its_keys_during_a_download(authority, tmp_path):
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None)
    try:
        assert asyncio.run(asyncio.wait_for(download(server), PATIENCE_S)) == BYTES
    finally:
        server.close()


def test_a_server_of_version_2_alone(serve, authority):
    """quiche has version 1."""
    server = serve(supported_versions=[QuicProtocolVersion.VERSION_2])
    client(server.url("/bytes/1"), "--ca", authority.ca).bad(TLS, "version")
    both = serve(supported_versions=[QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1])
    client(both.url("/bytes/1"), "--ca", authority.ca, "--json").good()
