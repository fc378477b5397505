# SPDX-License-Identifier: Apache-2.0
"""Hostile local programs at `weir-client proxy`: rubbish, connections that say nothing, a thousand at once."""

import contextlib
import os
import random
import socket
import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("quic", "packet")]

import proxy_rig
import quic_rig
from https_origin import content
from proxy_rig import curl

MANY = 1000
MEMORY_KB = 100_000


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A proxy, and a check that a download through it works."""
    pytest.importorskip("cryptography")
    if not quic_rig.CLIENT.exists():
        pytest.skip(f"{quic_rig.CLIENT} is not built; ./run test builds it")
    authority = quic_rig.Authority(tmp_path_factory.mktemp("authority"))
    origin, relay = proxy_rig.origin(authority), proxy_rig.weir_relay(authority)
    with proxy_rig.running(origin, relay):
        program = proxy_rig.proxy(tmp_path_factory.mktemp("proxy"), authority, relay)
        url = f"https://{relay.name}:{origin.port}/100000"

        def works():
            for protocol in ("socks5h", "http"):
                done = curl(f"{protocol}://{program.address}", url, "--cacert", authority.ca)
                assert done.stdout == content(100_000), done

        program.works = works
        yield program
        assert program.close() == 0
        assert program.said() == ""


def dial(program):
    return socket.create_connection((program.host, program.port), timeout=quic_rig.PATIENCE_S)


def memory_kb(program) -> int:
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_rubbish(parts):
    generator = random.Random(1)
    starts = [
        b"",
        b"\5",
        b"\5\1\0",
        b"\5\1\0\5\1\0\3",
        b"\4",
        b"GET ",
        b"CONNECT ",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"\x16\3\1",
    ]
    for n in range(300):
        with dial(parts) as connection, contextlib.suppress(OSError):
            connection.sendall(starts[n % len(starts)] + generator.randbytes(generator.randrange(3000)))
            if n % 3:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
    parts.works()


def test_a_thousand_that_say_nothing(parts):
    with contextlib.ExitStack() as stack:
        for n in range(MANY):
            connection = stack.enter_context(dial(parts))
            with contextlib.suppress(OSError):
                connection.sendall((b"", b"\5", b"CONNECT x")[n % 3])
        parts.works()
        assert len(os.listdir(f"/proc/{parts.process.pid}/fd")) < 300
        assert memory_kb(parts) < MEMORY_KB
    parts.works()


def test_a_request_byte_by_byte(parts):
    with dial(parts) as connection:
        for byte in b"CONNECT 127.0.0.1:0 HTTP/1.1\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    with dial(parts) as connection, contextlib.suppress(OSError):
        for _ in range(1000):
            connection.sendall(b"x-filler: " + b"y" * 100 + b"\r\n")
    parts.works()


def test_many_tunnels_of_which_nothing_is_read(parts):
    """Unread data of some tunnels does not stop the others."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener, contextlib.ExitStack() as stack:
        target = b"127.0.0.1:%d" % listener.getsockname()[1]
        for _ in range(20):
            connection = stack.enter_context(dial(parts))
            connection.sendall(b"CONNECT " + target + b" HTTP/1.1\r\n\r\n")
            server = stack.enter_context(listener.accept()[0])
            server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while server.send(bytes(1 << 16)):
                    pass
        parts.works()
        assert memory_kb(parts) < 2 * MEMORY_KB


def test_tunnels_that_go_away(parts):
    """Programs that leave before the answer, or reset their connections, leave nothing behind."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        target = b"127.0.0.1:%d" % listener.getsockname()[1]
        for _ in range(200):
            with dial(parts) as connection:
                connection.sendall(b"CONNECT " + target + b" HTTP/1.1\r\n\r\n")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    quic_rig.until(lambda: len(os.listdir(f"/proc/{parts.process.pid}/fd")) < 40, "closed sockets")
    parts.works()
