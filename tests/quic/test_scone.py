# SPDX-License-Identifier: Apache-2.0
"""Throughput advice from the tc program to the application: server, router and client in namespaces."""

import socket

import pytest
from packet_rig import Rig
from quic_rig import ended, lines, start, weir, why_no_namespaces

from weir import scone
from weir.scone_vectors import packet

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


def test_segments_follow_the_advice(line, authority, tmp_path):
    """Requests on one connection, as of a video: 1.5 MB a second are 12 Mbit/s."""
    server = weir(tmp_path, authority, "10.9.0.1:4433", line.sender, "--scone", "report")
    try:
        server.where = line.receiver
        words = ("--requests", "4", "--interval-ms", "1000", "--scone", "follow")
        [flow] = server.get("/bytes/1500000", *words).good()["flows"]
    finally:
        server.close()
    assert (flow["exit"], flow["bytes"]) == ("complete", 6_000_000)
    assert flow["scone"]["advice_bit_s"] == SIGNAL_BIT_S
    before_advice_bytes = 150_000
    assert flow["bytes"] <= before_advice_bytes + SIGNAL_BIT_S / 8 * flow["duration_us"] / 1e6


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


@pytest.mark.parametrize(("advice", "signal"), [("100kbit", 0), ("199527mbit", scone.GREATEST), ("1000gbit", 126)])
def test_the_least_and_the_greatest_advice(rig, authority, tmp_path, advice, signal):
    rig.weir("attach", "rb", "--shape", "50mbit", "--signal", "poll", "--advise", advice)
    server = weir(tmp_path, authority, "10.9.0.1:4433", rig.sender, "--scone", "report")
    try:
        server.where = rig.receiver
        [flow] = server.get("/bytes/160000", "--scone", "follow").good()["flows"]
    finally:
        server.close()
        rig.weir("detach", "rb")
    assert (flow["exit"], flow["bytes"]) == ("complete", 160_000)
    assert flow["scone"]["advice_bit_s"] == flow["scone"]["lowest_bit_s"] == scone.rate_bit_s(signal)
    assert flow["scone"]["rejected"] == 0


class Eavesdropper:
    """Reads what the server sends to the client, and sends the client frames in the server's name."""

    def __init__(self, rig) -> None:
        self.reads, self.sends = rig.receiver.tap("b0"), rig.router.tap("rb")
        self.head = b""

    def payload(self, long_header: bool) -> bytes:
        """The next datagram to the client whose first packet has that form of header."""
        self.reads.settimeout(60)
        while True:
            frame = self.reads.recv(2048)
            ends = frame[26:36]  # addresses and the server's port
            from_server = ends == bytes([10, 9, 0, 1, 10, 9, 0, 2]) + (4433).to_bytes(2, "big")
            if frame[12:14] == b"\x08\0" and frame[23] == 17 and from_server and bool(frame[42] & 0x80) == long_header:
                self.head = frame[:38]
                return frame[42:]

    def send(self, payload: bytes) -> None:
        head = bytearray(self.head)
        head[16:18] = (28 + len(payload)).to_bytes(2, "big")
        head[24:26] = bytes(2)
        total = sum(int.from_bytes(head[at : at + 2], "big") for at in range(14, 34, 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        head[24:26] = (~total & 0xFFFF).to_bytes(2, "big")
        self.sends.send(bytes(head) + (8 + len(payload)).to_bytes(2, "big") + bytes(2) + payload)

    def close(self) -> None:
        self.reads.close()
        self.sends.close()


def forged(cid: bytes, genuine: bytes) -> list[bytes]:
    """Datagrams with the least advice, of no network element. `genuine`: a datagram that the connection has had."""
    noise = bytes([SHORT_HEADER]) + cid + bytes(range(40))
    return [
        packet(0, b"12345678", b"", bytes([SHORT_HEADER]) + b"12345678" + bytes(40)),  # of another connection
        packet(0, cid, b"", noise),
        packet(0, cid, b"abcd", noise),
        packet(0, cid, b"", genuine),  # replayed
        packet(0, cid, b"", packet(0, cid, b"", genuine)),  # repeated
        packet(0, cid, b"", b""),  # without another packet
        packet(0, cid, b"", b"")[:-1],  # cut short
        packet(0, cid, b"", b"")[:6],
    ]


def test_forged_advice_is_counted_and_has_no_effect(rig, authority, tmp_path):
    rig.shape("2mbit")
    server = weir(tmp_path, authority, "10.9.0.1:4433", rig.sender, "--scone", "report")
    other = Eavesdropper(rig)
    try:
        words = ("--json", "--scone", "follow", server.url("/bytes/1000000"), *server.trust)
        client = start(*words, where=rig.receiver)
        handshake = other.payload(long_header=True)
        cid = handshake[6 : 6 + handshake[5]]
        sent = forged(cid, other.payload(long_header=False))
        for payload in sent:
            other.send(payload)
        [flow] = ended(client).good()["flows"]
    finally:
        other.close()
        server.close()
        rig.unshape()
    assert (flow["exit"], flow["bytes"]) == ("complete", 1_000_000)
    advice = flow["scone"]
    assert (advice["advised"], advice["advice_bit_s"], advice["lowest_bit_s"]) == (0, None, None)
    assert advice["rejected"] == len(sent)
    assert advice["received"] > 0


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
        # as large as datagrams whose version is negotiated
        whole + whole + bytes(1200),
        whole[:5] + b"\xff" + bytes(255) + b"\xff" + bytes(255) + whole + bytes(1200),
        (whole[:5] + b"\xff" + bytes(255) + b"\xff" + bytes(255)) * 3,
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
