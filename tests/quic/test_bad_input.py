# SPDX-License-Identifier: Apache-2.0
"""Mistakes before a transfer and around it: one clear line and its exit code, and nothing left half-done."""

import contextlib
import signal
import socket
import subprocess
import threading

import pytest
import quic_rig
from quic_rig import (
    CONNECT,
    INCOMPLETE,
    INTERRUPTED,
    IO,
    TIMEOUT,
    TLS,
    USAGE,
    Holder,
    client,
)

QUICK = ("--idle-timeout-ms", 1000)


@pytest.fixture(scope="module")
def server(servers):
    """Ours: here the client is what is tested."""
    return servers("weir")


@pytest.fixture(scope="module")
def alone():
    """A namespace with nothing but loopback."""
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    holder = Holder()
    yield holder
    holder.close()


# Certificates and protocols


@pytest.fixture(scope="module")
def serve(authority, tmp_path_factory):
    """Starts weir-server with a certificate; ended with the module."""
    running = []

    def start(made: quic_rig.Certificate, *extra: object) -> quic_rig.Server:
        command = [quic_rig.WEIR_SERVER, "--listen", "127.0.0.1:0", "--cert", made.cert, "--key", made.key, *extra]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        running.append(quic_rig.Server("weir", quic_rig._listening(process), authority.ca, ("h3",), process))
        return running[-1]

    yield start
    for server in running:
        server.close()


def test_an_expired_certificate(serve, authority):
    server = serve(authority.issue("127.0.0.1", ended_days_ago=3))
    server.get("/bytes/1").bad(TLS, server.address, "expired")
    client(server.url("/bytes/1"), "--insecure", "--json").good()


def test_a_certificate_for_another_name(serve, authority):
    server = serve(authority.issue("example.org", "192.0.2.7"))
    server.get("/bytes/1").bad(TLS, server.address, "name")
    named = ["https://example.org/bytes/1", "--connect", server.address]
    client(*named, *server.trust, "--json").good()
    client("https://example.com/bytes/1", *named[1:], *server.trust).bad(TLS, "example.com", "name")
    client(server.url("/bytes/1"), "--insecure", "--json").good()


def test_a_certificate_that_nobody_vouches_for(serve, authority, tmp_path):
    (tmp_path / "other").mkdir()
    other = quic_rig.Authority(tmp_path / "other")
    server = serve(other.issue("127.0.0.1"))
    server.get("/bytes/1").bad(TLS, server.address, "unknown authority")
    client(server.url("/bytes/1")).bad(TLS, server.address, "unknown authority")
    client(server.url("/bytes/1"), "--insecure", "--json").good()
    client(server.url("/bytes/1"), "--ca", other.ca, "--json").good()


def test_a_certificate_of_its_own(serve, tmp_path, authority):
    made = quic_rig.Certificate(tmp_path / "cert", tmp_path / "key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=self", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", made.key, "-out", made.cert],
        check=True, capture_output=True,
    )  # fmt: skip
    server = serve(made)
    server.get("/bytes/1").bad(TLS, server.address, "unknown authority")
    client(server.url("/bytes/1"), "--insecure", "--json").good()


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), (b"junk", "PEM"), (b"", "PEM")])
def test_authorities_that_cannot_be_read(server, tmp_path, content, says):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    client(server.url("/bytes/1"), "--ca", path).bad(IO, str(path), says)


def test_no_protocol_in_common(authority):
    pytest.importorskip("aioquic")
    from scripted import Scripted

    made = authority.issue("127.0.0.1")
    server = Scripted(made.cert, made.key, alpns=("h2",))
    try:
        for alpn in ("h3", "hq-interop"):
            args = [server.url("/bytes/1"), "--insecure", "--alpn", alpn, *QUICK]
            client(*args).bad(TLS, server.address, "protocol")
    finally:
        server.close()


# Datagrams that no server would send


@contextlib.contextmanager
def answering(answer):
    """A UDP port on which each datagram gets the datagrams that answer(datagram) gives."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve():
            with contextlib.suppress(OSError):  # closed at the end
                while True:
                    data, peer = sock.recvfrom(65536)
                    if data == b"end":
                        return
                    for reply in answer(data):
                        sock.sendto(reply, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = sock.getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.sendto(b"end", (host, port))
            thread.join()


def ids(datagram: bytes) -> tuple[bytes, bytes]:
    """Destination and source connection ID of a long header (RFC 8999 5.1)."""
    end = 6 + datagram[5]
    return datagram[6:end], datagram[end + 1 : end + 1 + datagram[end]]


def negotiation(*versions: int):
    """Answers that only these versions are spoken (RFC 9000 17.2.1)."""

    def answer(datagram: bytes) -> list[bytes]:
        destination, source = ids(datagram)
        head = b"\xc0\0\0\0\0" + bytes([len(source)]) + source + bytes([len(destination)]) + destination
        return [head + b"".join(v.to_bytes(4, "big") for v in versions)]

    return answer


@pytest.mark.parametrize("versions", [(0x1A2A3A4A, 0xFF00001D), ()])
def test_a_server_of_other_versions(versions):
    with answering(negotiation(*versions)) as address:
        client(f"https://{address}/bytes/1", "--insecure", *QUICK).bad(TLS, address, "version")


@pytest.mark.parametrize(
    "answer",
    [
        negotiation(1),  # it names the very version asked for: to be ignored (RFC 9000 6.2)
        lambda datagram: [],
        lambda datagram: [datagram],
        lambda datagram: [bytes(1200), b"", b"\xff" * 1200, datagram[:20]],
        lambda datagram: [b"\xf0\0\0\0\1\x10" + bytes(16) + b"\x10" + bytes(16) + b"token" + bytes(16)],
    ],
    ids=["its own version", "nothing", "an echo", "noise", "a retry that is none"],
)
def test_what_is_no_answer(answer):
    with answering(answer) as address:
        ended = client(f"https://{address}/bytes/1", "--insecure", *QUICK)
        ended.bad(TIMEOUT, address)


def test_nobody_there(alone):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{sock.getsockname()[1]}"
    client(f"https://{closed}/bytes/1", "--insecure").bad(CONNECT, closed, "refused")
    client("https://192.0.2.1/bytes/1", "--insecure", where=alone).bad(CONNECT, "192.0.2.1", "unreachable")
    client("https://[2001:db8::1]/bytes/1", "--insecure", where=alone).bad(CONNECT, "2001:db8::1")
    client("https://no-such-host.invalid/bytes/1").bad(CONNECT, "no-such-host.invalid")


def test_a_server_that_forgot_us(authority, tmp_path):
    """A stateless reset (RFC 9000 10.3): killed, and started again with the same key, quic-go knows no connection."""
    if reason := quic_rig.why_not("quic-go"):
        pytest.skip(reason)
    first = quic_rig.quicgo(tmp_path, authority, "127.0.0.1:0", None, "-reset-key", "of both")
    stats = tmp_path / "stats"
    args = [first.url(), *first.trust, "--upload", "--duration-s", 60, "--stats", stats, "--stats-every-ms", 10]
    process = quic_rig.start(*args)
    quic_rig.until(lambda: stats.exists() and any(l["bytes"] > 1e6 for l in quic_rig.lines(stats)), "bytes sent")  # noqa: E741
    first.process.kill()
    first.process.wait()
    second = quic_rig.quicgo(tmp_path, authority, first.address, None, "-reset-key", "of both")
    try:
        quic_rig.ended(process).bad(INCOMPLETE, first.address, "reset")
    finally:
        first.close()
        second.close()


# Addresses


def test_addresses_of_two_families(server):
    port = server.address.rpartition(":")[2]
    bad = client(f"https://[::1]:{port}/bytes/1", "--bind", "127.0.0.1")
    bad.bad(USAGE, "127.0.0.1", "::1", "famil")


def test_an_address_that_is_not_ours(server):
    client(server.url("/bytes/1"), "--bind", "192.0.2.9").bad(IO, "192.0.2.9")


# Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(server, tmp_path, number):
    stats = tmp_path / "stats"
    args = [server.url("/bytes/unlimited"), *server.trust, "--stats", stats, "--stats-every-ms", 10]
    process = quic_rig.start(*args)
    quic_rig.until(lambda: stats.exists() and any(l["bytes"] for l in quic_rig.lines(stats)), "bytes")  # noqa: E741
    process.send_signal(number)
    quic_rig.ended(process).bad(INTERRUPTED, "interrupted")
