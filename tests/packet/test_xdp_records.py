# SPDX-License-Identifier: Apache-2.0
"""Records of flows and kinds of packets: traffic of several hosts through each program, and the counts of `flows`."""

import json

import pytest
from packet_rig import BACKLOG, PROFILES, Failed, until
from scapy.all import IP, TCP, UDP, Dot1Q, Ether, IPv6, Raw

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ONE_IN = 16


def udp(host: str, port: int, size: int = 1000, below=ETHER) -> bytes:
    to = IPv6(src=host, dst="fd00::99") if ":" in host else IP(src=host, dst="10.9.0.2")
    frame = below / to / UDP(sport=port, dport=9)
    return bytes(frame / Raw(bytes(size - len(frame))))


def flows(rig, dev: str = "rb") -> dict:
    return json.loads(rig.weir("flows", dev, "--json").stdout)


def by_source(found: dict) -> dict[tuple[str, int], dict]:
    return {(flow["source"], flow["source_port"]): flow for flow in found["flows"]}


PASSING = ("--flow-records", "--fixed-probability", "0")


@pytest.mark.parametrize("signal", ["poll", BACKLOG, "veth", "bands", "virtual"])
def test_flows_of_hosts_have_their_share(rig, signal):
    words = {
        "poll": ("--signal", "poll"), "backlog": ("--signal", "backlog"), "veth": ("--peer", rig.peer),
        "bands": ("--bands",), "virtual": ("--rate", "1gbit", "--hook", "tc"),
    }[signal]  # fmt: skip
    rig.unshape()
    if signal in ("poll", "backlog", "bands"):
        words += ("--shape", "1gbit")
    sent = []
    for i in range(1600):
        sent.append(udp("10.9.0.7", 7))
        sent.append(udp("fd00::8" if i % 2 else "10.9.0.9", 8))
    with rig.attached(*words, *PASSING):
        rig.through(sent)
        found = flows(rig)
    seen = by_source(found)
    print(json.dumps(found)[:3000])
    assert found["sample_one_in"] == ONE_IN
    assert set(seen) == {("10.9.0.7", 7), ("fd00::8", 8), ("10.9.0.9", 8)}
    assert seen["10.9.0.7", 7]["sampled_packets"] == pytest.approx(1600 / ONE_IN, abs=20)
