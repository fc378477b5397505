# SPDX-License-Identifier: Apache-2.0
"""weir-client against servers that nobody here wrote (and ours, as the measure): what it asks for arrives whole."""

import socket

import pytest
import quic_rig
from quic_rig import INCOMPLETE, NOT_SERVED, client

KINDS = ["weir", "aioquic", "quic-go", "quiche example (h3)", "quiche example (hq-interop)", "quiche-server"]
CASES = [
    (kind, alpn) for kind in KINDS for alpn in ("h3", "hq-interop") if "example" not in kind or f"({alpn})" in kind
]


def peers(cases: list[tuple[str, str]]):
    return pytest.mark.parametrize("peer", cases, ids=" ".join, indirect=True)


ALL = peers(CASES)
# the others only hand out files
TAKES_UPLOADS = peers([case for case in CASES if case[0] in ("weir", "aioquic", "quic-go")])
# hq-interop has no status, and quiche's servers answer what they lack with a text
HAS_NO_SUCH_THING = peers([(kind, alpn) for kind, alpn in CASES if alpn == "h3" or "quiche" not in kind])


@pytest.fixture
def peer(request, servers):
    """A server and a protocol it speaks."""
    kind, alpn = request.param
    return servers(kind), alpn


@ALL
@pytest.mark.parametrize("size", [0, 1, 5000, 3_000_000])
def test_a_download_is_whole(peer, size):
    server, alpn = peer
    report = server.get(f"/bytes/{size}", "--alpn", alpn).good()
    assert [(flow["bytes"], flow["exit"]) for flow in report["flows"]] == [(size, "complete")]


@ALL
def test_several_connections_at_once(peer):
    server, alpn = peer
    report = server.get("/bytes/100000", "--alpn", alpn, "--flows", 8).good()
    assert [flow["bytes"] for flow in report["flows"]] == [100_000] * 8


@ALL
@pytest.mark.parametrize("parallel", [1, 4])
def test_many_requests_on_a_connection(peer, parallel, tmp_path):
    server, alpn = peer
    events = tmp_path / "events"
    args = ["--alpn", alpn, "--requests", 20, "--parallel", parallel, "--events", events]
    report = server.get("/bytes/5000", *args).good()
    assert report["total"]["bytes"] == 20 * 5000
    tasks = [line for line in quic_rig.lines(events) if line["k"] == "task"]
    assert sorted(line["task"] for line in tasks) == list(range(20))
    assert {(line["bytes"], line["outcome"]) for line in tasks} == {(5000, "complete")}


@TAKES_UPLOADS
@pytest.mark.parametrize("size", [0, 1, 2_000_000])
def test_an_upload_is_counted(peer, size):
    server, alpn = peer
    report = server.get("", "--upload", "--bytes", size, "--alpn", alpn).good()
    assert report["total"]["bytes"] == size


@HAS_NO_SUCH_THING
def test_what_is_not_there_is_told(peer):
    server, alpn = peer
    server.get("/nothing", "--alpn", alpn).bad(NOT_SERVED, "/nothing")


@ALL
def test_windows_smaller_than_the_answer(peer):
    server, alpn = peer
    windows = ["--stream-window", 5000, "--max-stream-window", 20_000, "--conn-window", 8000]
    report = server.get("/bytes/100000", "--alpn", alpn, *windows, "--max-conn-window", 20_000).good()
    assert report["total"]["bytes"] == 100_000


def test_a_server_that_asks_for_the_address_first(authority, tmp_path):
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    server = quic_rig.aioquic(tmp_path, authority, "127.0.0.1:0", None, "--retry")
    try:
        assert server.get("/bytes/5000").good()["total"]["bytes"] == 5000
    finally:
        server.close()


def test_a_server_that_ends_in_mid_transfer(authority, tmp_path):
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    server = quic_rig.aioquic(tmp_path, authority, "127.0.0.1:0")
    stats = tmp_path / "client"
    args = [server.url("/bytes/200000000"), *server.trust, "--stats", stats, "--stats-every-ms", 10]
    process = quic_rig.start(*args)
    flowing = lambda: stats.exists() and any(line["bytes"] for line in quic_rig.lines(stats))  # noqa: E731
    quic_rig.until(flowing, "bytes from aioquic")
    server.close()
    quic_rig.ended(process).bad(INCOMPLETE, "closed by the server")


def test_ipv6(authority, tmp_path, servers):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"IPv6 on loopback: {error}")
    for start, kind in ((quic_rig.weir, "weir"), (quic_rig.quicgo, "quic-go")):
        if reason := quic_rig.why_not(kind):
            pytest.skip(reason)
        (tmp_path / kind).mkdir()
        server = start(tmp_path / kind, authority, "[::1]:0")
        try:
            ended = client(f"https://{server.address}/bytes/5000", *server.trust, "--json")
            assert ended.good()["total"]["bytes"] == 5000
        finally:
            server.close()
