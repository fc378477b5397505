# SPDX-License-Identifier: Apache-2.0
"""Flows that the eBPF programs see in fragments, tunnels and tags (docs/design/flows.md), by packets on real
interfaces."""

import pytest
from flow_frames import ETHER, N, cases, others
from flow_rig import PROGRAMS, Counting
from scapy.all import UDP, IPv6

CASES = cases()


@pytest.fixture(scope="module", params=PROGRAMS)
def counting(request, rig):
    counting = Counting(rig, request.param)
    yield counting
    counting.close()


@pytest.mark.parametrize("name", CASES)
def test_packets_count_for_their_flow(counting, name):
    """Two of N flows may share a counter, and one flow that of LAST."""
    case = CASES[name]
    assert counting.flows(case.one) <= 1
    if case.many:
        assert N - 2 <= counting.flows(case.many) <= N


def test_a_flow_label_stands_for_ports_at_tc(counting):
    """RFC 6437; the kernel's hash takes it, a program of XDP reads the ports."""
    labels = [bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2", fl=i + 1) / UDP(sport=7, dport=9)) for i in range(N)]
    ports = [bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2", fl=7) / UDP(sport=i, dport=9)) for i in range(N)]
    many, one = (labels, ports) if counting.dev == "rb" else (ports, labels)
    assert counting.flows(one) <= 1
    assert counting.flows(many) >= N - 2


@pytest.mark.parametrize("name", others())
def test_packets_outside_the_law_are_counted_as_such(counting, name):
    frames = others()[name]
    before = counting.status()["counters"]
    assert counting.flows(frames) <= 1
    after = counting.status()["counters"]
    assert after["non_ip_packets"] - before["non_ip_packets"] == len(frames) + 1
    assert after["seen_packets"] - before["seen_packets"] == len(frames) + 1
