# SPDX-License-Identifier: Apache-2.0
"""All that QUIC offers an application, by name: streams both ways and one way, cancels, DATAGRAM frames, at the same
time; with programs on libraries of others at both ends."""

import subprocess
import sys

import packet_rig
import pytest
import quic_rig
from names_rig import EXCHANGERS, converters, exchange_client, exchange_server, said
from quic_rig import HERE, PATIENCE_S

BYTES = 2_000_000
CASES = {
    "fetched": 1_000_000,
    "one_way": 300_000,
    "datagrams": 50,
    "server_cancels_reading": 71,
    "server_cancels_reading_one_way": 72,
    "server_cancels_writing": 73,
    "client_cancels_reading": 74,
    "client_cancels_writing": 75,
    "client_cancels_writing_one_way": 76,
}
"""Results of a client beside the bulk: bytes, datagrams, codes."""
MODES = pytest.mark.parametrize("mode", [(), ("--reliable",)], ids=["plain", "reliable"])


@pytest.fixture(scope="module", params=EXCHANGERS)
def server(request, link, authority, tmp_path_factory):
    if reason := quic_rig.why_not(request.param):
        pytest.skip(reason)
    server = exchange_server(request.param, tmp_path_factory.mktemp("server"), authority, link[1])
    yield server
    server.close()


@pytest.fixture
def client(request):
    if reason := quic_rig.why_not(request.param):
        pytest.skip(reason)
    return request.param


def clients(*kinds: str):
    return pytest.mark.parametrize("client", kinds, indirect=True)


@clients(*EXCHANGERS)
@MODES
def test_all_at_the_same_time(link, server, client, mode):
    with converters(link, server.address, *mode) as (port, reports):
        seen = exchange_client(client, server, port, link[0], "--bytes", BYTES)
    assert seen.pop("bulk") >= BYTES
    assert seen == CASES
    for report in reports:
        assert report["sessions_opened"] == 1
        assert report["datagrams_given"] > BYTES // 1500
        assert report["face"]["malformed_frames"] == 0


@packet_rig.NEEDS_TCX
@clients(*EXCHANGERS)
@MODES
def test_all_at_the_same_time_where_frames_are_lost(link, server, client, mode):
    near, far = link
    with near.losing("ic", 50), far.losing("is", 50), converters(link, server.address, *mode) as (port, reports):
        seen = exchange_client(client, server, port, near, "--bytes", BYTES)
    assert seen.pop("bulk") >= BYTES
    assert seen == CASES
    for report in reports:
        assert report["segments_lost"] > 0
        assert report["segments_resent"] == 0 or "--reliable" in mode
    # Of both ways: on that with few packets the Interest may be what was lost, and its answer is sent once.
    assert (sum(report["segments_resent"] for report in reports) > 0) == ("--reliable" in mode)


@clients(*EXCHANGERS)
@MODES
def test_a_second_connection_asks_in_its_first_packets(link, server, client, mode):
    with converters(link, server.address, *mode) as (port, reports):
        seen = exchange_client(client, server, port, link[0], "--resume")
    assert seen == {"resumed": True, "early": True}
    assert reports[1]["sessions_opened"] == 2


@clients(*EXCHANGERS)
@MODES
def test_a_program_whose_port_changes_goes_on(link, server, client, mode):
    """Its server sees a client that comes from elsewhere (RFC 9000 9), as it would over UDP."""
    with converters(link, server.address, *mode) as (port, reports):
        nat = link[0].start(sys.executable, HERE / "forgetful_nat.py", "--to", f"127.0.0.1:{port}", "--every", 500,
                            stdout=subprocess.PIPE)  # fmt: skip
        try:
            inside = int(said(nat, "listening").rpartition(":")[2])
            seen = exchange_client(client, server, inside, link[0], "--bytes", BYTES)
        finally:
            nat.terminate()
            ports = int(nat.communicate(timeout=PATIENCE_S)[0])
    assert seen.pop("bulk") >= BYTES
    assert seen == CASES
    assert ports > 1
    opened = [report["sessions_opened"] for report in reports]
    assert opened[0] == opened[1]
    assert ports - 1 <= opened[0] <= ports  # the last one may end before anything was sent from it


@clients("quic-go")
@MODES
def test_a_client_moves_to_another_socket(link, server, client, mode):
    with converters(link, server.address, *mode) as (port, reports):
        seen = exchange_client(client, server, port, link[0], "--bytes", BYTES, "--move")
    assert seen.pop("bulk") >= BYTES
    assert seen == {**CASES, "moves": 1}
    assert [report["sessions_opened"] for report in reports] == [2, 2]
