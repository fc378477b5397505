# SPDX-License-Identifier: Apache-2.0
"""--aggregate: one object over several connections, each on its path: every byte once, or an error and no file."""

import contextlib
import random
import re
import time

import pytest
import quic_rig
from quic_rig import INCOMPLETE, NOT_SERVED, USAGE, client
from roads import FAR, break_road, two_roads

pytest.importorskip("aioquic")

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic_parts import LoopbackServer

CONTENT = random.Random(1).randbytes(4_000_000)
LOCAL = ["127.0.0.2", "127.0.0.3"]
CHANGED_AFTER = 3
"""Answers before the object of a server that changes it does so."""


def on(paths: list[str], *more: object) -> list[object]:
    return [*(word for path in paths for word in ("--path", path)), *more]


class Ranges(QuicConnectionProtocol):
    """Serves CONTENT to any GET, in the manner that the server has."""

    def __init__(self, server: "RangeServer", *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.server = server
        self.http: H3Connection | None = None

    def quic_event_received(self, event) -> None:
        self.http = self.http or H3Connection(self._quic)
        for each in self.http.handle_event(event):
            if isinstance(each, HeadersReceived):
                self.answer(each.stream_id, dict(each.headers))
        self.transmit()

    def answer(self, stream: int, fields: dict[bytes, bytes]) -> None:
        manner, size = self.server.manner, len(CONTENT)
        self.server.asked.append(fields.get(b"range", b"").decode())
        number = len(self.server.asked)
        tag = b'"v2"' if manner == "changes" and number > CHANGED_AFTER else b'"v1"'
        headers = [(b"etag", b"W/" + tag if manner == "weak" else tag)]
        first, last, status = 0, size - 1, 200
        found = re.fullmatch(rb"bytes=(\d+)-(\d*)", fields.get(b"range", b""))
        if found and manner != "plain":
            first, status = int(found[1]), 206
            last = min(int(found[2] or last), last)
            if manner == "shifted" and first:
                first -= 1
            headers.append((b"content-range", f"bytes {first}-{last}/{size}".encode()))
        if manner == "refuses" and number > 1:
            status, first, last = 503, 0, -1
        body = CONTENT[first : last + 1]
        headers.append((b"content-length", str(len(body)).encode()))
        self.http.send_headers(stream, [(b":status", str(status).encode()), *headers])
        self.http.send_data(stream, body, True)


class RangeServer(LoopbackServer):
    """A server on aioquic."""

    def __init__(self, made: quic_rig.Certificate) -> None:
        self.manner, self.asked = "ranges", []
        configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
        configuration.load_cert_chain(made.cert, made.key)
        super().__init__(configuration, lambda *args, **kwargs: Ranges(self, *args, **kwargs))


@pytest.fixture
def server(authority):
    server = RangeServer(authority.issue("127.0.0.1"))
    with contextlib.closing(server):
        yield server


def fetch(server, authority, file, manner: str, *more: object):
    server.manner = manner
    server.asked.clear()
    args = on(LOCAL, "--ca", authority.ca, "--json", "-o", file, "--idle-timeout-ms", 8000, *more)
    return client(server.url("/file"), *args)


def test_ranges_of_a_server_of_others(server, authority, tmp_path):
    file = tmp_path / "file"
    aggregate = fetch(server, authority, file, "ranges", "--aggregate").good()["aggregate"]
    assert file.read_bytes() == CONTENT
    assert (aggregate["mode"], aggregate["bytes"], aggregate["exit"]) == ("ranges", len(CONTENT), "complete")
    assert all(part["bytes"] > 0 for part in aggregate["paths"]), aggregate
    assert server.asked[0] == "bytes=0-"
    # One that is cancelled at once may never reach it.
    assert aggregate["requests"] >= len(server.asked) > 1
    assert aggregate["duplicate_bytes"] < len(CONTENT) / 4


@pytest.mark.parametrize("manner", ["plain", "weak"])
def test_a_server_without_ranges_or_strong_validator(server, authority, tmp_path, manner):
    file = tmp_path / "file"
    aggregate = fetch(server, authority, file, manner, "--aggregate").good()["aggregate"]
    assert file.read_bytes() == CONTENT
    assert (aggregate["mode"], len(server.asked)) == ("one-path", 1)
    ended = fetch(server, authority, file, manner, "--aggregate=always")
    assert (ended.code, "serves no ranges" in ended.err) == (NOT_SERVED, True), ended


@pytest.mark.parametrize("manner", ["changes", "shifted", "refuses"])
def test_bytes_of_two_objects_are_not_mixed(server, authority, tmp_path, manner):
    """The first connection goes on alone where that is right; where the object has changed, it is an error."""
    file = tmp_path / "file"
    ended = fetch(server, authority, file, manner, "--aggregate")
    if ended.code == 0:
        assert file.read_bytes() == CONTENT
    else:
        assert ended.code == INCOMPLETE, ended
        assert list(tmp_path.glob("*file*")) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--requests", 2], "one request"),
        (["-d", "x"], "GET"),
        (["--alpn", "hq-interop"], "--alpn h3"),
        (["--compressed"], "--compressed"),
        (["-o", "-"], "--output"),
        (["-H", "Range: bytes=0-1"], "Range"),
    ],
)
def test_requests_that_can_not_be_aggregated(options, text):
    args = on(LOCAL, "--aggregate=always", *options)
    client("https://127.0.0.1:1/file", *args).bad(USAGE, "--aggregate=always", text)
    one = client("https://127.0.0.1:1/file", "--path", LOCAL[0], "--aggregate=always")
    one.bad(USAGE, "--aggregate=always", "expected two")


@pytest.mark.parametrize("how", [None, "silence", "the interface vanishes"])
def test_two_networks(authority, tmp_path, how):
    root, file = tmp_path / "root", tmp_path / "file"
    root.mkdir()
    (root / "file").write_bytes(CONTENT)
    with two_roads() as near:
        server = quic_rig.weir(tmp_path, authority, f"{FAR}:4433", near.far, "--root", root)
        try:
            args = on(["p1", "p2"], "--aggregate", "--json", "-o", file, *server.trust)
            process = quic_rig.start(server.url("/file"), *args, where=near)
            if how:
                time.sleep(0.4)  # about a third of the download, on an idle machine
                break_road(near, how)
            ended = quic_rig.ended(process)
        finally:
            server.close()
    assert ended.code == 0, ended
    assert file.read_bytes() == CONTENT
    aggregate = ended.report["aggregate"]
    assert (aggregate["mode"], aggregate["exit"]) == ("ranges", "complete")
    assert all(part["bytes"] > 0 for part in aggregate["paths"]), aggregate
    if not how:
        assert aggregate["duplicate_bytes"] < len(CONTENT) / 10, aggregate
