# SPDX-License-Identifier: Apache-2.0
"""Two hosts with a link between them that carries nothing but names, weir-icn on both, and programs of others at the
ends."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import quic_rig
from quic_rig import BUILD, HERE, PATIENCE_S, Authority, Holder, Server

ICN = BUILD / "bin" / "weir-icn"
SERVER, PHONE = "/weir/web", "/weir/hosts/phone"
LISTEN = "127.0.0.1:4433"
EXCHANGERS = ("aioquic", "quic-go")

Link = tuple[Holder, Holder]
"""The client's host and the server's."""


def why_not() -> str | None:
    """Why there is no such link on this machine, if so."""
    if not ICN.exists():
        return f"{ICN} is not built; ./run test builds it"
    return quic_rig.why_no_namespaces()


@contextlib.contextmanager
def linked() -> Iterator[Link]:
    """One Ethernet link between two hosts and no address on it, so that IP can't be what carries."""
    client, server = Holder(), Holder()
    try:
        client.sh(
            "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6;"
            f"ip link add ic type veth peer name is netns {server.process.pid}; ip link set ic up"
        )
        server.sh("echo 1 > /proc/sys/net/ipv6/conf/is/disable_ipv6; ip link set is up")
        yield client, server
    finally:
        client.close()
        server.close()


def said(process: subprocess.Popen, word: str) -> str:
    """Rest of the line that a program that just started prints behind this word."""
    line = process.stdout.readline().strip()
    if not line.startswith(f"{word} "):
        process.kill()
        pytest.fail(f"{process.args} said '{line}': {process.communicate()}")
    return line.removeprefix(f"{word} ")


@contextlib.contextmanager
def pair(link: Link, to: str, *extra: str) -> Iterator[tuple[int, list[subprocess.Popen]]]:
    """weir-icn on both sides for the length of a with: the client's port, and both programs."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    client, server = link
    running = []
    try:
        words = ["server", "--interface", "is", "--name", SERVER, "--to", to, "--json", *extra]
        running.append(far := server.start(ICN, *words, **pipes))
        said(far, "serving")
        words = ["client", "--interface", "ic", "--as", PHONE, "--server", SERVER, "--listen", "127.0.0.1:0"]
        running.append(near := client.start(ICN, *words, "--json", *extra, **pipes))
        yield int(said(near, "listening").rpartition(":")[2]), [near, far]
    finally:
        for process in running:
            process.kill()
            process.communicate()


def interrupted(converter: subprocess.Popen) -> tuple[int, str, dict]:
    """Ends a converter: its exit code, what is left of its standard error, its report."""
    converter.send_signal(signal.SIGINT)
    out, err = converter.communicate(timeout=PATIENCE_S)
    return converter.returncode, err, json.loads(out)


@contextlib.contextmanager
def converters(link: Link, to: str, *extra: str) -> Iterator[tuple[int, list[dict]]]:
    """weir-icn on both sides for the length of a with. Gives the client's port, and a list that has their reports
    after it."""
    reports = []
    with pair(link, to, *extra) as (port, both):
        yield port, reports
        for converter in both:
            code, err, report = interrupted(converter)
            assert (code, err) == (0, "")
            reports.append(report)


def run(host: Holder, *command: object) -> subprocess.CompletedProcess:
    """Runs a client to its end, for its bytes."""
    return subprocess.run(host.command(*command), capture_output=True, timeout=PATIENCE_S, check=False)


def _exchanger(kind: str) -> list[object]:
    if kind == "aioquic":
        return [sys.executable, HERE / "aioquic_exchange.py"]
    return [quic_rig.PEERS / "quicgo-exchange"]


def exchange_server(kind: str, folder: Path, authority: Authority, where: Holder) -> Server:
    """The server of an exchange, on aioquic or quic-go."""
    made = authority.issue("127.0.0.1")
    words = ["--listen", LISTEN, "--cert", made.cert, "--key", made.key]
    process = where.start(*_exchanger(kind), *words, stdout=subprocess.PIPE)
    address = said(process, "listening")
    return Server(kind, address, authority.ca, ("exchange",), process, where=where, folder=folder)


def exchange_client(kind: str, server: Server, port: int, where: Holder, *extra: object) -> dict:
    """Result of an exchange's client."""
    words = ["--connect", f"127.0.0.1:{port}", "--ca", server.ca]
    done = run(where, *_exchanger(kind), *words, *extra)
    assert (done.returncode, done.stderr) == (0, b""), done
    return json.loads(done.stdout)
