# SPDX-License-Identifier: Apache-2.0
"""QUIC programs that know nothing of names, over a link that carries nothing else: weir-icn on both sides."""

import subprocess
import sys

import pytest
import quic_rig
from names_rig import ICN, PHONE, SERVER, converters, interrupted, pair
from quic_rig import PATIENCE_S, ended, start

BYTES = 3_000_000
MODES = pytest.mark.parametrize(
    "mode", [(), ("--reliable",), ("--no-gaps", "--beta", "4")], ids=["plain", "reliable", "timer"]
)

AIOQUIC_CLIENT = """
import asyncio, ssl, sys
from aioquic.asyncio.client import connect
from aioquic.h0.connection import H0_ALPN
from aioquic.quic.configuration import QuicConfiguration

async def main(port, ca, size):
    configuration = QuicConfiguration(alpn_protocols=H0_ALPN, verify_mode=ssl.CERT_REQUIRED)
    configuration.load_verify_locations(ca)
    async with connect("127.0.0.1", port, configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(f"GET /bytes/{size}\\r\\n".encode())
        writer.write_eof()
        body = await reader.read()
    assert body == bytes(size), len(body)

asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


@pytest.fixture(scope="module", params=["weir", "aioquic", "quic-go"])
def server(request, link, authority, tmp_path_factory):
    if reason := quic_rig.why_not(request.param):
        pytest.skip(reason)
    begin = {"weir": quic_rig.weir, "aioquic": quic_rig.aioquic, "quic-go": quic_rig.quicgo}[request.param]
    server = begin(tmp_path_factory.mktemp("server"), authority, "127.0.0.1:4433", link[1])
    yield server
    server.close()


@MODES
def test_our_client_downloads(link, server, mode):
    with converters(link, server.address, *mode) as (port, reports):
        url = f"https://127.0.0.1:{port}/bytes/{BYTES}"
        report = ended(start(url, *server.trust, "--json", where=link[0])).good()
    assert report["flows"][0]["bytes"] == BYTES
    near, far = reports
    assert (near["sessions_opened"], far["sessions_opened"]) == (1, 1)
    assert near["datagrams_given"] >= BYTES // 1500
    assert near["face"]["malformed_frames"] == far["face"]["malformed_frames"] == 0


def test_aioquic_downloads(link, server):
    """Neither end is ours where the server is another's."""
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    with converters(link, server.address) as (port, reports):
        script = [sys.executable, "-c", AIOQUIC_CLIENT, port, server.ca, 300_000]
        done = subprocess.run(link[0].command(*script), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert reports[0]["datagrams_taken"] > 0


def test_many_clients_at_once(link, server):
    with converters(link, server.address) as (port, reports):
        url = f"https://127.0.0.1:{port}/bytes/100000"
        clients = [start(url, *server.trust, "--json", where=link[0]) for _ in range(8)]
        for client in clients:
            assert ended(client).good()["flows"][0]["bytes"] == 100_000
    assert reports[1]["sessions_opened"] == 8


@pytest.fixture
def echo(link):
    """The address of a program on the server's host that sends each datagram back."""
    script = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.bind(('127.0.0.1', 5000))\n"
        "print('ready', flush=True)\n"
        "while True: s.sendto(*s.recvfrom(65535))\n"
    )
    process = link[1].start(sys.executable, "-c", script, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    yield "127.0.0.1:5000"
    process.kill()
    process.communicate()


def test_large_datagrams_and_any_content_come_whole(link, echo):
    """UDP alone: from 1 byte to the most that UDP has."""
    ask = (
        "import socket, sys, random\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.connect(('127.0.0.1', int(sys.argv[1])))\n"
        "s.settimeout(60)\n"
        "for size in (1, 1200, 1468, 1469, 2936, 2937, 9000, 20000, 1200):\n"
        "    data = random.randbytes(size)\n"
        "    s.send(data)\n"
        "    assert s.recv(65535) == data, size\n"
    )
    with converters(link, echo) as (port, _):
        link[0].run(sys.executable, "-c", ask, port)


def test_a_full_disk_ends_the_stats_and_no_session(link, echo):
    ask = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.connect(('127.0.0.1', int(sys.argv[1])))\n"
        "s.settimeout(60)\n"
        "for line in sys.stdin:\n"
        "    s.send(line.encode())\n"
        "    print(s.recv(100).decode(), end='', flush=True)\n"
    )
    with pair(link, echo, "--stats", "/dev/full") as (port, both):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        program = link[0].start(sys.executable, "-c", ask, port, **pipes)
        program.stdin.write("before\n")
        program.stdin.flush()
        assert program.stdout.readline() == "before\n"
        for converter in both:
            line = converter.stderr.readline()
            assert "--stats /dev/full: No space left" in line
            assert "no more is written there" in line
        out, _ = program.communicate("after\n")
        assert out == "after\n"
        for converter in both:
            code, err, report = interrupted(converter)
            assert code == 8
            assert "lines could not be written" in err
            assert report["sessions_opened"] == 1, "the same session all the time"


@MODES
def test_all_datagrams_keep_their_ecn_codepoint(link, mode):
    """The first one too: a QUIC client whose first packets arrive without it takes ECN for broken (RFC 9000 13.4.2)."""
    listen = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)\n"
        "s.bind(('127.0.0.1', 5000))\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    _, ((_, _, tos), *_), _, whom = s.recvmsg(2000, 100)\n"
        "    s.sendto(tos[:1], whom)\n"
    )
    ask = (
        "import socket, sys\n"
        "for tos in (0, 2, 3):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)\n"
        "    s.connect(('127.0.0.1', int(sys.argv[1])))\n"
        "    s.settimeout(60)\n"
        "    came = []\n"
        "    for _ in range(3):\n"
        "        s.send(bytes(1200))\n"
        "        came.append(s.recv(100)[0])\n"
        "    assert came == [tos] * 3, (tos, came)\n"
    )
    process = link[1].start(sys.executable, "-c", listen, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    try:
        with converters(link, "127.0.0.1:5000", *mode) as (port, _):
            link[0].run(sys.executable, "-c", ask, port)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--interface", "none0"], 8, "there is no such interface"),
        (["--interface", "ic", "--as", "phone"], 2, "a name begins with '/'"),
        (["--interface", "ic", "--as", "/weir//phone"], 2, "no part of a name is empty"),
        (["--interface", "ic", "--as", "/" + "a" * 250], 2, "too long"),
        (["--interface", "ic", "--beta", "0"], 2, "from 1 to 100"),
        (["--interface", "ic", "--listen", "192.0.2.1:1"], 8, "--listen 192.0.2.1:1"),
        (["--interface", "ic", "--stats", "/nonexistent/x"], 8, "/nonexistent/x"),
    ],
)
def test_bad_input(link, words, code, text):
    given = dict(zip(words[::2], words[1::2], strict=True))
    options = {"--as": PHONE, "--server": SERVER, "--listen": "127.0.0.1:0", **given}
    done = link[0].run(ICN, "client", *(word for pair in options.items() for word in pair), check=False)
    assert done.returncode == code, done
    assert text in done.stderr
    assert "panicked" not in done.stderr


def test_without_the_right_to_it_says_what_helps(link):
    words = ["client", "--interface", "ic", "--as", PHONE, "--server", SERVER, "--listen", "127.0.0.1:0"]
    done = link[0].run("setpriv", "--bounding-set=-all", "--inh-caps=-all", ICN, *words, check=False)
    if done.returncode == 127 or "setpriv:" in done.stderr:
        pytest.skip(f"setpriv: {done.stderr.strip()}")
    assert done.returncode == 8, done
    assert "CAP_NET_RAW" in done.stderr
    assert "setcap" in done.stderr
