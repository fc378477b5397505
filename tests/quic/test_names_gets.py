# SPDX-License-Identifier: Apache-2.0
"""GET by name with programs that others wrote, at both ends: HTTP/3, and hq-interop where quiche speaks it."""

import hashlib
import random
import re
import subprocess
import sys
from pathlib import Path

import names_rig
import pytest
import quic_rig
from names_rig import LISTEN, converters
from quic_rig import HERE, Authority, Holder, Server

BYTES = 3_000_000
FILE = random.Random(7).randbytes(BYTES)
"""Content of servers of files; the others have zeros."""


def quicgo_example(folder: Path, authority: Authority, where: Holder) -> Server:
    """The server that quic-go comes with."""
    made = authority.issue("127.0.0.1")
    (folder / "www").mkdir()
    words = ["-bind", LISTEN, "-www", folder / "www", "-cert", made.cert, "-key", made.key]
    program = quic_rig.PEERS / "quicgo-example-server"
    process = where.start(program, *words, stdout=subprocess.PIPE, stderr=(folder / "log").open("w"))
    quic_rig.until(lambda: ":4433 " in where.run("ss", "-Hlun").stdout, f"{program} listens")
    return Server("quic-go", LISTEN, authority.ca, ("h3",), process, where=where, folder=folder)


Offer = tuple[Server, str, bytes]
"""A server, a path that it answers, and the answer."""


def start(kind: str, alpn: str, folder: Path, authority: Authority, where: Holder) -> Offer:
    match kind, alpn:
        case "quiche", _:
            server = quic_rig.quiche_example(folder, authority, LISTEN, where, alpn)
            files = folder / "examples" / "root"
        case "quic-go", "h3":
            server = quicgo_example(folder, authority, where)
            files = folder / "www"
        case _:
            begin = {"weir": quic_rig.weir, "aioquic": quic_rig.aioquic, "quic-go": quic_rig.quicgo}[kind]
            return begin(folder, authority, LISTEN, where), f"/bytes/{BYTES}", bytes(BYTES)
    (files / "file").write_bytes(FILE)
    return server, "/file", FILE


def aioquic(link: names_rig.Link, url: str, server: Server) -> bytes:
    done = names_rig.run(link[0], sys.executable, HERE / "aioquic_get.py", url, "--ca", server.ca)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def quicgo(link: names_rig.Link, url: str, _: Server) -> bytes:
    """The client that quic-go comes with: the body is in its log."""
    program = quic_rig.PEERS / "quicgo-example-client"
    done = names_rig.run(link[0], program, "-insecure", url)
    assert done.returncode == 0, done.stderr[-1000:]
    found = re.search(rb"Response Body \((\d+) bytes\):\n", done.stderr)
    assert found, done.stderr[-1000:]
    return done.stderr[found.end() :][: int(found[1])]


def quiche(program: str, link: names_rig.Link, url: str) -> bytes:
    """A client that quiche comes with: it prints the body."""
    done = names_rig.run(link[0], quic_rig.rust_peer(program), url)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


CLIENTS = {
    ("aioquic", "h3"): aioquic,
    ("quic-go", "h3"): quicgo,
    ("quiche", "h3"): lambda link, url, _: quiche("quiche-http3-client", link, url),
    ("quiche", "hq-interop"): lambda link, url, _: quiche("quiche-hq-client", link, url),
}
PEERS = ("weir", "aioquic", "quic-go", "quiche")


def why_not(kind: str) -> str | None:
    return quic_rig.why_not("quiche example" if kind == "quiche" else kind)


@pytest.fixture
def offer(request, link, authority, tmp_path):
    kind, alpn = request.param
    if reason := why_not(kind):
        pytest.skip(reason)
    offer = start(kind, alpn, tmp_path, authority, link[1])
    yield offer
    offer[0].close()


@pytest.mark.parametrize(
    ("offer", "client"),
    [((kind, alpn), (client, alpn)) for alpn in ("h3", "hq-interop") for kind in PEERS for client in PEERS
     if (client, alpn) in CLIENTS],
    ids=lambda one: " ".join(one),
    indirect=["offer"],
)  # fmt: skip
def test_a_get_is_whole(link, offer, client):
    if reason := why_not(client[0]):
        pytest.skip(reason)
    server, path, wanted = offer
    with converters(link, server.address) as (port, reports):
        body = CLIENTS[client](link, f"https://127.0.0.1:{port}{path}", server)
    # not ==: a difference of megabytes takes pytest minutes to show
    assert len(body) == BYTES
    assert hashlib.sha256(body).digest() == hashlib.sha256(wanted).digest()
    assert [report["sessions_opened"] for report in reports] == [1, 1]
