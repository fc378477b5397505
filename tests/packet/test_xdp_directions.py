# SPDX-License-Identifier: Apache-2.0
"""A law for each direction of one interface: DEV is the one at egress, DEV/ingress that of packets that arrive."""

import json
import subprocess

import pytest
from class_rig import HIT, NEVER, NOT_ECT, frame
from daemon_rig import Daemon, attached
from packet_rig import WEIR, until

INGRESS = "rb/ingress"
N = 20


@pytest.fixture
def pair(rig):
    rig.shape("100mbit")
    yield rig
    rig.weir("detach", "rb/egress", check=False)
    rig.weir("detach", INGRESS, check=False)
    rig.unshape()


def status(rig, dev: str) -> dict:
    return json.loads(rig.weir("status", dev, "--json").stdout)


def dropped(rig, dev: str) -> int:
    return status(rig, dev)["counters"]["dropped_aqm_packets"]


def names(rig) -> list[str]:
    return [one["dev"] for one in json.loads(rig.weir("status", "--json").stdout)]


def ping(rig) -> bool:
    return rig.sender.run("ping", "-c", "3", "-i", "0.05", "-W", "1", "10.9.0.2", check=False).returncode == 0


@pytest.mark.parametrize("leaving", [("--signal", "poll"), ("--rate", "100mbit", "--hook", "tc")])
def test_each_law_acts_on_its_own_direction(pair, leaving):
    pair.weir("attach", "rb", *leaving, *HIT)
    pair.weir("attach", "rb", "--rate", "100mbit", *NEVER)
    assert pair.through([frame(1, NOT_ECT)] * N, patience_s=0.5) == []
    assert dropped(pair, "rb") == N
    assert dropped(pair, INGRESS) == 0
    # exchanged: packets that leave pass, and those that arrive are dropped
    pair.weir("detach", "rb")
    pair.weir("attach", "rb", *leaving, *NEVER)
    assert ping(pair)
    pair.weir("detach", INGRESS)
    pair.weir("attach", INGRESS, "--rate", "100mbit", *HIT)
    assert not ping(pair)
    assert dropped(pair, "rb") == 0
    assert dropped(pair, INGRESS) >= 3


def test_gains_and_detach_are_of_one_direction(pair):
    pair.weir("attach", INGRESS, "--rate", "47mbit")
    pair.weir("attach", "rb", "--signal", "poll")
    assert sorted(names(pair)) == ["rb", INGRESS]
    pair.weir("set", INGRESS, "target=5ms")
    pair.weir("set", "rb", "target=7ms")
    assert {dev: status(pair, dev)["gains"]["target_us"] for dev in ("rb", "rb/egress", INGRESS)} == {
        "rb": 7000,
        "rb/egress": 7000,
        INGRESS: 5000,
    }
    pair.weir("detach", "rb")
    left = status(pair, INGRESS)
    assert (left["gone"], left["hook"], left["gains"]["target_us"]) == (False, "xdp", 5000)
    # alone it needs no direction, unless the other one is asked for
    assert status(pair, "rb")["hook"] == "xdp"
    assert pair.weir("detach", "rb/egress", check=False).returncode == 1
    pair.weir("set", "rb", "target=6ms")
    assert status(pair, INGRESS)["gains"]["target_us"] == 6000
    pair.weir("detach", INGRESS)
    assert names(pair) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("rb", "--signal", "poll"), (INGRESS, "--rate", "47mbit")),
        ((INGRESS, "--rate", "47mbit"), ("rb/egress", "--signal", "poll")),
        (("rb", "--signal", "poll"), ("rb", "--rate", "47mbit")),
        (("rb", "--rate", "47mbit"), ("rb", "--signal", "poll")),
    ],
)
@pytest.mark.parametrize("command", ["attach", "ensure"])
def test_detach_removes_only_the_law_of_its_name(pair, command, first, second):
    pair.weir(command, *first)
    pair.weir(command, *second)
    pair.weir("detach", "rb")
    for _ in range(2):
        again = pair.weir("detach", "rb", check=False)
        assert again.returncode == 1
        assert INGRESS in again.stderr
        assert names(pair) == [INGRESS]
    pair.weir("detach", INGRESS)
    assert names(pair) == []


def test_pins_of_the_other_direction_stay(pair):
    pair.weir("attach", "rb", "--signal", "poll")
    pair.weir("attach", "rb", "--rate", "47mbit")
    try:
        pair.weir("detach", "rb", "--pins-only")
        assert pair.weir("detach", "rb", "--pins-only", check=False).returncode == 1
        assert names(pair) == [INGRESS]
    finally:
        pair.router.run("tc", "qdisc", "del", "dev", "rb", "clsact", check=False)


def test_a_law_at_ingress_that_was_attached_as_dev_is_detached_as_dev(pair):
    """Until a law at egress has the name."""
    pair.weir("attach", "rb", "--rate", "47mbit")
    pair.weir("detach", "rb")
    assert names(pair) == []


def test_ensure_is_of_one_direction(pair):
    for command in (("rb", "--signal", "poll"), (INGRESS, "--rate", "47mbit")):
        assert json.loads(pair.weir("ensure", *command, "--json").stdout)["did"] == "attached"
    for command in (("rb",), (INGRESS,), ("rb", "--rate", "47mbit"), ("rb", "--signal", "poll")):
        assert json.loads(pair.weir("ensure", *command, "--json").stdout)["did"] == "adopted", command
    pair.weir("detach", "rb")
    assert json.loads(pair.weir("ensure", INGRESS, "target=5ms", "--json").stdout)["did"] == "replaced"
    assert json.loads(pair.weir("ensure", "rb", "target=6ms", "--json").stdout)["did"] == "attached"
    assert {dev: status(pair, dev)["gains"]["target_us"] for dev in names(pair)} == {"rb": 6000, INGRESS: 5000}
    # the root qdisc is no queue of packets that arrive
    pair.unshape()
    assert json.loads(pair.weir("ensure", INGRESS, "--json").stdout)["did"] == "adopted"


def test_a_name_stays_with_the_law_that_it_was_found_for(pair):
    pair.weir("attach", "rb", "--signal", "poll")
    pair.weir("attach", INGRESS, "--rate", "47mbit")
    watch = pair.router.start(WEIR, "watch", "rb", "--follow", "--every-ms", "10", stdout=subprocess.PIPE)
    try:
        while json.loads(watch.stdout.readline())["k"] != "aqm":
            pass
        pair.weir("detach", "rb")
        while json.loads(watch.stdout.readline())["k"] != "gone":
            pass
        pair.weir("attach", "rb", "--signal", "poll")
        while (line := json.loads(watch.stdout.readline()))["k"] != "new":
            pass
        assert line["attach_id"] == status(pair, "rb/egress")["attach_id"]
    finally:
        watch.kill()
        watch.wait()


def test_a_shaper_does_not_get_a_virtual_law(pair):
    pair.unshape()
    pair.weir("attach", "rb", "--rate", "25mbit", "--hook", "tc")
    assert pair.weir("ensure", "rb", "--shape", "10mbit", "--no-bands", check=False).returncode == 1
    assert status(pair, "rb")["signal"] == "virtual"


def test_a_law_whose_interface_moved_lets_all_pass_after_detach(pair):
    """XDP programs go with an interface to another namespace; the pins stay behind."""
    pair.router.sh("ip link add mv0 type veth peer name mv1; ip link set mv0 up; ip link set mv1 up")
    pair.weir("attach", "mv0/ingress", "--rate", "100mbit", *HIT)
    pin = status(pair, "mv0/ingress")["pins"]
    held = pair.router.sh(f"bpftool -j map show pinned {pin}/config")
    pair.router.sh("ip netns add moved; ip link set mv0 netns moved")
    try:
        pair.weir("detach", "mv0/ingress")
        number = json.loads(held)["id"]
        left = pair.router.run("bpftool", "-j", "map", "dump", "id", str(number), check=False).stdout
        assert left.strip() in ("", "[]") or "error" in left
    finally:
        pair.router.run("ip", "netns", "del", "moved", check=False)


@pytest.mark.parametrize(
    "words",
    [
        (INGRESS, "--hook", "tc", "--rate", "1mbit"),
        ("rb/egress", "--hook", "xdp", "--rate", "1mbit"),
        (INGRESS, "--signal", "poll"),
        (INGRESS, "--shape", "1mbit", "--no-bands"),
        (INGRESS,),
        ("rb/in", "--rate", "1mbit"),
    ],
)
def test_a_direction_that_the_options_contradict_is_rejected(pair, words):
    refused = pair.weir("attach", *words, check=False)
    assert refused.returncode in (1, 2)
    assert words[0].partition("/")[0] in refused.stderr
    assert names(pair) == []


TABLES = """
["rb/ingress"]
rate = "47mbit"
[rb]
target = "7ms"
"""


def test_the_daemon_keeps_both_and_removes_the_one_no_table_asks_for(pair, tmp_path):
    daemon = Daemon(pair, tmp_path)
    try:
        daemon.configure(TABLES)
        daemon.start()
        until(lambda: attached(pair) and attached(pair, INGRESS), "both laws", 60)
        daemon.looked(INGRESS)
        assert [status(pair, dev)["gains"]["target_us"] for dev in ("rb/egress", INGRESS)] == [7000, 15000]
        assert daemon.metric("attached", dev=INGRESS) == daemon.metric("attached", dev="rb") == 1
        pair.weir("detach", INGRESS)
        until(lambda: daemon.metric("mended_total", dev=INGRESS) == 1, "the law at ingress again", 60)
        assert daemon.stop() == 0
        daemon.configure('[rb]\nsignal = "poll"\n')
        daemon.start()
        until(lambda: not attached(pair, INGRESS), "removal of the law at ingress", 60)
        assert status(pair, "rb")["hook"] != "xdp"
    finally:
        daemon.stop()


@pytest.mark.parametrize("other", ['["rb/ingress"]\nrate = "1mbit"\n', '[rb]\nrate = "2mbit"\n'])
def test_two_tables_of_one_direction_are_rejected(pair, tmp_path, other):
    file = tmp_path / "xdp.toml"
    file.write_text('[rb]\nrate = "1mbit"\n' + other)
    refused = pair.weir("daemon", "--config", str(file), check=False)
    assert refused.returncode != 0
    assert f"{file}:3" in refused.stderr
