# SPDX-License-Identifier: Apache-2.0
"""A NAT that takes another port in the middle of a connection, with servers that validate the new address with a new
connection ID (RFC 9000 5.1.1 and 9.5)."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import quic_rig
from quic_rig import HERE, client

REQUESTS = 40


@contextlib.contextmanager
def nat(to: str, every: int) -> Iterator[tuple[str, list[int]]]:
    """A NAT before the server: where to connect, and after its end the number of ports it took."""
    command = [sys.executable, HERE / "forgetful_nat.py", "--to", to, "--every", str(every)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ports = []
    try:
        yield process.stdout.readline().split()[1], ports
        process.send_signal(signal.SIGTERM)
        ports.append(int(process.communicate(timeout=quic_rig.PATIENCE_S)[0]))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("path", [[], ["--path", "127.0.0.1"]], ids=["no path", "one path"])
@pytest.mark.parametrize("kind", ["quic-go", "aioquic", "weir"])
def test_requests_go_on(servers, tmp_path, kind, path):
    server, events = servers(kind), tmp_path / "events"
    # several times: IDs that were used up are replaced
    with nat(server.address, 20) as (address, ports):
        args = ["--connect", address, "--requests", REQUESTS, "--interval-ms", 30, "--idle-timeout-ms", 8000]
        args += ["--events", events, *path]
        report = client(server.url("/bytes/20000"), *server.trust, "--json", *args).good()
    assert report["total"]["bytes"] == REQUESTS * 20_000
    assert ports[0] > 3
    tasks = [line for line in quic_rig.lines(events) if line["k"] == "task"]
    assert {line["outcome"] for line in tasks} == {"complete"}


@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
@pytest.mark.parametrize("kind", ["quic-go", "aioquic", "weir"])
def test_a_transfer_goes_on(servers, kind, upload):
    server = servers(kind)
    size = 3_000_000
    with nat(server.address, 500 if upload else 100) as (address, ports):
        what = [server.url(), "--upload", "--bytes", size] if upload else [server.url(f"/bytes/{size}")]
        args = ["--connect", address, "--idle-timeout-ms", 8000]
        report = client(*what, *server.trust, "--json", *args).good()
    assert report["total"]["bytes"] == size
    assert ports[0] > 1
