# SPDX-License-Identifier: Apache-2.0
"""`weir-client proxy` between curl and a relay: SOCKS5, HTTP CONNECT, UDP, refusals, signals."""

import contextlib
import hashlib
import signal
import socket
import struct
import threading
import time

import proxy_rig
import pytest
import quic_rig
from https_origin import content
from proxy_rig import curl

SIZE = 1_000_000
PROTOCOLS = ["socks5h", "http"]


@pytest.fixture(scope="module")
def origin(authority):
    server = proxy_rig.origin(authority)
    yield server
    server.close()


@pytest.fixture(scope="module", params=proxy_rig.RELAYS)
def relay(request, authority):
    if reason := quic_rig.why_not(request.param):
        pytest.skip(reason)
    server = proxy_rig.RELAYS[request.param](authority)
    yield server
    server.close()


@pytest.fixture(scope="module")
def proxy(authority, relay, tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    program = proxy_rig.proxy(
        folder, authority, relay, "--events", folder / "events", "--path", "127.0.0.2", "--path", "127.0.0.3"
    )
    program.events = folder / "events"
    yield program
    assert program.close() == 0
    assert program.said() == ""


@contextlib.contextmanager
def tcp_server(serve):
    """A TCP server on loopback: its port. `serve` is called with each connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def received(connection: socket.socket) -> bytes:
    """All bytes up to the end."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        assert part, f"{data} and then the end"
        data += part
    return data


def dialled(proxy) -> socket.socket:
    return socket.create_connection((proxy.host, proxy.port), timeout=quic_rig.PATIENCE_S)


def tunnel(proxy, host: str, port: int) -> socket.socket:
    """A tunnel by SOCKS5 to an IPv4 address."""
    connection = dialled(proxy)
    connection.sendall(b"\5\1\0\5\1\0\1" + socket.inet_aton(host) + struct.pack("!H", port))
    assert exactly(connection, 2) == b"\5\0"
    assert exactly(connection, 10)[1] == 0
    return connection


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_downloads_and_uploads(proxy, relay, origin, authority, tmp_path, protocol):
    through, url = f"{protocol}://{proxy.address}", f"https://{relay.name}:{origin.port}"
    # No resolver here knows the name.
    done = curl(through, f"{url}/{SIZE}", "--cacert", authority.ca)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == content(SIZE)
    (tmp_path / "body").write_bytes(content(SIZE))
    done = curl(through, url, "--cacert", authority.ca, "--data-binary", f"@{tmp_path / 'body'}")
    assert done.stdout.decode() == hashlib.sha256(content(SIZE)).hexdigest()


def test_twenty_at_once(proxy, relay, origin, authority):
    through, url = f"socks5h://{proxy.address}", f"https://{relay.name}:{origin.port}/{SIZE // 10}"
    done = curl(through, url, "--parallel", "--cacert", authority.ca, *[url] * 19)
    assert done.returncode == 0
    assert len(done.stdout) == 20 * (SIZE // 10)


def test_each_direction_ends_by_itself(proxy):
    def echo(connection):
        with connection:
            connection.sendall(received(connection))

    with tcp_server(echo) as port, tunnel(proxy, "127.0.0.1", port) as connection:
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection) == b"question"


def test_a_reset_is_passed_on(proxy):
    def reset(connection):
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with tcp_server(reset) as port, tunnel(proxy, "127.0.0.1", port) as connection:
        connection.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            received(connection)


def test_a_slow_reader_stops_the_sender(proxy):
    sent = []

    def flood(connection):
        with contextlib.suppress(OSError):
            while True:
                sent.append(connection.send(bytes(1 << 16)))

    with tcp_server(flood) as port, tunnel(proxy, "127.0.0.1", port) as slow:
        slow.recv(1)
        quic_rig.until(lambda: sent, "bytes")
        # Others go on.
        with (
            tcp_server(lambda connection: connection.sendall(b"y")) as other,
            tunnel(proxy, "127.0.0.1", other) as fast,
        ):
            assert fast.recv(1) == b"y"


def test_paused_downloads_leave_others_running(authority, tmp_path):
    """A fast download gets the largest receive window, which its unread data fills."""

    def flood(connection):
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(bytes(1 << 16))

    relay = proxy_rig.weir_relay(authority)
    program = proxy_rig.proxy(tmp_path, authority, relay)
    with proxy_rig.running(relay, program), tcp_server(flood) as port, contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(tunnel(program, "127.0.0.1", port))
            for _ in range(40):
                exactly(connection, SIZE)


def test_refused_destinations(proxy):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for protocol, code in (("socks5h", b"(5)"), ("http", b"502")):
        done = curl(f"{protocol}://{proxy.address}", f"http://127.0.0.1:{port}/", "--proxytunnel")
        assert done.returncode, done
        assert code in done.stderr, done
    for protocol in PROTOCOLS:
        assert curl(f"{protocol}://{proxy.address}", "http://no-such.invalid/", "--proxytunnel").returncode


def test_many_refusals_cost_no_connection(proxy):
    """Both ends of a refused tunnel's stream end at about the same time."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for _ in range(100):
        with dialled(proxy) as connection:
            connection.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % port)
            assert b" 502 " in received(connection)


def test_plain_http_is_refused(proxy):
    done = curl(f"http://{proxy.address}", "http://example.org/", "--include")
    assert b" 501 " in done.stdout
    assert b"expected CONNECT" in done.stdout


def test_datagrams(proxy):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, dialled(proxy) as control:
        server.bind(("127.0.0.1", 0))
        server.settimeout(quic_rig.PATIENCE_S)
        control.sendall(b"\5\1\0\5\3\0\1\0\0\0\0\0\0")
        assert exactly(control, 2) == b"\5\0"
        answer = exactly(control, 10)
        assert answer[:4] == b"\5\0\0\1"
        to = (socket.inet_ntoa(answer[4:8]), struct.unpack("!H", answer[8:])[0])
        header = b"\0\0\0\1" + socket.inet_aton("127.0.0.1") + struct.pack("!H", server.getsockname()[1])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as program:
            program.settimeout(quic_rig.PATIENCE_S)
            program.sendto(b"\0\0\7" + header[3:] + b"fragment", to)
            program.sendto(b"rubbish", to)
            for n in range(3):
                question = b"question %d" % n
                program.sendto(header + question, to)
                data, back = server.recvfrom(2000)
                assert data == question
                server.sendto(data.upper(), back)
                assert program.recv(2000) == header + data.upper()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                # Another port of this machine has no part in it.
                stranger.sendto(header + b"strange", to)
                program.sendto(header + b"question 9", to)
                while (data := server.recv(2000)) != b"question 9":
                    assert data != b"strange"
    quic_rig.until(lambda: any(line["kind"] == "udp" for line in proxy_rig.events(proxy.events, "tunnel")), "its line")


class Association:
    """A relay of UDP by SOCKS5, and a program that sends to one port of loopback."""

    def __init__(self, proxy, port: int) -> None:
        self.control = dialled(proxy)
        self.control.sendall(b"\5\1\0\5\3\0\1\0\0\0\0\0\0")
        self.proxy = ("127.0.0.1", struct.unpack("!H", exactly(self.control, 12)[10:])[0])
        self.header = b"\0\0\0\1" + socket.inet_aton("127.0.0.1") + struct.pack("!H", port)
        self.program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.program.settimeout(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.close()
        self.control.close()

    def echoed(self) -> bool:
        """Whether a datagram comes back."""
        self.program.sendto(self.header + b"question", self.proxy)
        with contextlib.suppress(TimeoutError):
            return self.program.recv(2000) == self.header + b"question"
        return False


@contextlib.contextmanager
def echo_server(port: int = 0):
    """A UDP server on loopback that sends datagrams back: its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", port))

        def echo():
            with contextlib.suppress(OSError):
                while (part := server.recvfrom(2000))[1]:
                    server.sendto(*part)

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_datagrams_reach_a_port_that_was_closed(proxy):
    with echo_server() as port:
        pass
    with Association(proxy, port) as association:
        # The answer is ICMP, which ends the tunnel of a relay that reports it.
        assert not any(association.echoed() for _ in range(3))
        with echo_server(port):
            quic_rig.until(association.echoed, "an answer")


def test_datagrams_go_on_after_a_lost_relay(authority, tmp_path):
    first = proxy_rig.weir_relay(authority)
    program = proxy_rig.proxy(tmp_path, authority, first)
    try:
        with echo_server() as port, Association(program, port) as association:
            quic_rig.until(association.echoed, "an answer")
            first.close()
            with proxy_rig.running(proxy_rig.weir_relay(authority, listen=first.address)):
                quic_rig.until(association.echoed, "an answer by the other relay")
    finally:
        assert program.close() == 0


def test_events_name_no_destinations(proxy, relay, origin, authority):
    before = len(proxy_rig.events(proxy.events, "tunnel"))
    curl(f"socks5h://{proxy.address}", f"https://{relay.name}:{origin.port}/1000", "--cacert", authority.ca)
    quic_rig.until(lambda: len(proxy_rig.events(proxy.events, "tunnel")) > before, "the tunnel's line")
    line = proxy_rig.events(proxy.events, "tunnel")[-1]
    assert (line["kind"], line["outcome"]) == ("tcp", "complete")
    assert line["down_bytes"] > 1000
    assert relay.name not in proxy.events.read_text()
    assert line["path"] in ("127.0.0.2", "127.0.0.3")


def test_user_and_password(authority, relay, origin, tmp_path):
    proxy_rig.secret(tmp_path / "auth", "user:pass-word")
    program = proxy_rig.proxy(tmp_path, authority, relay, "--auth", tmp_path / "auth", listen="0.0.0.0:0")
    url = f"https://{relay.name}:{origin.port}/1000"
    with proxy_rig.running(program):
        for protocol in PROTOCOLS:
            for user, good in (("user:pass-word", True), ("user:other", False), (None, False)):
                at = f"{user}@" if user else ""
                done = curl(f"{protocol}://{at}127.0.0.1:{program.port}", url, "--cacert", authority.ca)
                assert (done.stdout == content(1000)) is good, (protocol, user, done)


def test_a_wrong_token_is_reported_once(authority, relay, tmp_path):
    program = proxy_rig.proxy(tmp_path, authority, relay, token="wrong")
    for protocol in PROTOCOLS:
        assert curl(f"{protocol}://{program.address}", "https://127.0.0.1:9/").returncode
    program.close()
    assert len(program.said().splitlines()) == 1
    assert "--token" in program.said()


def test_command_lines(authority, relay, tmp_path):
    run = lambda *args: quic_rig.client("proxy", "--relay", f"https://{relay.address}", "--ca", authority.ca, *args)  # noqa: E731
    run("--listen", "0.0.0.0:0").bad(quic_rig.USAGE, "--auth")
    run("--qlog-dir", tmp_path).bad(quic_rig.USAGE, "--qlog-dir")
    run("--path", "no-such-interface").bad(quic_rig.PATHS, "no-such-interface")
    run("--token", tmp_path / "none").bad(quic_rig.IO, "--token")
    for option in ("--token", "--auth"):
        seen_by_others = proxy_rig.secret(tmp_path / "seen", "user:password-of-the-tests")
        seen_by_others.chmod(0o644)
        run(option, seen_by_others).bad(quic_rig.IO, f"{option} {seen_by_others}")
    nobody = quic_rig.client(
        "proxy", "--relay", "https://127.0.0.1:9", "--listen", "127.0.0.1:0", "--idle-timeout-ms", 500
    )
    assert nobody.code in (quic_rig.CONNECT, quic_rig.TIMEOUT)
    assert len(nobody.err.splitlines()) == 1
    untrusted = quic_rig.client("proxy", "--relay", f"https://{relay.address}", "--listen", "127.0.0.1:0")
    untrusted.bad(quic_rig.TLS)
    assert "socks5h://" in quic_rig.client("proxy", "--help").out


@pytest.mark.parametrize("kind", proxy_rig.RELAYS)
def test_a_lost_relay_resets_tunnels_and_comes_back(authority, origin, tmp_path, kind):
    if reason := quic_rig.why_not(kind):
        pytest.skip(reason)
    start = proxy_rig.RELAYS[kind]
    first = start(authority)
    program = proxy_rig.proxy(tmp_path, authority, first)
    try:
        with tcp_server(lambda connection: time.sleep(60)) as port, tunnel(program, "127.0.0.1", port) as connection:
            first.close()
            with pytest.raises(ConnectionResetError):
                received(connection)
        second = start(authority, listen=first.address)
        with proxy_rig.running(second):
            url = f"https://{second.name}:{origin.port}/1000"
            quic_rig.until(
                lambda: curl(f"socks5h://{program.address}", url, "--cacert", authority.ca).stdout == content(1000),
                "a download over the new connection",
            )
    finally:
        assert program.close() == 0
    assert "lost" in program.said()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_signals(authority, relay, tmp_path, number):
    program = proxy_rig.proxy(tmp_path, authority, relay)
    with tcp_server(lambda connection: time.sleep(60)) as port, tunnel(program, "127.0.0.1", port) as connection:
        assert program.close(number) == (quic_rig.INTERRUPTED if number == signal.SIGINT else 0)
        with pytest.raises(ConnectionResetError):
            received(connection)
