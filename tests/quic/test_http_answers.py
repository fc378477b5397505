# SPDX-License-Identifier: Apache-2.0
"""Answers that HTTP allows: any success, long headers, and one that takes its time."""

import pytest
import scripted
from quic_rig import INCOMPLETE, NOT_SERVED, client


@pytest.fixture
def server(servers):
    return servers("quic-go")


@pytest.mark.parametrize("status", [200, 201, 202, 203, 204, 205, 206, 226])
def test_all_of_2xx_are_successes(server, tmp_path, status):
    file = tmp_path / "file"
    client(server.url(f"/code/{status}"), *server.trust, "--json", "--output", file).good()
    assert file.read_bytes() == b""


@pytest.mark.parametrize("status", [300, 304, 400, 404, 500, 503])
def test_others_are_none(server, status):
    server.get(f"/code/{status}").bad(NOT_SERVED, str(status))


@pytest.mark.parametrize("status", [200, 201, 204])
@pytest.mark.parametrize("size", [0, 10_000, 3_000_000])
def test_an_upload_needs_no_count(server, status, size):
    """Nor need the server read it."""
    server.get(f"/code/{status}", "--upload", "--bytes", size).good()


@pytest.mark.parametrize("size", [30_000, 60_000, 256_000])
def test_long_headers(server, tmp_path, size):
    file = tmp_path / "file"
    client(server.url(f"/headers/{size}"), *server.trust, "--json", "--output", file).good()
    assert file.read_bytes() == b"body"


def test_headers_that_are_too_long(server):
    server.get("/headers/900000").bad(INCOMPLETE, str(512 * 1024))


@pytest.mark.parametrize("paths", [[], ["--path", "127.0.0.1", "--path", "127.0.0.2"]], ids=["one", "two"])
def test_an_answer_later_than_the_idle_timeout(server, tmp_path, paths):
    file = tmp_path / "file"
    args = ["--idle-timeout-ms", 1000, "--output", file, *paths]
    client(server.url("/late/3500"), *server.trust, "--json", *args).good()
    assert file.read_bytes() == b"late"


def test_pauses_longer_than_the_idle_timeout(servers):
    """Our own server's bursts, over hq-interop and HTTP/3."""
    for alpn in ("h3", "hq-interop"):
        args = ["--alpn", alpn, "--idle-timeout-ms", 1000, "--duration-s", 4]
        report = servers("weir").get("/bytes/10/every/2500", *args).good()
        assert report["total"]["bytes"] >= 10


def test_keys_that_are_updated(authority):
    """By the server, in the middle of a response (RFC 9001 6)."""
    pytest.importorskip("aioquic")
    made = authority.issue("127.0.0.1")
    server = scripted.Scripted(made.cert, made.key)

    def update(quic):
        quic.request_key_update()
        quic.send_stream_data(scripted.REQUEST, scripted.frame(scripted.DATA, bytes(50_000)), True)

    try:
        with server.saying(scripted.Script(scripted.ok(50_000), fin=False, then=update)):
            report = client(server.url("/"), "--ca", authority.ca, "--json").good()
        assert report["total"]["bytes"] == 50_000
    finally:
        server.close()
