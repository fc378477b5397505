# SPDX-License-Identifier: Apache-2.0
"""weir-server that ends: killed and started again under its clients, or ended."""

import contextlib
import re
import signal
import socket
import subprocess

import pytest
import quic_rig
from quic_rig import INCOMPLETE, OK, WEIR_SERVER

PACKETS = 40


@pytest.fixture(autouse=True)
def programs(authority):
    if not WEIR_SERVER.exists():
        pytest.skip(f"{WEIR_SERVER} is not built; ./run test builds it")


def serving(state, listen: str, *extra: object) -> tuple[subprocess.Popen, str]:
    command = [WEIR_SERVER, "--listen", listen, "--state-dir", state, *map(str, extra)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[1]


def ended(server: subprocess.Popen) -> int:
    code = server.wait(quic_rig.PATIENCE_S)
    server.stdout.close()
    return code


def requesting(address: str, events, *args: object) -> subprocess.Popen:
    """A client that is in the middle of its requests."""
    words = ["--insecure", "--json", "--events", events, "--stats-every-ms", 10, *args]
    client = quic_rig.start(f"https://{address}/bytes/1000", *words)
    quic_rig.until(lambda: events.exists() and len(quic_rig.lines(events)) > 3, "requests")
    return client


def test_a_client_of_a_killed_server_learns_of_it(tmp_path):
    state = tmp_path / "state"
    server, address = serving(state, "127.0.0.1:0")
    args = ["--requests", 10_000, "--interval-ms", 20, "--idle-timeout-ms", 600_000]
    client = requesting(address, tmp_path / "events", *args)
    server.kill()
    ended(server)
    server, _ = serving(state, address)
    try:
        done = quic_rig.ended(client)
        assert done.code == INCOMPLETE, done
        assert "stateless reset" in done.err
    finally:
        server.kill()
        ended(server)


def received(stranger: socket.socket) -> list[bytes]:
    """All that comes until nothing does."""
    answers = []
    with contextlib.suppress(TimeoutError):
        while True:
            answers.append(stranger.recv(2000))
    return answers


def test_resets_are_smaller_than_their_cause_and_bounded(tmp_path):
    """Datagrams with the form of packets of a connection nobody knows."""
    server, address = serving(tmp_path / "state", "127.0.0.1:0", "--retry-above", PACKETS // 4)
    host, _, port = address.rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.settimeout(1)
            stranger.connect((host, int(port)))
            stranger.send(b"\x40" + bytes(20))
            stranger.send(b"\x40" + bytes(99))
            answers = received(stranger)
            assert len(answers) == 1, "the first one is too small for an answer"
            assert 21 <= len(answers[0]) < 100
            assert answers[0][0] & 0xC0 == 0x40, "a short header"
            for _ in range(PACKETS):
                stranger.send(b"\x40" + bytes(99))
            answers += received(stranger)
            # each of the same connection ID has the same token, and nothing else in common
            assert len({answer[-16:] for answer in answers}) == 1 < len(set(answers))
            assert len(answers) < PACKETS
    finally:
        server.kill()
        ended(server)


@pytest.mark.parametrize("alpn", ["h3", "hq-interop"])
def test_a_download_ends_before_the_server_does(tmp_path, alpn):
    server, address = serving(tmp_path / "state", "127.0.0.1:0")
    file, stats = tmp_path / "file", tmp_path / "stats"
    size = 60_000_000
    # windows that make it last
    words = ["--insecure", "--json", "--output", file, "--stats", stats, "--stats-every-ms", 5, "--alpn", alpn]
    windows = ["--window", "static", "--stream-window", 30_000, "--conn-window", 30_000]
    client = quic_rig.start(f"https://{address}/bytes/{size}", *words, *windows)
    quic_rig.until(lambda: stats.exists() and any(line["bytes"] for line in quic_rig.lines(stats)), "bytes")
    server.send_signal(signal.SIGTERM)
    quic_rig.ended(client).good()
    assert file.stat().st_size == size
    assert ended(server) == OK


def test_a_client_between_requests_gets_a_goaway(tmp_path):
    server, address = serving(tmp_path / "state", "127.0.0.1:0")
    args = ["--requests", 10_000, "--interval-ms", 200, "--qlog-dir", tmp_path]
    client = requesting(address, tmp_path / "events", *args)
    server.send_signal(signal.SIGTERM)
    done = quic_rig.ended(client)
    assert done.code == INCOMPLETE, done
    assert ended(server) == OK
    (log,) = tmp_path.glob("*.sqlog")
    assert re.search(r'"frame_type":"goaway"', log.read_text())
    tasks = [line["outcome"] for line in quic_rig.lines(tmp_path / "events") if line["k"] == "task"]
    assert set(tasks) == {"complete"}


@pytest.mark.parametrize(
    ("extra", "path"), [(["--grace-s", 0], "/bytes/1GB"), ([], "/bytes/unlimited"), (["--grace-s", 1], "/bytes/100GB")],
    ids=["no time", "without end", "a second"],
)  # fmt: skip
def test_what_does_not_end_is_closed(tmp_path, extra, path):
    server, address = serving(tmp_path / "state", "127.0.0.1:0", *extra)
    stats = tmp_path / "stats"
    words = ["--insecure", "--json", "--stats", stats, "--stats-every-ms", 5]
    client = quic_rig.start(f"https://{address}{path}", *words)
    quic_rig.until(lambda: stats.exists() and any(line["bytes"] for line in quic_rig.lines(stats)), "bytes")
    server.send_signal(signal.SIGTERM)
    assert quic_rig.ended(client).code == INCOMPLETE
    assert ended(server) == OK


def test_a_second_signal_ends_it_at_once(tmp_path):
    server, address = serving(tmp_path / "state", "127.0.0.1:0", "--grace-s", 86_400)
    stats = tmp_path / "stats"
    words = ["--insecure", "--json", "--stats", stats, "--stats-every-ms", 5]
    client = quic_rig.start(f"https://{address}/bytes/100GB", *words)
    quic_rig.until(lambda: stats.exists() and any(line["bytes"] for line in quic_rig.lines(stats)), "bytes")
    server.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(1)
    server.send_signal(signal.SIGTERM)
    assert ended(server) == OK
    assert quic_rig.ended(client).code == INCOMPLETE
