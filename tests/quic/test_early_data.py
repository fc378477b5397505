# SPDX-License-Identifier: Apache-2.0
"""Resumption and early data (0-RTT) of the library at a server on aioquic, also where the server refuses them."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator

import pytest
import quic_rig

pytest.importorskip("aioquic")
from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, ProtocolNegotiated, QuicEvent
from aioquic.tls import SessionTicket
from aioquic_parts import LoopbackServer

weir_quic = quic_rig.python_module()


class Answering(QuicConnectionProtocol):
    """Answers each request, and records whether it came before the end of the handshake."""

    def __init__(self, server: "EarlyServer", *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.server, self.http, self.is_up = server, None, False

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        elif isinstance(event, HandshakeCompleted):
            self.is_up = True
        for of_http in self.http.handle_event(event) if self.http else ():
            self.answer(of_http)

    def answer(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            self.server.requests.append((dict(event.headers)[b":method"].decode(), not self.is_up))
            body = b"early" if not self.is_up else b"late"
            self.http.send_headers(event.stream_id, [(b":status", b"200"), (b"content-length", b"%d" % len(body))])
            self.http.send_data(event.stream_id, body, end_stream=True)
            self.transmit()


class EarlyServer(LoopbackServer):
    """It takes early data with tickets that it has given and not forgotten."""

    def __init__(self, cert: object, key: object, **options: object) -> None:
        self.tickets: dict[bytes, SessionTicket] = {}
        self.requests: list[tuple[str, bool]] = []
        """Method, and whether the request was early."""
        configuration = QuicConfiguration(is_client=False, alpn_protocols=list(H3_ALPN), verify_mode=ssl.CERT_NONE)
        configuration.load_cert_chain(cert, key)
        super().__init__(
            configuration, lambda *args, **kwargs: Answering(self, *args, **kwargs),
            session_ticket_fetcher=lambda label: self.tickets.pop(label, None),
            session_ticket_handler=lambda ticket: self.tickets.update({ticket.ticket: ticket}), **options,
        )  # fmt: skip


@pytest.fixture
def server(authority) -> Iterator[EarlyServer]:
    made = authority.issue("127.0.0.1", "localhost")
    server = EarlyServer(made.cert, made.key)
    server.ca = authority.ca
    yield server
    server.close()


def client(server: EarlyServer, tickets, paths=(), **settings):
    return weir_quic.Client(list(paths), ca=server.ca, tickets=tickets, **settings)


def first(server: EarlyServer, tickets, **settings) -> None:
    """A connection that brings a ticket."""
    with client(server, tickets, **settings).connect(server.url("/")) as connection:
        assert connection.get("/").read() == b"late"
        assert not connection.status().is_resumed
    assert server.tickets
    server.requests.clear()


def test_a_safe_request_is_early_and_others_wait(server, tmp_path):
    first(server, tmp_path)
    with client(server, tmp_path, ["127.0.0.2"]).connect(server.url("/"), early=True) as connection:
        assert connection.request("GET", "/", early=True).read() == b"early"
        assert connection.request("POST", "/", body=b"x").read() == b"late"
        status = connection.status()
    assert (status.is_resumed, status.is_early_data_accepted) == (True, True)
    assert server.requests == [("GET", True), ("POST", False)]


def test_other_methods_are_never_early(server, tmp_path):
    first(server, tmp_path)
    with client(server, tmp_path).connect(server.url("/"), early=True) as connection:
        assert connection.request("POST", "/", body=b"x").read() == b"late"
        with pytest.raises(weir_quic.UsageError, match="POST in early data"):
            connection.request("POST", "/", early=True)
    assert server.requests == [("POST", False)]


def test_refused_early_data_is_sent_again_after_the_handshake(server, tmp_path):
    """The server has new ticket keys, as after a restart."""
    first(server, tmp_path)
    server.tickets.clear()
    with client(server, tmp_path).connect(server.url("/"), early=True) as connection:
        answers = [connection.request("GET", "/", early=True).read() for _ in range(3)]
        status = connection.status()
    assert answers == [b"late"] * 3
    assert (status.is_resumed, status.is_early_data_accepted) == (False, False)
    assert server.requests == [("GET", False)] * 3


@pytest.mark.parametrize(
    ("paths", "settings"),
    [(["127.0.0.2", "127.0.0.3"], {}), (["127.0.0.2", "127.0.0.3"], {"strategy": "polling"})],
    ids=["weir", "polling"],
)
def test_several_paths_resume_without_early_data(server, tmp_path, paths, settings):
    first(server, tmp_path)
    with client(server, tmp_path, paths, **settings).connect(server.url("/"), early=True) as connection:
        answers = {connection.request("GET", "/", early=True).read() for _ in range(4)}
        assert connection.status().is_resumed
    assert b"late" in answers
    assert {method for method, _ in server.requests} == {"GET"}
    assert len(server.requests) == 4, "no request arrived twice"


SCRIPT = """
import sys, weir_quic
url, ca, tickets = sys.argv[1:]
with weir_quic.Client(ca=ca, tickets=tickets).connect(url, early=True) as connection:
    print(connection.request("GET", "/", early=True).read(), connection.status().is_resumed)
"""


@pytest.mark.parametrize("addresses", [("127.0.0.1", "127.0.0.7"), ("127.0.0.7", "127.0.0.1")], ids=["first", "second"])
def test_a_name_with_several_addresses_resumes(server, tmp_path, authority, addresses):
    """127.0.0.7 is closed."""
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    names = tmp_path / "hosts"
    names.write_text("".join(f"{address} localhost\n" for address in addresses))
    url = f"https://localhost:{server.address.rpartition(':')[2]}/"
    command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', names, sys.executable, "-c"]
    environment = {**os.environ, "PYTHONPATH": str(quic_rig.PYTHON_MODULE)}
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [*command, SCRIPT, url, authority.ca, tmp_path / "tickets"], env=environment, capture_output=True,
            text=True, timeout=quic_rig.PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.strip())
    assert outputs == ["b'late' False", "b'late' True"]
