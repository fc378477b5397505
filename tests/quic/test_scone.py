# SPDX-License-Identifier: Apache-2.0
"""Throughput advice from the tc program to the application: server, router and client in namespaces."""

import socket

import pytest
from packet_rig import Rig
from quic_rig import lines, weir, why_no_namespaces

from weir import scone

SIGNAL_BIT_S = scone.rate_bit_s(scone.signal_of(8_000_000))
DOWNLOAD_BYTES = 3_000_000
LONG_HEADER, SHORT_HEADER = 0xC1, 0x41


@pytest.fixture(scope="module")
def rig():
    if reason := why_no_namespaces():
        pytest.skip(reason)
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture(params=["segments", "offloads"])
def line(rig, request):
    """50 Mbit/s to the client with advice of 8; packets as on a wire, or GSO packets without their checksums."""
    on = "on" if request.param == "offloads" else "off"
    rig.sender.sh(f"ethtool -K a0 tso {on} gso {on} tx {on} >/dev/null")
    rig.weir("attach", "rb", "--shape", "50mbit", "--signal", "poll", "--advise", "8mbit")
    yield rig
    rig.weir("detach", "rb")
    rig.sender.sh("ethtool -K a0 tso off gso off tx off >/dev/null")


def download(rig, authority, folder, use_of_server: str, *args: object) -> tuple[dict, list[dict]]:
    server = weir(folder, authority, "10.9.0.1:4433", rig.sender, "--scone", use_of_server)
    try:
        server.where = rig.receiver
        events = folder / "events"
        report = server.get(f"/bytes/{DOWNLOAD_BYTES}", "--events", events, *args).good()
    finally:
        server.close()
    [flow] = report["flows"]
    return flow, [line for line in lines(events) if line["k"] == "advice"]


@pytest.mark.parametrize("window", ["weir", "double", "static"])
def test_a_download_follows_the_advice(line, authority, tmp_path, window):
    flow, events = download(line, authority, tmp_path, "report", "--scone", "follow", "--window", window)
    advice = flow["scone"]
    assert flow["exit"] == "complete"
    assert flow["bytes"] == DOWNLOAD_BYTES
    assert (advice["advice_bit_s"], advice["lowest_bit_s"]) == (SIGNAL_BIT_S, SIGNAL_BIT_S)
    assert 0 < advice["advised"] <= advice["received"]
    assert advice["sent"] > 0
    assert advice["rejected"] == 0
    assert 0 < advice["first_us"] <= flow["duration_us"]
    assert [event["rate_bit_s"] for event in events] == [SIGNAL_BIT_S]
    # a slow machine makes it slower, never faster
    before_advice_bytes = 150_000
    assert flow["bytes"] <= before_advice_bytes + SIGNAL_BIT_S / 8 * flow["duration_us"] / 1e6
    assert line.status()["counters"]["advised"] == advice["advised"]


def test_advice_is_only_reported(line, authority, tmp_path):
    flow, events = download(line, authority, tmp_path, "report", "--scone", "report")
    assert flow["scone"]["advice_bit_s"] == SIGNAL_BIT_S
    assert len(events) == 1


@pytest.mark.parametrize(("server", "client"), [("off", "follow"), ("report", "off")])
def test_both_ends_have_to_take_part(line, authority, tmp_path, server, client):
    flow, events = download(line, authority, tmp_path, server, "--scone", client)
    assert flow["exit"] == "complete"
    assert events == []
    assert line.status()["counters"]["advised"] == 0
    if client == "off":
        assert "scone" not in flow
    else:
        assert flow["scone"]["received"] == flow["scone"]["sent"] == 0


def test_without_a_network_element_there_is_no_advice(rig, authority, tmp_path):
    flow, events = download(rig, authority, tmp_path, "report", "--scone", "follow")
    assert flow["scone"]["received"] > 0
    assert flow["scone"]["advised"] == 0
    assert flow["scone"]["advice_bit_s"] is None
    assert events == []


def datagrams(rig) -> list[bytes]:
    """Payloads of SCONE packets that no connection sent."""
    whole = bytes([0xFF]) + bytes.fromhex("6f7dc0fd") + b"\x08" + b"12345678" + b"\x00"
    return [
        *(whole[:length] for length in range(1, len(whole) + 1)),
        whole + bytes([SHORT_HEADER]) + b"12345678" + bytes(40),
        whole + whole + bytes([SHORT_HEADER]) + b"12345678" + bytes(40),
        whole + bytes([LONG_HEADER, 0, 0, 0, 1]) + bytes(1200),
        whole[:5] + b"\xff" + bytes(600),
        whole[:5] + b"\xff" + bytes(255) + b"\xff" + bytes(255) + b"\x41",
    ]


def test_scone_packets_of_no_connection_harm_no_server(rig, authority, tmp_path):
    server = weir(tmp_path, authority, "10.9.0.1:4433", rig.sender, "--scone", "report")
    try:
        with rig.receiver.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.settimeout(0.3)
            for payload in datagrams(rig):
                out.sendto(payload, ("10.9.0.1", 4433))
            with pytest.raises(TimeoutError):
                out.recv(2048)
        server.where = rig.receiver
        assert server.get("/bytes/1000", "--scone", "follow").good()["flows"][0]["bytes"] == 1000
    finally:
        server.close()
