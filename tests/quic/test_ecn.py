# SPDX-License-Identifier: Apache-2.0
"""ECN between weir-client and servers of several projects, also over paths that change the field (RFC 9000 13.4.2)."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import quic_rig
from quic_rig import HERE, client

SIZE = 2_000_000


@contextlib.contextmanager
def path(to: str, passage: str) -> Iterator[tuple[str, dict]]:
    """A path before the server: where to connect, and after its end what it counted."""
    command = [sys.executable, HERE / "ecn_path.py", "--to", to, "--passage", passage]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    came: dict = {}
    try:
        yield process.stdout.readline().split()[1], came
        process.send_signal(signal.SIGTERM)
        came.update(json.loads(process.communicate(timeout=quic_rig.PATIENCE_S)[0]))
    finally:
        process.kill()
        process.communicate()


def flow(server, *args: object) -> dict:
    """The report of a client's only flow."""
    return client(server.url(*args[:1]), *server.trust, "--json", *args[1:]).good()["flows"][0]


@pytest.mark.parametrize("kind", ["weir", "quic-go", "quinn"])
def test_counts_are_right_both_ways(servers, kind):
    """A server that marks nearly all packets accepts the client's counts, and the client those of the server."""
    server = servers(kind)
    many = ["--alpn", "hq-interop", "--requests", 60, "--parallel", 2]
    found = flow(server, "/bytes/50000", *many)
    assert found["bytes"] == 60 * 50_000
    assert (found["ce_packets"], found["ect1_packets"]) == (0, 0)
    assert found["ect0_packets"] > 0.9 * found["recv_packets"]
    ecn = found["ecn"]
    assert (ecn["state"], ecn["failed"], ecn["sent_ect1"], ecn["acked_ce"]) == ("capable", 0, 0, 0)
    assert 0 < ecn["acked"] <= ecn["sent_ect0"] <= found["sent_packets"]
    [one] = ecn["paths"]
    assert (one["state"], one["sent"]) == ("capable", ecn["sent_ect0"])


def test_a_server_without_counts(servers):
    found = flow(servers("aioquic"), "/bytes/20000", "--alpn", "hq-interop", "--requests", 20)
    assert found["bytes"] == 20 * 20_000
    [one] = found["ecn"]["paths"]
    assert (one["state"], one["failure"], found["ecn"]["failed"]) == ("failed", "no-counts", 1)


def test_off_is_without_marks_and_counts(servers):
    """The server, which uses ECN, finds that the client reports nothing, and stops."""
    found = flow(servers("weir"), f"/bytes/{SIZE}", "--ecn", "off")
    assert found["ect0_packets"] <= 10
    assert (found["ecn"]["state"], found["ecn"]["sent_ect0"], found["ecn"]["paths"]) == ("off", 0, [])


@pytest.mark.parametrize(
    ("passage", "failures"),
    [
        ("bleach", {"no-counts", "missing"}),
        ("mark-all", {"excess"}),
        ("mark-ect", {"all-marked"}),
        ("ect1", {"excess"}),
        ("drop-ect", {"all-lost"}),
        ("bleach-later", {"missing"}),
    ],
)
def test_a_path_that_changes_the_field(authority, tmp_path, passage, failures):
    """The upload is whole, validation fails on that path, and marks end there."""
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0")
    try:
        with path(server.address, passage) as (address, came):
            args = ["--connect", address, "--upload", "--bytes", SIZE, "--json"]
            found = client(server.url(), *server.trust, *args).good()["flows"][0]
    finally:
        server.close()
    assert found["bytes"] == SIZE
    [one] = found["ecn"]["paths"]
    assert one["state"] == "failed"
    assert one["failure"] in failures
    assert found["ecn"]["failed"] == 1
    assert one["sent"] <= (10 if passage != "bleach-later" else found["sent_packets"])
    assert sum(came.values()) > 0


def test_marks_are_counted_to_the_packet(authority, tmp_path):
    """CE on one datagram in fifty: the sender's report has all of them, and nothing is lost."""
    server = quic_rig.weir(tmp_path, authority, "127.0.0.1:0")
    try:
        with path(server.address, "mark-some") as (address, counted):
            args = ["--connect", address, "--upload", "--bytes", SIZE, "--json"]
            found = client(server.url(), *server.trust, *args).good()["flows"][0]
    finally:
        server.close()
    end = [line for line in quic_rig.lines(tmp_path / "stats") if line["k"] == "end"][-1]
    assert (found["ecn"]["state"], found["lost_packets"], end["bytes"]) == ("capable", 0, SIZE)
    # The last acknowledgement may be missing.
    assert 0 <= counted["marked_up"] - found["ecn"]["acked_ce"] <= 2 < counted["marked_up"]
