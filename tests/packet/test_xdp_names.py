# SPDX-License-Identifier: Apache-2.0
"""An interface that is renamed while it has a law, and another that gets its name: commands go by the interface."""

import json

import pytest
from packet_rig import HOOKS, Failed

FIRST, NOW, PEERS = "name0", "name9", ("name1", "name2")


@pytest.fixture
def renamed(rig):
    """A law on an interface that was `name0` and is `name9`; another interface is `name0`."""
    rig.router.sh(
        f"ip link add {FIRST} type veth peer name {PEERS[0]}; ip link set {FIRST} up; ip link set {PEERS[0]} up"
    )
    rig.weir("attach", FIRST, "--shape", "10mbit", "--no-bands")
    rig.router.sh(
        f"ip link set {FIRST} down; ip link set {FIRST} name {NOW}; ip link set {NOW} up;"
        f"ip link add {FIRST} type veth peer name {PEERS[1]}; ip link set {FIRST} up; ip link set {PEERS[1]} up"
    )
    yield rig
    for name in (FIRST, NOW):
        rig.weir("detach", name, check=False)
        rig.router.run("ip", "link", "del", name, check=False)
    rig.router.sh("rm -rf /sys/fs/bpf/weir")


def state(rig) -> dict:
    return {
        key: value for key, value in rig.status(NOW).items() if key in ("gone", "gains", "shape_bit_s", "config_id")
    }


@pytest.mark.parametrize("words", [("status",), ("set", "target=3ms"), ("detach",), ("watch", "--count", "1")])
def test_the_other_interface_has_no_law(renamed, words):
    before = state(renamed)
    with pytest.raises(Failed) as failure:
        renamed.weir(words[0], FIRST, *words[1:])
    assert failure.value.status == 1
    assert NOW in failure.value.stderr
    assert state(renamed) == before
    assert "htb 7e1d:" in renamed.router.sh(f"tc qdisc show dev {NOW}")


def test_laws_of_both_are_told_apart(renamed):
    renamed.weir("attach", FIRST, "--shape", "20mbit", "--no-bands", "target=7ms")
    renamed.weir("set", FIRST, "target=3ms")
    listed = {one["dev"]: one["gains"]["target_us"] for one in json.loads(renamed.weir("status", "--json").stdout)}
    assert listed == {FIRST: 3000, NOW: 15000}
    lines = renamed.weir("watch", "--all", "--count", "1", "--every-ms", "1").stdout.splitlines()
    assert {one["dev"] for one in map(json.loads, lines) if one["k"] == "aqm"} == {FIRST, NOW}
    renamed.weir("detach", FIRST)
    assert [one["dev"] for one in json.loads(renamed.weir("status", "--json").stdout)] == [NOW]


def test_a_law_of_a_class(renamed):
    renamed.weir("detach", NOW)
    renamed.router.sh(
        f"tc qdisc add dev {NOW} root handle 1: htb; tc class add dev {NOW} parent 1: classid 1:10 htb rate 1mbit;"
        f"tc qdisc add dev {NOW} parent 1:10 pfifo limit 100"
    )
    renamed.weir("attach", f"{NOW}/1:10")
    renamed.router.sh(f"ip link set {NOW} down; ip link set {NOW} name name8")
    try:
        with pytest.raises(Failed):
            renamed.weir("set", f"{NOW}/1:10", "target=3ms")
        renamed.weir("set", "name8/1:10", "target=4ms")
        assert [one["dev"] for one in json.loads(renamed.weir("status", "--json").stdout)] == ["name8/1:10"]
    finally:
        renamed.weir("detach", "name8", check=False)
        renamed.router.sh(f"ip link set name8 name {NOW}")


@pytest.mark.parametrize("hook", HOOKS)
def test_in_another_namespace(rig, hook):
    """By its path the same: the old name has no law, the new one has."""
    far = rig.receiver.netns
    rig.receiver.sh("ip link add name0 type veth peer name name1")
    try:
        rig.weir("attach", "name0", "--netns", far, "--rate", "1mbit", "--hook", hook)
        rig.receiver.sh("ip link set name0 name name9")
        with pytest.raises(Failed):
            rig.weir("set", "name0", "--netns", far, "target=3ms")
        with pytest.raises(Failed):
            rig.weir("set", "name0", "target=3ms")  # nor anywhere
        assert [one["dev"] for one in json.loads(rig.weir("status", "--json").stdout)] == [f"name9@{far}"]
        rig.weir("detach", f"name9@{far}")
    finally:
        rig.receiver.sh("ip link del name9")
