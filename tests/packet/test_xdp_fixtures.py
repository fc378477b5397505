# SPDX-License-Identifier: Apache-2.0
"""Packet in, verdict and packet out, through BPF_PROG_TEST_RUN: no traffic needed."""

import math

import pytest
from packet_rig import NEARLY_ONE, by_name
from packets import packets

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
    """A function that attaches with a fixed U, and what it takes to run the program."""
    options, pin, passed, dropped = PROGRAMS[request.param]

    def attach(*more: object):
        return shaped.attached(*options, *more, profile="paper")

    return shaped, attach, pin, passed, dropped


def taken_by(pin: str) -> dict:
    """The packets the kernel can hand to this program here (the others go over the wire, in test_xdp_forwarding)."""
    return {name: p for name, p in PACKETS.items() if p.test_run or pin == "prog_weir_ingress"}


def test_zero_passes_every_packet_untouched(program, tmp_path):
    rig, attach, pin, passed, _ = program
    with attach("--fixed-probability", "0"):
        for name, packet in taken_by(pin).items():
            assert rig.program_run(pin, packet.frame, tmp_path) == (passed, packet.frame), name
        counters = rig.status()["counters"]
    assert counters["seen_packets"] == counters["passed_packets"] == len(taken_by(pin))
    assert counters["non_ip_packets"] == sum(not p.ip for p in taken_by(pin).values())


def test_one_drops_all_ip_and_nothing_else(program, tmp_path):
    rig, attach, pin, passed, dropped = program
    with attach("--fixed-probability", "1"):
        for name, packet in taken_by(pin).items():
            verdict, frame = rig.program_run(pin, packet.frame, tmp_path)
            assert verdict == (dropped if packet.ip else passed), name
            assert frame == packet.frame, name
        counters = rig.status()["counters"]
    assert counters["dropped_aqm_packets"] == sum(p.ip for p in taken_by(pin).values())


def test_below_the_bound_ect_is_marked_and_the_rest_dropped(program, tmp_path):
    rig, attach, pin, passed, dropped = program
    with attach("--fixed-probability", NEARLY_ONE, "ecn_bound=1"):
        for name, packet in taken_by(pin).items():
            verdict, frame = rig.program_run(pin, packet.frame, tmp_path)
            if not packet.ip:
                assert (verdict, frame) == (passed, packet.frame), name
            elif packet.marked:
                assert verdict == passed, name
                assert frame == packet.marked, name
            else:
                assert (verdict, frame) == (dropped, packet.frame), name
        counters = rig.status()["counters"]
    assert counters["marked_packets"] == sum(p.marked is not None for p in taken_by(pin).values())


def test_at_the_bound_ect_is_dropped(program, tmp_path):
    rig, attach, pin, _, dropped = program
    with attach("--fixed-probability", "1", "ecn_bound=1"):
        assert rig.program_run(pin, PACKETS["ipv4-ect0"].frame, tmp_path)[0] == dropped


@pytest.mark.parametrize("probability", ["linear", "squared"])
@pytest.mark.parametrize("u", [0.03, 0.1, 0.5, 0.97])
def test_drop_rate_is_within_the_binomial_bound(program, tmp_path, probability, u):
    rig, attach, pin, *_ = program
    repeat = 200_000
    with attach("--fixed-probability", u, f"probability={probability}"):
        rig.program_run(pin, PACKETS["ipv4-not_ect"].frame, tmp_path, repeat)
        counters = rig.status()["counters"]
    p = u * u if probability == "squared" else u
    sigma = math.sqrt(counters["seen_packets"] * p * (1 - p))
    assert counters["seen_packets"] >= repeat
    assert abs(counters["dropped_aqm_packets"] - counters["seen_packets"] * p) <= 5 * sigma


@pytest.mark.parametrize("hook", ["tc", "xdp"])
def test_the_virtual_queue_holds_no_more_than_its_limit(shaped, tmp_path, hook):
    frame = PACKETS["ipv4_full-not_ect"].frame
    pin = "prog_weir_ingress" if hook == "xdp" else "prog_weir_egress"
    options = ("--rate", "8kbit", "--hook", hook, "--limit-bytes", 10 * len(frame), "--fixed-probability", "0")
    with shaped.attached(*options):
        shaped.program_run(pin, frame, tmp_path, repeat=1000)
        counters = shaped.status()["counters"]
    # 1 kB/s drain far less than one packet while a thousand are run
    assert counters["passed_packets"] in (10, 11)
    assert counters["dropped_limit_packets"] == counters["seen_packets"] - counters["passed_packets"]


def test_the_veth_queue_holds_no_more_than_its_limits(shaped, tmp_path):
    frame = PACKETS["arp"].frame  # the limit is for all packets, IP or not
    for limit, least in (("--limit-packets", 7), ("--limit-bytes", 7 * len(frame))):
        with shaped.attached("--peer", "ra", "--fixed-probability", "0", limit, least):
            shaped.program_run("prog_weir_egress", frame, tmp_path, repeat=100)
            status = shaped.status()
        assert status["backlog_packets"] == 7
        assert status["counters"]["dropped_limit_packets"] == status["counters"]["seen_packets"] - 7


def test_an_arrival_and_its_departure_cancel(shaped, tmp_path):
    with shaped.attached("--peer", "ra", "--fixed-probability", "0"):
        for name in ("ipv4-ect0", "vlan_ipv4-ect0", "arp", "qinq_ipv6-ce", "ipv4_full-ect1"):
            shaped.program_run("prog_weir_egress", PACKETS[name].frame, tmp_path)
            assert shaped.status()["backlog_bytes"] == len(PACKETS[name].frame)
            shaped.program_run("prog_weir_peer", PACKETS[name].frame, tmp_path)
            assert shaped.status()["backlog_bytes"] == shaped.status()["backlog_packets"] == 0
        shaped.program_run("prog_weir_peer", PACKETS["arp"].frame, tmp_path)
        assert shaped.status()["backlog_packets"] == 0
        assert shaped.status()["counters"]["strays"] == 1
