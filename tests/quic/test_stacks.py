# SPDX-License-Identifier: Apache-2.0
"""weir-client over three paths to each server of `mininet/peers/servers.toml` that is here: every request is answered,
on every path that the server allows, and on one path where it forbids migration."""

import socket
import subprocess
from pathlib import Path

import pytest
import quic_rig
from test_paths import LOCAL, on

from weirlab.lab import quic_servers

SERVERS = quic_servers.read(quic_servers.table())
REQUESTS, SIZE = 40, 5000
LARGE_REQUESTS, LARGE = 4, 1_000_000
STAYS = "answers on one path whichever it is asked on"


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port: int) -> bool:
    tables = [Path(f"/proc/self/net/{name}").read_text() for name in ("udp", "udp6")]
    return any(f":{port:04X} " in table for table in tables)


@pytest.fixture
def running(request, tmp_path):
    """A server of the table with its port, and the authority to trust."""
    server = request.param
    if reason := server.missing():
        pytest.skip(reason)
    if not quic_rig.CLIENT.exists():
        pytest.skip(f"{quic_rig.CLIENT} is not built; ./run test builds it")
    made, port = quic_servers.certificate(tmp_path, "127.0.0.1", "localhost"), free_port()
    root = tmp_path / "root"
    for size in (SIZE, LARGE):
        file = root / server.url_path(size).lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    command = server.command("127.0.0.1", port, str(made.cert), str(made.key), str(root), str(tmp_path))
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path)
    try:
        up = lambda: listening(port) or process.poll() is not None  # noqa: E731
        quic_rig.until(up, f"{server.name} listens: {(tmp_path / 'server.log').read_text()[-500:]}")
        assert process.poll() is None, (tmp_path / "server.log").read_text()[-500:]
        yield server, port, tmp_path
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()


def fetched(running, size: int, requests: int, *more: object) -> tuple[list[dict], dict, bool]:
    """Tasks in order and connection IDs of a client on three paths, none of them failed; whether the server stays on
    one path."""
    server, port, folder = running
    events = folder / f"events-{size}"
    url = f"https://localhost:{port}{server.url_path(size)}"
    trust = ["--insecure"] if server.name == "noq" else ["--ca", folder / "ca.pem"]
    words = [url, "--connect", f"127.0.0.1:{port}", *trust, "--alpn", server.alpn, "--json", "--events", events]
    words += on(LOCAL, "--requests", requests, "--interval-ms", 30, *more)
    ended = quic_rig.client(*words)
    assert ended.code == quic_rig.OK, ended
    assert all(STAYS in line for line in ended.err.splitlines()), ended
    lines = quic_rig.lines(events)
    tasks = sorted((line for line in lines if line["k"] == "task"), key=lambda line: line["task"])
    assert [line["task"] for line in tasks] == list(range(requests))
    assert {(line["outcome"], line["bytes"]) for line in tasks} == {("complete", size)}
    [cid] = [line for line in lines if line["k"] == "cid"]
    return tasks, cid, bool(ended.err)


STALLS = pytest.mark.xfail(reason="its row in servers.toml says so", strict=False)
ROWS = [pytest.param(s, id=s.name.replace(", ", "-"), marks=[STALLS] if s.name == "tquic" else []) for s in SERVERS]


@pytest.mark.parametrize("running", ROWS, indirect=True)
def test_every_request_is_answered_on_the_paths_that_a_server_allows(running):
    tasks, cid, stays = fetched(running, SIZE, REQUESTS, "--strategy", "polling", "--seed", 1)
    used = {line["path"] for line in tasks}
    if cid["migration_allowed"] and not stays:
        assert len(used) == cid["usable"] > 1
    elif not stays:
        assert len(used) == 1
    fetched(running, LARGE, LARGE_REQUESTS)
