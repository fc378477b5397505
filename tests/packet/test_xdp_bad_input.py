# SPDX-License-Identifier: Apache-2.0
"""Hash flooding, floods of spoofed flows, GSO and non-linear packets, and a scheduler that is replaced, before the eBPF
programs on real interfaces."""

import contextlib
import math
import select
import socket
import struct
import time
import zlib

import pytest
from flow_frames import ETHER, FOUR, LOAD, fragments4
from flow_rig import PROGRAMS, UNTOUCHED, Counting
from packet_rig import LAST, NEARLY_ONE, PROFILES, Rig, receive, take, until
from scapy.all import IP, TCP, UDP, Raw
from scapy.layers.ppp import PPP, PPPoE
from test_xdp_bands import BULK, FREE_BYTES, STEADY, kinds, udp
from test_xdp_coupled import class_packets

from weir.names import packet as names

SMALL, LARGE = udp(1, 64), udp(1)


def _udp(i: int) -> bytes:
    return bytes(ETHER / FOUR / UDP(sport=i, dport=9) / LOAD)


def _named(i: int) -> bytes:
    return names.frame(names.Header(kind=names.DATA, prefix=7, name=i), b"weir" * 50)


@pytest.mark.parametrize(("program", "build"), [("xdp", _udp), ("tc", _named)])
def test_each_attachment_has_its_own_hash(rig, program, build):
    """Counters learnt on a machine of the attacker say nothing about those of another: neither where a flow is nor
    which flows share one."""

    def places() -> list[int]:
        counting = Counting(rig, program)
        try:
            return [max(counting.changed([build(i)]) - counting.last, default=0) for i in range(1, 25)]
        finally:
            counting.close()

    learnt, later = places(), places()
    assert len({a ^ b for a, b in zip(learnt, later, strict=True)}) > 18


@contextlib.contextmanager
def raw_skbs(rig: Rig):
    """A tap at a0 whose frames begin with a virtio_net_hdr."""
    rig.sender.sh("ethtool -K a0 tx on sg on tso on gso on >/dev/null")
    out = rig.sender.tap("a0")
    out.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR
    try:
        with out:
            yield out
    finally:
        rig.sender.sh("ethtool -K a0 tx off sg off tso off gso off >/dev/null")


def arrivals(back: socket.socket, count: int) -> list[bytes]:
    came = []
    while len(came) < count and select.select([back], [], [], 10)[0]:
        if (frame := take(back)) is not None:
            came.append(frame)
    return came


CLASSES = (
    "tc qdisc add dev rb root handle 1: htb default {default};"
    "tc class add dev rb parent 1: classid 1:10 htb rate 1gbit prio 0;"
    "tc class add dev rb parent 1: classid 1:20 htb rate 1gbit prio 1;"
)
TBF = "burst 100k limit 1m"
SEGMENT_BYTES = 100


def gso(count: int) -> bytes:
    """A TCP packet of so many segments, behind its virtio_net_hdr."""
    whole = bytes(ETHER / FOUR / TCP(sport=5, dport=9, flags="A") / Raw(bytes(count * SEGMENT_BYTES)))
    # NEEDS_CSUM, GSO_TCPV4, length of the headers, segment, begin and place of the checksum
    return struct.pack("=BBHHHH", 1, 1, 54, SEGMENT_BYTES, 34, 16) + whole


@pytest.mark.parametrize("words", [PROGRAMS["bands"][1:], ("--shape", "1gbit", "--signal", "poll"), PROGRAMS["tc"][1:]])
def test_all_headers_of_a_gso_packet_count(rig, words):
    """A packet of 20 segments leaves as 20 packets, and the programs count the bytes that leave."""
    rig.weir("attach", "rb", *words, *UNTOUCHED)
    try:
        with rig.receiver.tap("b0") as back:
            with raw_skbs(rig) as out:
                for _ in range(10):
                    out.send(gso(20))
            came = arrivals(back, 200)
        counters = rig.status()["counters"]
    finally:
        rig.weir("detach", "rb")
    assert (counters["seen_packets"], len(came)) == (10, 200)
    assert counters["seen_bytes"] == sum(map(len, came))


@pytest.mark.parametrize("offload", ["off", "on"])
@pytest.mark.parametrize("bands", [(), ("--bands",), ("--coupled", "1:10,1:20")])
def test_a_gso_packet_leaves_the_count_of_a_veth(rig, bands, offload):
    """Whole, or as its segments where the device has no TSO."""
    rig.unshape()
    rig.router.sh(CLASSES.format(default=20) if bands else "tc qdisc add dev rb root handle 1: tbf rate 1gbit " + TBF)
    rig.router.sh(f"ethtool -K rb tx {offload} sg {offload} tso {offload} gso on >/dev/null")
    try:
        with rig.attached("--peer", rig.peer, *bands, "--fixed-probability", "0", "--limit-packets", 5000):
            with rig.receiver.tap("b0") as back:
                with raw_skbs(rig) as out:
                    for _ in range(10):
                        out.send(gso(20))
                        out.send(bytes(10) + SMALL)
                count = 210 if offload == "off" else 20
                assert len(arrivals(back, count)) == count
            status = rig.status()
    finally:
        rig.router.sh("ethtool -K rb tx off sg off tso off gso off >/dev/null")
        rig.unshape()
    assert (status["backlog_packets"], status["backlog_bytes"], status["counters"]["strays"]) == (0, 0, 0)
    assert status["counters"]["seen_packets"] == 20


@pytest.mark.parametrize("below", [ETHER, ETHER / PPPoE(sessionid=5) / PPP()])
@pytest.mark.parametrize("program", ["bands", "tc"])
def test_a_header_outside_the_linear_part_is_marked(jumbo, program, below):
    ect, ce = (bytes(below / IP(src="10.9.0.1", dst="10.9.0.2", tos=ecn) / UDP() / Raw(bytes(6000))) for ecn in (2, 3))
    words = [
        *PROGRAMS[program][1:],
        "--fixed-probability",
        NEARLY_ONE,
        "--gains",
        PROFILES / "paper.toml",
        "ecn_bound=1",
    ]
    if program == "bands":
        words += ["--expert", "ahead_most_bytes=1", "ahead_least_bytes=1"]
    jumbo.weir("attach", "rb", *words)
    try:
        with jumbo.receiver.tap("b0") as back, raw_skbs(jumbo) as out:
            for _ in range(4):
                out.send(struct.pack("=BBHHHH", 0, 0, 14, 0, 0, 0) + ect)  # only Ethernet is linear
            out.send(bytes(10) + LAST)
            came = receive(back)
        marked = jumbo.status()["counters"]["marked_packets"]
    finally:
        jumbo.weir("detach", "rb")
    assert set(came) <= {ect, ce}
    assert came.count(ce) == marked > 0


@contextlib.contextmanager
def bands(rig: Rig, rate: str, *words: object):
    rig.weir("attach", "rb", "--shape", rate, "--bands", *words)
    try:
        yield
    finally:
        rig.weir("detach", "rb")


def _addressed(source: str, port: int) -> bytes:
    """A small packet, quicker than scapy makes one."""
    return SMALL[:26] + socket.inet_aton(source) + SMALL[30:34] + port.to_bytes(2, "big") + SMALL[36:]


FLOODS = {
    "spoofed sources": [_addressed(f"10.{i % 250}.{i // 250}.7", 1024 + i) for i in range(10_000)],
    "changing ports": [_addressed("10.9.0.3", 1024 + i) for i in range(10_000)],
}


@pytest.mark.parametrize("flood", FLOODS)
def test_bulk_keeps_half_of_a_busy_line(rig, flood):
    """docs/design/flows.md, "Share of bulk", with the law and its half-life at their defaults."""
    half_life_s = 2**17 * 1024e-9
    begin_s = time.monotonic()
    with bands(rig, "4mbit"), rig.receiver.tap("b0") as back, rig.sender.tap("a0") as out:
        for i, frame in enumerate(FLOODS[flood]):
            out.send(frame)
            if i % 4 == 0:
                out.send(LARGE)
        until(lambda: rig.status()["counters"]["seen_packets"] >= 12_500, "all have arrived")
        until(lambda: not rig.backlog_bytes(), "all have left")
        halvings = math.ceil((time.monotonic() - begin_s) / half_life_s)
        out.send(LAST)
        came = receive(back)
        status = rig.status()
    ahead, bulk, counters = status["ahead"], status["bulk"], status["counters"]
    # A machine that pauses fills band A as well, which then drops at the law's delay limit.
    assert ahead["passed_bytes"] <= bulk["passed_bytes"] + FREE_BYTES * (1 + halvings / 2)
    assert counters["seen_packets"] == counters["passed_packets"] + counters["dropped_aqm_packets"]
    assert len(came) == counters["passed_packets"] - 1
    assert came.count(LARGE) > 0


def _unkeyed(port: int) -> int:
    """A counter by CRC-32 of addresses, protocol and ports, which anybody can compute."""
    return zlib.crc32(SMALL[26:34] + b"\x11" + port.to_bytes(2, "big") + SMALL[36:38]) & 4095


@pytest.mark.parametrize("flood", [*FLOODS, "hash collisions"])
def test_a_call_stays_ahead_of_a_flood(rig, flood):
    call = udp(5, 200)
    frames = FLOODS.get(flood) or [udp(i) for i in range(1024, 65536) if _unkeyed(i) == _unkeyed(5)] * 50
    with bands(rig, "1gbit", "--fixed-probability", "0", *STEADY, "ahead_most_bytes=20000"):
        kinds(rig, BULK + [call] * 10)
        with rig.sender.tap("a0") as out:
            for i, frame in enumerate(frames):
                out.send(frame)
                if i % 4 == 0:
                    out.send(LARGE)
        until(lambda: rig.status()["counters"]["seen_packets"] >= 200 + 10 + len(frames) * 5 / 4, "all have arrived")
        assert kinds(rig, [call] * 40) == (40, 0)


THIRD = CLASSES.format(default=30) + "tc class add dev rb parent 1: classid 1:30 htb rate 1gbit prio 1"


def passed_unusable(rig) -> bool:
    before = rig.status()["counters"]["unusable"]
    rig.through([SMALL])
    return rig.status()["counters"]["unusable"] == before + 2


@pytest.mark.parametrize("other", ["tc qdisc add dev rb root handle 1: pfifo limit 100", THIRD, ""])
def test_a_scheduler_replaced_beneath_the_bands(rig, other):
    """All packets pass as if there were no bands, and are counted; with the old tree in its place the bands go on."""
    rig.unshape()
    rig.router.sh(CLASSES.format(default=20))
    try:
        with rig.attached("--signal", "poll", "--bands", *STEADY, "ahead_most_bytes=20000", "share_least=1"):
            assert kinds(rig, [SMALL] * 5) == (5, 0)
            rig.unshape()
            rig.router.sh(other)
            until(lambda: passed_unusable(rig), "the process has seen the new tree")
            assert rig.status()["trouble"]
            before = rig.status()
            assert rig.through([SMALL] * 5) == [SMALL] * 5
            after = rig.status()
            assert after["counters"]["unusable"] - before["counters"]["unusable"] == 6
            assert after["ahead"]["seen"] == before["ahead"]["seen"]
            if other == THIRD:  # the default class
                assert class_packets(rig)["1:30"] >= 6
            rig.unshape()
            rig.router.sh(CLASSES.format(default=20))
            until(lambda: not passed_unusable(rig), "the process has seen the old tree")
            assert "trouble" not in rig.status()
            assert kinds(rig, [SMALL] * 5) == (5, 0)
    finally:
        rig.unshape()


def test_ensure_makes_the_shaper_anew_where_its_bands_are_gone(rig):
    with bands(rig, "1gbit", *UNTOUCHED):
        rig.unshape()
        until(lambda: passed_unusable(rig), "the process has seen that")
        rig.weir("ensure", "rb", "--shape", "1gbit", "--bands")
        assert "trouble" not in rig.status()
        assert kinds(rig, [SMALL] * 5) == (5, 0)
    rig.unshape()


def test_fragments_keep_their_order(rig):
    """Of datagrams in fragments, beside bulk that waits: the bands reorder none."""
    fragments = [frame for i in range(20) for frame in fragments4(i)]
    words = ("--fixed-probability", "0", *STEADY, "ahead_most_bytes=6056")
    with bands(rig, "1mbit", *words), rig.receiver.tap("b0") as back, rig.sender.tap("a0") as out:
        # htb lets each class send its burst once, also before the class with the higher priority
        assert kinds(rig, [LARGE] * 12)[1] > 2
        arrivals(back, 12)
        for i in range(0, len(fragments), 3):
            for frame in [LARGE, *fragments[i : i + 3]]:
                out.send(frame)
        came = arrivals(back, len(fragments) + 20)
        ahead = rig.status()["ahead"]["seen"]
    assert [frame for frame in came if frame != LARGE] == fragments
    assert ahead > 2
