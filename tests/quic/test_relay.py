# SPDX-License-Identifier: Apache-2.0
"""Tunnels of weir-server --relay: CONNECT and CONNECT-UDP, with a client on aioquic and real targets."""

import asyncio
import hashlib
import http.server
import random
import socket
import threading

import pytest
import quic_rig
from quic_rig import lines

pytest.importorskip("aioquic")

import masque_rig
from masque_rig import CONNECT_ERROR, TOKEN, connected, echo, tcp_target, udp_target

LOOPBACK = ("--relay-allow", "127.0.0.0/8", "--relay-allow", "[::1]")


@pytest.fixture
def relay(authority, tmp_path):
    """Starts a relay with these options; loopback is allowed."""
    running = []

    def start(*options: object, allow: tuple = LOOPBACK) -> quic_rig.Server:
        token = tmp_path / "token"
        token.write_text(f"{TOKEN}\n")
        token.chmod(0o600)
        options = ("--relay", "--relay-token", token, *allow, *options)
        running.append(quic_rig.weir(tmp_path, authority, "127.0.0.1:0", None, *options))
        return running[-1]

    yield start
    for server in running:
        server.close()


def counts(server: quic_rig.Server) -> dict:
    server.close()
    return next(line for line in lines(server.folder / "stats") if line["k"] == "tunnels")


def test_bytes_go_both_ways_and_each_half_ends_alone(relay):
    server = relay()
    sent = random.Random(1).randbytes(3_000_000)

    async def exchange():
        async with connected(server) as client, tcp_target(echo) as port:
            stream = client.tcp(f"127.0.0.1:{port}")
            client.send(stream, sent[:100])
            assert (await client.answer(stream)).status == 200
            client.send(stream, sent[100:], ends=True)
            answer = await client.whole(stream)
            assert answer.reset is None
            assert bytes(answer.body) == sent + b"and goodbye"

    asyncio.run(exchange())
    told = counts(server)
    assert (told["tunnels"], told["refused"], told["broken"]) == (1, 0, 0)
    assert (told["to_target_bytes"], told["to_client_bytes"]) == (len(sent), len(sent) + len(b"and goodbye"))


def test_a_target_that_ends_first_is_still_written_to(relay):
    async def exchange():
        took = asyncio.get_running_loop().create_future()

        async def serve(reader, writer):
            writer.write(b"hello")
            writer.write_eof()
            took.set_result(await reader.read())
            writer.close()

        async with connected(relay()) as client, tcp_target(serve) as port:
            stream = client.tcp(f"127.0.0.1:{port}")
            answer = await client.whole(stream)
            assert bytes(answer.body) == b"hello"
            client.send(stream, b"after the end", ends=True)
            return await asyncio.wait_for(took, quic_rig.PATIENCE_S)

    assert asyncio.run(exchange()) == b"after the end"


class Files(http.server.BaseHTTPRequestHandler):
    """An HTTP server of one resource."""

    content = random.Random(2).randbytes(2_000_000)

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_):
        pass


def test_http_over_a_tunnel(relay):
    target = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=target.serve_forever, daemon=True).start()

    async def exchange():
        async with connected(relay()) as client:
            stream = client.tcp(f"127.0.0.1:{target.server_port}")
            client.send(stream, b"GET / HTTP/1.0\r\n\r\n", ends=True)
            return bytes((await client.whole(stream)).body)

    head, _, body = asyncio.run(exchange()).partition(b"\r\n\r\n")
    target.shutdown()
    assert head.startswith(b"HTTP/1.0 200")
    assert hashlib.sha256(body).digest() == hashlib.sha256(Files.content).digest()


def test_a_target_that_breaks_off_resets_the_stream(relay):
    async def serve(_, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def exchange():
        async with connected(relay()) as client, tcp_target(serve) as port:
            return (await client.whole(client.tcp(f"127.0.0.1:{port}"))).reset

    assert asyncio.run(exchange()) == CONNECT_ERROR


@pytest.mark.parametrize("lost", ["stream", "connection"])
def test_a_client_that_breaks_off_resets_the_connection(relay, lost):
    broken = []

    async def exchange():
        ended = asyncio.Event()

        async def serve(reader, _):
            try:
                await reader.read()
            except ConnectionResetError:
                broken.append(True)
            ended.set()

        async with connected(relay()) as client, tcp_target(serve) as port:
            stream = client.tcp(f"127.0.0.1:{port}")
            await client.answer(stream)
            if lost == "stream":
                client.reset(stream)
            else:
                client.close()
            await asyncio.wait_for(ended.wait(), quic_rig.PATIENCE_S)

    asyncio.run(exchange())
    assert broken


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_go_both_ways(relay, host):
    async def exchange():
        async with connected(relay()) as client, udp_target(host) as port:
            assert client.http.received_settings[8] == client.http.received_settings[0x33] == 1
            stream = client.udp(host, port)
            answer = await client.answer(stream)
            assert (answer.status, answer.fields["capsule-protocol"]) == (200, "?1")
            sent = [bytes(n) for n in (1, 500, 1000)]
            for payload in sent:
                client.send_datagram(stream, payload)
                # Loss is possible on any network, so one at a time.
                await client.until(lambda payload=payload: payload in answer.datagrams)
            client.send(stream, b"", ends=True)
            assert (await client.whole(stream)).reset is None

    asyncio.run(exchange())


def test_large_datagrams_go_in_capsules(relay):
    payload = random.Random(3).randbytes(9000)
    length = (0x4000 | len(payload) + 1).to_bytes(2, "big")
    capsule = masque_rig.DATAGRAM_CAPSULE + length + b"\x00" + payload

    async def exchange():
        async with connected(relay()) as client, udp_target() as port:
            stream = client.udp("127.0.0.1", port)
            await client.answer(stream)
            # An unknown capsule before it is skipped.
            client.send(stream, b"\x2f\x03abc" + capsule)
            await client.until(lambda: len(client.streams[stream].body) >= len(capsule))
            return bytes(client.streams[stream].body)

    assert asyncio.run(exchange()) == capsule


REFUSED = {
    "127.0.0.1:1": (502, "connection_refused"),
    "localhost:1": (502, "connection_refused"),
    "[::1]:1": (502, "destination_ip_prohibited"),
    "10.1.2.3:1": (502, "destination_ip_prohibited"),
    "169.254.169.254:80": (502, "destination_ip_prohibited"),
    "0x7f.2:1": (502, "destination_ip_prohibited"),
    "[::ffff:127.0.0.2]:1": (502, "destination_ip_prohibited"),
    "no-such-name.invalid:443": (502, "dns_error"),
    "127.0.0.1:25": (403, "http_request_denied"),
    "192.0.2.1:25": (403, "http_request_denied"),
    "127.0.0.1:0": (400, "http_request_error"),
    "127.0.0.1": (400, "http_request_error"),
    "a%2fb:1": (400, "http_request_error"),
}


def test_refused_destinations(relay):
    server = relay(allow=("--relay-allow", "127.0.0.1", "--relay-allow", "public"))

    async def ask():
        async with connected(server) as client:
            streams = {target: client.tcp(target) for target in REFUSED}
            return {target: await client.whole(stream) for target, stream in streams.items()}

    for target, answer in asyncio.run(ask()).items():
        status, error = REFUSED[target]
        assert (target, answer.status, answer.fields["proxy-status"]) == (target, status, f"weir; error={error}")
    assert counts(server)["refused"] == len(REFUSED)


def test_a_name_that_is_allowed_opens_no_private_address(relay):
    async def ask():
        async with connected(relay(allow=("--relay-allow", "localhost:443"))) as client:
            answers = [await client.whole(client.tcp(f"localhost:{port}")) for port in (443, 80)]
            return [(answer.status, answer.fields["proxy-status"]) for answer in answers]

    prohibited, denied = asyncio.run(ask())
    assert prohibited == (502, "weir; error=destination_ip_prohibited")
    assert denied == (403, "weir; error=http_request_denied")


def test_clients_without_a_token_reach_nothing(relay):
    async def ask():
        async with connected(relay()) as client, tcp_target(echo) as port:
            wrong = [None, "", TOKEN[:-1], TOKEN + "0", TOKEN.upper()]
            streams = [client.tcp(f"127.0.0.1:{port}", token) for token in wrong] + [client.udp("127.0.0.1", port, "x")]
            return [await client.whole(stream) for stream in streams]

    for answer in asyncio.run(ask()):
        assert (answer.status, answer.fields["proxy-authenticate"]) == (407, "Bearer")


def test_a_silent_tunnel_does_not_keep_a_server_from_ending(relay):
    server = relay("--grace-s", 86_400)

    async def exchange():
        async with connected(server) as client, tcp_target(echo) as port:
            await client.answer(client.tcp(f"127.0.0.1:{port}"))
            await asyncio.to_thread(server.close)

    asyncio.run(exchange())
    assert server.process.returncode == 0


def test_without_the_option_there_are_no_tunnels(authority, tmp_path):
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0")

    async def ask():
        async with connected(server) as client:
            assert client.http.received_settings.get(8, 0) == 0
            return (await client.whole(client.tcp("127.0.0.1:1"))).status

    try:
        assert asyncio.run(ask()) == 405
    finally:
        server.close()


@pytest.mark.parametrize(
    ("token", "mode", "said"),
    [("short", 0o600, "at least 16"), (TOKEN, 0o644, "chmod 600"), (None, 0o600, "--relay-token")],
)
def test_a_relay_without_a_good_token_does_not_start(tmp_path, token, mode, said):
    if token:
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(mode)
    given = ["--relay-token", tmp_path / "token"] if token else []
    command = [quic_rig.WEIR_SERVER, "--listen", "127.0.0.1:0", "--ephemeral", "--relay", *given]
    done = quic_rig.subprocess.run(command, capture_output=True, text=True, timeout=quic_rig.PATIENCE_S, check=False)
    assert done.returncode in (quic_rig.USAGE, quic_rig.IO)
    assert said in done.stderr
