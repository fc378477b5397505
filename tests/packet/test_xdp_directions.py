# SPDX-License-Identifier: Apache-2.0
"""A law for each direction of one interface: the second one has a folder of pins of its own."""

import json

import pytest
from class_rig import HIT, NEVER, NOT_ECT, frame

INGRESS = ("--pins", "/sys/fs/bpf/weir-ingress")
N = 20


@pytest.fixture
def pair(rig):
    rig.shape("100mbit")
    yield rig
    rig.weir("detach", "rb", check=False)
    rig.weir("detach", "rb", *INGRESS, check=False)
    rig.unshape()


def counters(rig, *pins: str) -> dict:
    return json.loads(rig.weir("status", "rb", "--json", *pins).stdout)["counters"]


def ping(rig) -> bool:
    return rig.sender.run("ping", "-c", "3", "-i", "0.05", "-W", "1", "10.9.0.2", check=False).returncode == 0


@pytest.mark.parametrize("leaving", [("--signal", "poll"), ("--rate", "100mbit", "--hook", "tc")])
def test_each_law_acts_on_its_own_direction(pair, leaving):
    pair.weir("attach", "rb", *leaving, *HIT)
    pair.weir("attach", "rb", "--rate", "100mbit", *INGRESS, *NEVER)
    assert pair.through([frame(1, NOT_ECT)] * N, patience_s=0.5) == []
    assert counters(pair)["dropped_aqm_packets"] == N
    assert counters(pair, *INGRESS)["dropped_aqm_packets"] == 0
    # exchanged: what leaves passes, and what comes back is dropped
    pair.weir("detach", "rb")
    pair.weir("attach", "rb", *leaving, *NEVER)
    assert ping(pair)
    pair.weir("detach", "rb", *INGRESS)
    pair.weir("attach", "rb", "--rate", "100mbit", *INGRESS, *HIT)
    assert not ping(pair)
    assert counters(pair)["dropped_aqm_packets"] == 0
    assert counters(pair, *INGRESS)["dropped_aqm_packets"] >= 3


def test_gains_and_detach_are_of_one_direction(pair):
    pair.weir("attach", "rb", "--signal", "poll")
    pair.weir("attach", "rb", "--rate", "47mbit", *INGRESS)
    pair.weir("set", "rb", "target=5ms", *INGRESS)
    assert pair.status()["gains"]["target_us"] == 15000
    pair.weir("detach", "rb")
    left = json.loads(pair.weir("status", "rb", "--json", *INGRESS).stdout)
    assert (left["gone"], left["hook"], left["gains"]["target_us"]) == (False, "xdp", 5000)
