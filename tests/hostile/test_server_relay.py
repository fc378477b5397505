# SPDX-License-Identifier: Apache-2.0
"""Clients of weir-server --relay that have a token and ask for too much, and targets that do not answer. Memory and
open files stay bounded, and another client is served meanwhile."""

import asyncio
import contextlib
import socket

import pytest
import quic_rig
from hostile_rig import MOST_MB, many, open_files, peak_mb

pytest.importorskip("aioquic")

import masque_rig
from masque_rig import TOKEN, connected, echo, tcp_target, udp_target

LARGE = 64 << 20


@pytest.fixture
def relay(authority, tmp_path):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    options = ("--relay", "--relay-token", token, "--relay-allow", "127.0.0.0/8", "--tunnel-idle-s", 3)
    limits = ("--max-tunnels", 300, "--max-tunnels-per-source", 200)
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, *options, *limits)
    yield server
    server.close()


async def is_served(server) -> bool:
    """Another client echoes through a tunnel."""
    async with connected(server) as client, tcp_target(echo) as port:
        stream = client.tcp(f"127.0.0.1:{port}")
        client.send(stream, b"hello", ends=True)
        return bytes((await client.whole(stream)).body) == b"helloand goodbye"


def test_a_client_that_reads_nothing_holds_no_memory(relay):
    async def pour(_, writer):
        with contextlib.suppress(ConnectionError):
            for _ in range(LARGE >> 16):
                writer.write(bytes(1 << 16))
                await writer.drain()
        writer.close()

    async def run():
        async with connected(relay, max_data=1 << 18, max_stream_data=1 << 12) as slow, tcp_target(pour) as port:
            streams = [slow.tcp(f"127.0.0.1:{port}") for _ in range(60)]
            for stream in streams:
                await slow.answer(stream)
            assert await is_served(relay)

    asyncio.run(run())
    assert peak_mb(relay.process.pid) < MOST_MB


def test_a_target_that_reads_nothing_holds_no_memory(relay):
    async def sleep(*_):
        await asyncio.sleep(60)

    async def run():
        async with connected(relay) as client, tcp_target(sleep) as port:
            for _ in range(20):
                client.send(client.tcp(f"127.0.0.1:{port}"), bytes(4 << 20))
            await asyncio.sleep(2)
            assert await is_served(relay)

    asyncio.run(run())
    assert peak_mb(relay.process.pid) < MOST_MB


def test_targets_that_never_answer(relay):
    """A listener whose backlog is full answers no SYN."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    clients = [socket.socket() for _ in range(4)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(full.getsockname())

    async def run():
        async with connected(relay) as client:
            streams = [client.tcp(f"127.0.0.1:{full.getsockname()[1]}") for _ in range(20)]
            assert await is_served(relay)
            return [await client.whole(stream) for stream in streams]

    for answer in asyncio.run(run()):
        assert (answer.status, answer.fields["proxy-status"]) == (504, "weir; error=connection_timeout")
    for one in (full, *clients):
        one.close()


def test_a_thousand_requests_for_tunnels(relay):
    files = open_files(relay.process.pid)
    count = many(300, 1000)

    async def run():
        async with tcp_target(echo) as port, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(relay)) for _ in range(-(-count // 100))]
            streams = [(clients[n // 100], clients[n // 100].tcp(f"127.0.0.1:{port}")) for n in range(count)]
            answers = [await client.answer(stream) for client, stream in streams]
            statuses = [answer.status for answer in answers]
            refused = {answer.fields["proxy-status"] for answer in answers if answer.status != 200}
            assert (statuses.count(200), set(statuses), refused) == (
                200, {200, 503}, {"weir; error=connection_limit_reached"},
            )  # fmt: skip
            assert open_files(relay.process.pid) < files + 250

    asyncio.run(run())
    quic_rig.until(lambda: open_files(relay.process.pid) <= files + 1, "tunnels of closed connections are closed")
    assert asyncio.run(is_served(relay))


def test_silent_tunnels_are_ended(relay):
    async def run():
        async with connected(relay) as client, tcp_target(echo) as port, udp_target() as udp_port:
            streams = [client.tcp(f"127.0.0.1:{port}"), client.udp("127.0.0.1", udp_port)]
            return [(await client.whole(stream)).reset for stream in streams]

    assert asyncio.run(run()) == [masque_rig.CONNECT_ERROR] * 2


def test_a_rain_of_datagrams(relay):
    """Datagrams of no tunnel, of unknown contexts, and more than a target takes; capsules beyond any size."""

    async def run():
        async with connected(relay) as client, udp_target() as port:
            stream = client.udp("127.0.0.1", port)
            await client.answer(stream)
            for n in range(many(2000, 20_000)):
                client.http.send_datagram((stream, 4000)[n % 2], bytes([n % 3]) * (1 + n % 1000))
                if n % 50 == 0:
                    client.transmit()
                    await asyncio.sleep(0)
            long = client.udp("127.0.0.1", port)
            await client.answer(long)
            client.send(long, b"\x00" + (0xC000 << 48 | 1 << 40).to_bytes(8, "big"))
            reset = (await client.whole(long)).reset
            client.send_datagram(stream, b"last")
            await client.until(
                lambda: b"last" in client.streams[stream].datagrams or client.send_datagram(stream, b"last")
            )
            return reset

    assert asyncio.run(run()) == masque_rig.CONNECT_ERROR
    assert peak_mb(relay.process.pid) < MOST_MB
