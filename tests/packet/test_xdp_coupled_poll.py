# SPDX-License-Identifier: Apache-2.0
"""Two coupled bands whose queues a process polls: htb and prio, marks by delay and by U, the share of C, the shaper,
`ensure`, and combinations that are refused (docs/design/coupled.md)."""

import json
import os
import select
import signal
import subprocess
import time

import pytest
from packet_rig import PROFILES, Failed, take, until
from test_xdp_coupled import (
    CE,
    CLASSES,
    CLASSIC,
    ECT0,
    ECT1,
    FAST,
    LOW,
    MARKED,
    NOT_ECT,
    PACKETS,
    SLOW,
    VERY_SLOW,
    class_packets,
    marks_by_a_queue_in_c,
    spread,
    through_both,
    through_low,
    two_classes,
)

UNBOUNDED = ("delay_bound_share=0", "delay_bound_slope=0", "delay_limit_share=0")
PASSING = ("--fixed-probability", 0)
STRICT = {"rate": "2mbit", "low": "1kbit", "share": "1kbit", "low_prio": 0}
NO_RAMP = "ramp_least_us=16777215"
PRIO = (
    "tc qdisc add dev rb root handle 1: htb default 1;"
    "tc class add dev rb parent 1: classid 1:1 htb rate {rate} burst 1540;"
    "tc qdisc add dev rb parent 1:1 handle 10: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1;"
    "tc qdisc add dev rb parent 10:1 handle 11: pfifo limit 5000;"
    "tc qdisc add dev rb parent 10:2 handle 12: pfifo limit 5000"
)


def prio(rig, rate: str) -> None:
    """A shaper of somebody else, with prio below it."""
    rig.unshape()
    try:
        rig.router.sh(PRIO.format(rate=rate))
    except (Failed, subprocess.CalledProcessError):
        rig.unshape()
        pytest.skip("this kernel has no prio")


@pytest.fixture
def bands(rig):
    two_classes(rig)
    yield lambda *more: rig.attached("--signal", "poll", "--coupled", *more)
    rig.unshape()


def collect(tap) -> list[bytes]:
    """Frames until no more come."""
    came = []
    while select.select([tap], [], [], 3)[0]:
        if (frame := take(tap)) is not None:
            came.append(frame)
    return came


def learn_rate(rig) -> None:
    """Keeps both bands busy until the process knows the line's rate."""
    out = rig.sender.tap("a0")
    with out:
        for _ in range(60):
            out.send(ECT0)
        until(lambda: rig.status()["dq_rate_bit_s"] > 0, "the rate is known")
        until(lambda: rig.backlog_bytes() == 0, "all packets have left", 30)


@pytest.mark.parametrize("tree", [two_classes, lambda rig: prio(rig, "1gbit")], ids=["htb", "prio"])
def test_each_packet_goes_into_its_band_and_comes_out_as_it_was(rig, tree):
    tree(rig)
    with rig.attached("--signal", "poll", "--coupled", *PASSING, NO_RAMP):
        before, status = class_packets(rig), rig.status()
        frames = [packet.frame for packet in PACKETS.values()]
        assert sorted(through_both(rig, frames)) == sorted(frames)
        after, now = class_packets(rig), rig.status()
    low, classic = now["coupled"]["class_low"], now["coupled"]["class_classic"]
    assert (now["low"]["seen"], now["classic"]["seen"]) == (len(LOW), len(CLASSIC))
    assert now["signal"] == "poll"
    if low in after:  # `tc -s class` has those of htb
        assert (after[low] - before[low], after[classic] - before[classic]) == (len(LOW), len(CLASSIC))
    assert "trouble" not in status
    rig.unshape()


def test_marks_in_l_are_k_times_u_and_those_in_c_the_square(rig, bands):
    count = 3000
    with bands("--fixed-probability", 0.2, "ecn_bound=1", "min_backlog_bytes=0", "min_delay_share=0", NO_RAMP):
        low = through_low(rig, [ECT1] * count)
        classic = rig.through([ECT0] * count)
        others = rig.through([NOT_ECT] * count)
        assert set(rig.through([CE] * 10)) == {CE}
    assert set(low) == {ECT1, MARKED}
    assert len(low) == count
    assert low.count(MARKED) / count == pytest.approx(0.4, abs=spread(0.4, count))
    assert len(classic) == count
    assert 1 - classic.count(ECT0) / count == pytest.approx(0.04, abs=spread(0.04, count))
    assert 1 - len(others) / count == pytest.approx(0.04, abs=spread(0.04, count))


def test_a_queue_in_c_marks_l(rig, bands):
    two_classes(rig, SLOW)
    with bands(NO_RAMP):
        learn_rate(rig)
        marked = marks_by_a_queue_in_c(rig)
        status = rig.status()
        until(lambda: rig.backlog_bytes() == 0, "all frames have left", 60)
    assert 0 < marked <= status["low"]["marks"]


def test_overload_drops_in_l_as_in_c_and_marks_what_is_left(rig, bands):
    count = 3000
    with bands("--fixed-probability", 0.5, "min_backlog_bytes=0", "min_delay_share=0"):
        came = through_low(rig, [ECT1] * count)
    assert set(came) == {MARKED}
    assert 1 - len(came) / count == pytest.approx(0.25, abs=spread(0.25, count))


def test_a_queue_of_l_is_marked_by_its_own_law_while_u_is_0(rig, bands):
    """All packets are sent within one interval of the process: the program itself counts what joins."""
    two_classes(rig, VERY_SLOW)
    with bands(*PASSING, "interval_us=300000", "--expert"):
        learn_rate(rig)
        came = through_both(rig, [ECT1] * 20)
    assert len(came) == 20
    assert came[:2] == [ECT1, ECT1]
    assert came[-10:] == [MARKED] * 10


def test_a_flood_of_l_leaves_c_its_share_under_strict_priority(rig, bands):
    """A flood of L while C waits, and U frozen at 0. Neither class has a rate of its own."""
    two_classes(rig, STRICT)
    with bands(*PASSING, NO_RAMP, *UNBOUNDED):
        learn_rate(rig)
        out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
        with out, back:
            for _ in range(200):
                out.send(NOT_ECT)
            waits_since = time.monotonic()
            until(lambda: rig.status()["poll"]["silent_us"] / 1e6 < time.monotonic() - waits_since, "C is seen to wait")
            for _ in range(40):
                for frame in [ECT1] * 10 + [NOT_ECT]:
                    out.send(frame)
            came = collect(back)
        status = rig.status()
    assert came.count(NOT_ECT) == 240
    assert 400 - came.count(ECT1) == status["low"]["drops_limit"] > 0
    assert status["classic"]["drops_limit"] == 0


def test_after_the_death_of_the_process_l_is_marked_no_more_and_ensure_starts_another(rig, bands):
    with bands("ramp_us=1", "ramp_least_us=0", "floor_bytes=0"):
        pid = rig.status()["poll"]["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: rig.weir("ensure", "rb", "--look", check=False).returncode == 3, "the process is dead")
        assert through_low(rig, [ECT1] * 100) == [ECT1] * 100
        assert "process" in json.loads(rig.weir("ensure", "rb", "--json").stdout)["what"]
        assert rig.status()["poll"]["pid"] != pid


def test_a_tree_that_changes_passes_packets_to_the_default_class_unmarked(rig, bands):
    with bands("--fixed-probability", 1):
        assert rig.through([ECT1] * 20) == []
        rig.router.sh("tc class change dev rb parent 1:1 classid 1:10 htb rate 900mbit ceil 1gbit prio 3")
        until(lambda: "trouble" in rig.status(), "the change is seen")
        until(lambda: rig.through([ECT1] * 20) == [ECT1] * 20, "packets pass")
        assert rig.status()["counters"]["unusable"] > 0
    assert rig.through([ECT1] * 20) == [ECT1] * 20


def test_the_shaper_has_both_bands_and_detach_removes_it(rig):
    rig.unshape()
    rig.weir("attach", "rb", "--shape", "95mbit", "--coupled", *PASSING, NO_RAMP)
    try:
        coupled, gains = rig.status()["coupled"], rig.status()["gains"]
        assert (coupled["class_low"], coupled["class_classic"]) == ("7e21:2", "7e21:3")
        assert gains["target_us"] == 10000  # profile coupled
        shown = rig.router.run("tc", "class", "show", "dev", "rb").stdout
        assert "ceil 85500Kbit" in shown
        frames = [packet.frame for packet in PACKETS.values()]
        assert sorted(through_both(rig, frames)) == sorted(frames)
        said = json.loads(rig.weir("ensure", "rb", "--shape", "95mbit", "--coupled", "--json").stdout)
        assert said["did"] == "adopted"
        said = json.loads(rig.weir("ensure", "rb", "--shape", "50mbit", "--coupled", "--json").stdout)
        assert (said["did"], "shaper" in said["what"]) == ("replaced", True)
        assert "ceil 45Mbit" in rig.router.run("tc", "class", "show", "dev", "rb").stdout
    finally:
        rig.weir("detach", "rb")
    assert "htb" not in rig.router.run("tc", "qdisc", "show", "dev", "rb").stdout


def test_ensure_makes_coupled_bands_of_one_queue_and_keeps_their_settings(rig):
    rig.unshape()
    rig.weir("attach", "rb", "--shape", "95mbit")
    try:
        said = json.loads(rig.weir("ensure", "rb", "--shape", "95mbit", "--coupled", "--json").stdout)
        assert said["did"] == "replaced"
        status = rig.status()
        assert (status["coupled"]["coupling"], status["coupled"]["floor_bytes"]) == (2, 3028)
        assert status["gains"]["target_us"] == 10000
        rig.weir("set", "rb", "coupling=3")
        assert json.loads(rig.weir("ensure", "rb", "--json").stdout)["did"] == "adopted"
        assert rig.status()["coupled"]["coupling"] == 3
        assert set(rig.through([ECT0] * 5)) == {ECT0}
    finally:
        rig.weir("detach", "rb")


def refused(rig, *words) -> bool:
    words = [rig.peer if word == "PEER" else word for word in words]
    failed = rig.weir("attach", "rb", "--gains", PROFILES / "coupled.toml", *words, check=False)
    with pytest.raises(Failed):
        rig.status()
    return failed.returncode in (1, 2) and len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--signal", "backlog", "--coupled"),
        ("--coupled", "--rate", "10mbit"),
        ("--coupled", "--whole-tree"),
        ("--coupled", "--leaf-aqm", "off"),
        ("--coupled", "--bands"),
        ("--coupled", "--flow-records"),
        ("--coupled", "--limit-packets", "100"),
        ("--coupled", "1:10,1:20", "--shape", "10mbit"),
        ("--coupled", "--shape", "10mbit", "--flows"),
        ("--coupled", "1:20,1:10"),
        ("--coupled", "1:10,1:30"),
    ],
)
def test_combinations_that_cannot_be_are_refused(rig, words):
    if "--shape" in words:
        rig.unshape()
    else:
        two_classes(rig)
    assert refused(rig, *words)
    rig.unshape()


def test_other_trees_are_refused(rig):
    three = CLASSES.format(**FAST) + ";tc class add dev rb parent 1:1 classid 1:30 htb rate 1mbit"
    flow_queues = CLASSES.format(**SLOW).replace("1:20 handle 20: pfifo limit 5000", "1:20 handle 20: sfq")
    for tree in (three, flow_queues, "tc qdisc add dev rb root handle 1: tbf rate 10mbit burst 5k limit 100000"):
        rig.unshape()
        try:
            rig.router.sh(tree)
        except (Failed, subprocess.CalledProcessError):
            continue
        assert refused(rig, "--coupled")
    prio(rig, "10mbit")
    assert refused(rig, "--coupled", "--peer", "PEER")
    rig.unshape()
