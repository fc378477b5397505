# SPDX-License-Identifier: Apache-2.0
"""Packet in, verdict and packet out, through BPF_PROG_TEST_RUN: no traffic needed."""

import contextlib
import math
import struct
from pathlib import Path

import pytest
from packet_rig import NEARLY_ONE, by_name
from packets import packets
from scapy.all import IP, TCP, UDP, Ether, IPv6, Raw

from weir.names import packet as names

TC_PASS, TC_DROP = 2**32 - 1, 2  # TC_ACT_UNSPEC, so that later filters run; TC_ACT_SHOT
XDP_PASS, XDP_DROP = 2, 1
PACKETS = packets()

# name: attach options, pinned program, verdicts
PROGRAMS = {
    "veth": (("--peer", "ra"), "prog_weir_egress", TC_PASS, TC_DROP),
    "virtual-tc": (("--rate", "100gbit", "--hook", "tc"), "prog_weir_egress", TC_PASS, TC_DROP),
    "virtual-xdp": (("--rate", "100gbit"), "prog_weir_ingress", XDP_PASS, XDP_DROP),
    "poll": (("--signal", "poll"), "prog_weir_egress", TC_PASS, TC_DROP),
    "backlog": (("--signal", "backlog"), "prog_weir_egress", TC_PASS, TC_DROP),
}


@pytest.fixture(scope="module")
def shaped(rig):
    rig.shape()
    yield rig
    rig.unshape()


@pytest.fixture(params=by_name(PROGRAMS))
def program(request, shaped):
    """A function that attaches with a fixed U and gives the program's pin, the packets that the kernel can hand to it
    here (the others go over the wire, in test_xdp_forwarding), and its verdicts."""
    options, name, passed, dropped = PROGRAMS[request.param]

    @contextlib.contextmanager
    def attach(*more: object):
        with shaped.attached(*options, *more, profile="paper"):
            yield f"{shaped.pins()}/{name}"

    taken = {key: packet for key, packet in PACKETS.items() if packet.test_run or name == "prog_weir_ingress"}
    return shaped, attach, taken, passed, dropped


def test_zero_passes_every_packet_untouched(program):
    rig, attach, taken, passed, _ = program
    with attach("--fixed-probability", "0") as pin:
        for name, packet in taken.items():
            assert rig.program_run(pin, packet.frame) == (passed, packet.frame), name
        counters = rig.status()["counters"]
    assert counters["seen_packets"] == counters["passed_packets"] == len(taken)
    assert counters["non_ip_packets"] == sum(not p.under_law for p in taken.values())


def test_one_drops_all_that_is_under_the_law_and_nothing_else(program):
    rig, attach, taken, passed, dropped = program
    with attach("--fixed-probability", "1") as pin:
        for name, packet in taken.items():
            verdict, frame = rig.program_run(pin, packet.frame)
            assert verdict == (dropped if packet.under_law else passed), name
            assert frame == packet.frame, name
        counters = rig.status()["counters"]
    assert counters["dropped_aqm_packets"] == sum(p.under_law for p in taken.values())


def test_below_the_bound_ect_is_marked_and_the_rest_dropped(program):
    rig, attach, taken, passed, dropped = program
    with attach("--fixed-probability", NEARLY_ONE, "ecn_bound=1") as pin:
        for name, packet in taken.items():
            verdict, frame = rig.program_run(pin, packet.frame)
            if not packet.under_law:
                assert (verdict, frame) == (passed, packet.frame), name
            elif packet.marked:
                assert verdict == passed, name
                assert frame == packet.marked, name
            else:
                assert (verdict, frame) == (dropped, packet.frame), name
        counters = rig.status()["counters"]
    assert counters["marked_packets"] == sum(p.marked is not None for p in taken.values())


def test_a_session_header_that_is_cut_passes(program):
    """The kernel does not forward such a frame over a bridge, so this is not in `packets`."""
    rig, attach, _, passed, dropped = program
    frame = PACKETS["pppoe_ipv4-ect0"].frame
    with attach("--fixed-probability", "1") as pin:
        for size in range(14, 22):
            assert rig.program_run(pin, frame[:size]) == (passed, frame[:size]), size
        assert rig.program_run(pin, frame) == (dropped, frame)


@pytest.mark.parametrize(("bound", "is_dropped"), [(0, True), (0.99, True), (1, False)])
def test_beyond_the_bound_ect_is_dropped(program, bound, is_dropped):
    """At a probability of 1. A bound of 0 marks nothing, and a bound of 1 drops nothing that can be marked."""
    rig, attach, _, passed, dropped = program
    with attach("--fixed-probability", "1", f"ecn_bound={bound}") as pin:
        verdict, _ = rig.program_run(pin, PACKETS["ipv4-ect0"].frame)
    assert verdict == (dropped if is_dropped else passed)


@pytest.mark.parametrize("probability", ["linear", "squared"])
@pytest.mark.parametrize("u", [0.03, 0.1, 0.5, 0.97])
def test_drop_rate_is_within_the_binomial_bound(program, probability, u):
    rig, attach, *_ = program
    repeat = 200_000
    with attach("--fixed-probability", u, f"probability={probability}") as pin:
        rig.program_run(pin, PACKETS["ipv4-not_ect"].frame, repeat)
        counters = rig.status()["counters"]
    p = u * u if probability == "squared" else u
    sigma = math.sqrt(counters["seen_packets"] * p * (1 - p))
    assert counters["seen_packets"] >= repeat
    assert abs(counters["dropped_aqm_packets"] - counters["seen_packets"] * p) <= 5 * sigma


@pytest.mark.parametrize("hook", ["tc", "xdp"])
def test_the_virtual_queue_holds_no_more_than_its_limit(shaped, hook):
    frame = PACKETS["ipv4_full-not_ect"].frame
    name = "prog_weir_ingress" if hook == "xdp" else "prog_weir_egress"
    options = ("--rate", "8kbit", "--hook", hook, "--limit-bytes", 10 * len(frame), "--fixed-probability", "0")
    with shaped.attached(*options):
        shaped.program_run(f"{shaped.pins()}/{name}", frame, repeat=1000)
        counters = shaped.status()["counters"]
    # 1 kB/s drain far less than one packet while a thousand are run
    assert counters["passed_packets"] in (10, 11)
    assert counters["dropped_limit_packets"] == counters["seen_packets"] - counters["passed_packets"]


def test_the_veth_queue_holds_no_more_than_its_limits(shaped):
    frame = PACKETS["arp"].frame  # the limit is for all packets, IP or not
    for limit, least in (("--limit-packets", 7), ("--limit-bytes", 7 * len(frame))):
        with shaped.attached("--peer", "ra", "--fixed-probability", "0", limit, least):
            shaped.program_run(f"{shaped.pins()}/prog_weir_egress", frame, repeat=100)
            status = shaped.status()
        assert status["backlog_packets"] == 7
        assert status["counters"]["dropped_limit_packets"] == status["counters"]["seen_packets"] - 7


def test_an_arrival_and_its_departure_cancel(shaped):
    with shaped.attached("--peer", "ra", "--fixed-probability", "0"):
        pins = shaped.pins()
        for name in ("ipv4-ect0", "vlan_ipv4-ect0", "arp", "qinq_ipv6-ce", "ipv4_full-ect1"):
            shaped.program_run(f"{pins}/prog_weir_egress", PACKETS[name].frame)
            assert shaped.status()["backlog_bytes"] == len(PACKETS[name].frame)
            shaped.program_run(f"{pins}/prog_weir_peer", PACKETS[name].frame)
            assert shaped.status()["backlog_bytes"] == shaped.status()["backlog_packets"] == 0
        shaped.program_run(f"{pins}/prog_weir_peer", PACKETS["arp"].frame)
        assert shaped.status()["backlog_packets"] == 0
        assert shaped.status()["counters"]["strays"] == 1


FLOWS = ("share_least=1", "share_shift=24", "space_least=1", "space_most=2")
"""Drops and marks wait for large flows; counters halve so seldom that none does within a test."""
COUNTERS = 4096
"""Of an attachment."""


def _frame(network, transport) -> bytes:
    return bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / network / transport / Raw(b"weir" * 50))


def _flows(rig, pin: str) -> list[tuple[int, int]]:
    """Each counter beside a pinned program: the time it is of, and its bytes."""
    layout = struct.Struct("<" + "QII" * COUNTERS)
    counters = layout.unpack(rig.looked_up(f"{Path(pin).parent}/flows", layout.size))
    return list(zip(counters[0::3], counters[1::3], strict=True))


def _counted(rig, pin: str, frame: bytes) -> int:
    """The counter that a packet is added to. The kernel may send one of its own meanwhile, which is shorter."""
    before = _flows(rig, pin)
    rig.program_run(pin, frame)
    after = _flows(rig, pin)
    return max((number for number in range(COUNTERS) if after[number] != before[number]), key=lambda n: after[n][1])


def test_hits_wait_for_the_flow_that_sends_most(program):
    """At p = 1/2 a large flow is dropped or marked every second packet, and another one every fourth: no random number
    decides."""
    rig, attach, *_ = program
    with attach("--fixed-probability", "0.5", *FLOWS) as pin:
        frames = [_frame(IP(src="10.9.0.1", dst="10.9.0.2"), UDP(sport=1, dport=port)) for port in range(1, 10)]
        places = [_counted(rig, pin, frame) for frame in frames]
        small = next(frame for frame, place in zip(frames, places, strict=True) if place != places[0])
        for frame, packets_sent, share in ((frames[0], 1000, 2), (small, 40, 4)):
            before = rig.status()["counters"]
            rig.program_run(pin, frame, repeat=packets_sent)
            after = rig.status()["counters"]
            strays = after["seen_packets"] - before["seen_packets"] - packets_sent  # packets of the kernel itself
            dropped = after["dropped_aqm_packets"] - before["dropped_aqm_packets"]
            assert abs(dropped - packets_sent // share) <= strays + 1


def test_a_flow_is_told_by_addresses_protocol_and_ports(program):
    """Without ports, and in fragments, by what there is; by name by what is asked for; anything else is not counted."""
    rig, attach, *_ = program

    def named(**fields) -> bytes:
        return names.frame(names.Header(**{"kind": names.DATA, "prefix": 7, "name": 9} | fields), b"weir" * 50)

    four, six = IP(src="10.9.0.1", dst="10.9.0.2"), IPv6(src="fd00::1", dst="fd00::2")
    flows = {
        "udp": [_frame(four, UDP(sport=port, dport=9)) for port in range(1, 9)],
        "tcp": [_frame(four, TCP(sport=9, dport=port)) for port in range(1, 9)],
        "udp6": [_frame(six, UDP(sport=port, dport=9)) for port in range(1, 9)],
        "hosts": [_frame(IP(src="10.9.0.1", dst=f"10.9.0.{host}", proto=253), b"") for host in range(1, 9)],
        "hosts6": [_frame(IPv6(src="fd00::1", dst=f"fd00::{host}", nh=253), b"") for host in range(1, 9)],
        "prefixes": [named(prefix=prefix) for prefix in range(1, 9)],
        "names": [named(name=name << 32) for name in range(1, 9)],
        "kinds": [named(kind=kind) for kind in (names.INTEREST, names.DATA, names.NACK)],
    }
    one = {
        "fragments": [_frame(IP(src="10.9.0.1", dst="10.9.0.2", flags="MF"), UDP(sport=p, dport=9)) for p in (1, 2, 3)],
        "no ports": [_frame(IP(src="10.9.0.1", dst="10.9.0.2", proto=253), bytes([byte] * 8)) for byte in (1, 2, 3)],
        "no ports6": [_frame(IPv6(src="fd00::1", dst="fd00::2", nh=253), bytes([byte] * 8)) for byte in (1, 2, 3)],
        "dscp": [_frame(IP(src="10.9.0.1", dst="10.9.0.2", tos=tos, id=tos), UDP(sport=1, dport=9)) for tos in (0, 4)],
        "segments": [named(segment=segment, flags=segment, epoch=segment) for segment in (0, 1, 2)],
    }
    with attach("--fixed-probability", "0", *FLOWS) as pin:
        for name, frames in flows.items():
            # all in one of 4096 counters: with three once in 4096^2
            assert len({_counted(rig, pin, frame) for frame in frames}) > 1, name
            assert len({_counted(rig, pin, frames[0]) for _ in range(3)}) == 1, name
        for name, frames in one.items():
            assert len({_counted(rig, pin, frame) for frame in frames}) == 1, name
        before = _flows(rig, pin)
        rig.program_run(pin, PACKETS["arp"].frame)
        assert _flows(rig, pin) == before


def test_flows_are_not_counted_unless_hits_wait_for_them(program):
    rig, attach, *_ = program
    with attach("--fixed-probability", "0.5") as pin:
        rig.program_run(pin, PACKETS["ipv4-not_ect"].frame, repeat=100)
        assert set(_flows(rig, pin)) == {(0, 0)}
