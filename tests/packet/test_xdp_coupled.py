# SPDX-License-Identifier: Apache-2.0
"""Two coupled bands on a real htb: which packets go where, what is marked and dropped, who is served first, and which
trees are refused (docs/design/coupled.md)."""

import functools
import json
import math
import select
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest
from packet_rig import HOOKS, LAST, PROFILES, REPO, Failed, receive, take, until
from packets import packets

PACKETS = packets()
LOW = [name for name in PACKETS if name.endswith(("-ect1", "-ce"))]
CLASSIC = [name for name in PACKETS if name not in LOW]
TUNED = PROFILES / "tuned.toml"
ECT1, ECT0, NOT_ECT, CE = (PACKETS[f"ipv4_full-{name}"].frame for name in ("ect1", "ect0", "not_ect", "ce"))
MARKED = PACKETS["ipv4_full-ect1"].marked

CLASSES = (
    "tc qdisc add dev rb root handle 1: htb default 20; tc class add dev rb parent 1: classid 1:1 htb rate {rate};"
    "tc class add dev rb parent 1:1 classid 1:10 htb rate {low} ceil {rate} burst 1540 cburst 1540 prio {low_prio};"
    "tc class add dev rb parent 1:1 classid 1:20 htb rate {share} ceil {rate} burst 1540 cburst 1540 prio 1;"
    "tc qdisc add dev rb parent 1:10 handle 10: pfifo limit 5000;"
    "tc qdisc add dev rb parent 1:20 handle 20: pfifo limit 5000"
)


FAST = {"rate": "1gbit", "low": "900mbit", "share": "100mbit", "low_prio": 0}
SLOW = {"rate": "10mbit", "low": "9mbit", "share": "1mbit", "low_prio": 0}
VERY_SLOW = {"rate": "200kbit", "low": "180kbit", "share": "20kbit", "low_prio": 0}
"""16 packets a second, so that those sent at once wait together although their sender waits for its processor."""


def two_classes(rig, speed=FAST):
    rig.unshape()
    rig.router.sh(CLASSES.format(**speed))


def through_both(rig, frames: list[bytes], patience_s: float = 10.0) -> list[bytes]:
    """As Rig.through, for frames of which some are served before LAST and some after it."""
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    came = []
    with out, back:
        for frame in frames:
            out.send(frame)
        while len(came) < len(frames) and select.select([back], [], [], patience_s)[0]:
            if (data := take(back)) is not None:
                came.append(data)
    return came


def through_low(rig, frames: list[bytes]) -> list[bytes]:
    """As Rig.through, for frames of L. LAST is in C, and htb serves it before frames of L that borrow: when the classes
    are empty, a second LAST is sent, which nothing can be behind."""
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    with out, back:
        for frame in [*frames, LAST]:
            out.send(frame)
        came = receive(back)
        until(lambda: rig.backlog_bytes() == 0, "all frames of L have left")
        out.send(LAST)
        return came + receive(back)


def class_packets(rig) -> dict[str, int]:
    """Packets that each class of rb has sent, by its number."""
    text = rig.router.run("tc", "-s", "class", "show", "dev", "rb").stdout
    found, name = {}, ""
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["class", "htb"]:
            name = words[2]
        elif words[:1] == ["Sent"]:
            found[name] = int(words[3])
    return found


@pytest.fixture
def bands(rig):
    two_classes(rig)
    yield lambda *more: rig.attached("--peer", rig.peer, "--coupled", "1:10,1:20", *more)
    rig.unshape()


def spread(share: float, count: int) -> float:
    """Five standard deviations of a share of so many packets."""
    return 5 * math.sqrt(share * (1 - share) / count)


@pytest.mark.parametrize("hook", HOOKS)
def test_each_packet_goes_into_its_band_and_comes_out_as_it_was(rig, bands, hook):
    before = class_packets(rig)
    with bands("--fixed-probability", 0, "--hook", hook):
        for names, send in ((LOW, functools.partial(through_low, rig)), (CLASSIC, rig.through)):
            frames = [PACKETS[name].frame for name in names]
            assert send(frames) == frames
        after, status = class_packets(rig), rig.status()
    # LAST, which is not IP, went three times
    assert (status["low"]["seen"], status["classic"]["seen"]) == (len(LOW), len(CLASSIC) + 3)
    assert after["1:10"] - before["1:10"] == len(LOW)
    assert after["1:20"] - before["1:20"] == len(CLASSIC) + 3
    assert status["counters"]["seen_packets"] == len(PACKETS) + 3
    assert status["backlog_packets"] == status["low"]["backlog_packets"] == status["classic"]["backlog_packets"] == 0
    assert status["counters"]["strays"] == 0


def test_marks_in_l_are_k_times_u_and_those_in_c_the_square(rig, bands):
    count = 4000
    # L's own ramp is off: on a busy machine frames of L wait for longer than its least delay.
    no_ramp = "ramp_least_us=16777215"
    with bands("--fixed-probability", 0.2, "ecn_bound=1", "min_backlog_bytes=0", "min_delay_share=0", no_ramp):
        low = through_low(rig, [ECT1] * count)
        classic = rig.through([ECT0] * count)
        others = rig.through([NOT_ECT] * count)
        status = rig.status()
    assert set(low) == {ECT1, MARKED}
    assert low.count(MARKED) / count == pytest.approx(0.4, abs=spread(0.4, count))
    assert 1 - classic.count(ECT0) / count == pytest.approx(0.04, abs=spread(0.04, count))
    assert len(classic) == count
    assert 1 - len(others) / count == pytest.approx(0.04, abs=spread(0.04, count))
    assert status["low"]["probability"] == pytest.approx(0.4, abs=1e-6)
    assert status["classic"]["probability"] == pytest.approx(0.04, abs=1e-6)
    assert (status["low"]["marks"], status["low"]["drops_aqm"]) == (low.count(MARKED), 0)
    assert status["classic"]["drops_aqm"] == count - len(others)
    assert status["counters"]["marked_packets"] == low.count(MARKED) + count - classic.count(ECT0)


def marks_by_a_queue_in_c(rig) -> int:
    """Frames of L that came marked. Each round makes C's queue longer and waits for its frames of L, which overtake."""
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    marked = 0
    with out, back:
        for _ in range(60):
            for frame in (*[NOT_ECT] * 60, *[ECT1] * 6):
                out.send(frame)
            low = 0
            while low < 6 and select.select([back], [], [], 10)[0]:
                frame = take(back)
                low += frame in (ECT1, MARKED)
                marked += frame == MARKED
            if marked:
                break
    return marked


def test_a_queue_in_c_marks_l(rig, bands):
    two_classes(rig, SLOW)
    with bands("ramp_least_us=16777215"):
        assert MARKED not in through_low(rig, [ECT1] * 20)
        marked = marks_by_a_queue_in_c(rig)
        status = rig.status()
        until(lambda: rig.backlog_bytes() == 0, "all frames have left", 60)
    assert 0 < marked <= status["low"]["marks"]
    assert status["low"]["drops_aqm"] == 0


def test_the_coupling_is_run_time_data(rig, bands):
    with bands("--fixed-probability", 0.2, "coupling=1"):
        assert rig.status()["coupled"] == {
            "class_low": "1:10", "class_classic": "1:20", "coupling": 1, "ramp_least_us": 800, "ramp_us": 400,
            "floor_bytes": 3028,
        }  # fmt: skip
        assert rig.status()["low"]["probability"] == pytest.approx(0.2, abs=1e-6)
        rig.weir("set", "rb", "coupling=4.5", "ramp_us=1")
        assert rig.status()["low"]["probability"] == pytest.approx(0.9, abs=1e-6)
        line = json.loads(rig.weir("watch", "rb", "--count", 1).stdout)
        assert line["low"]["probability"] == pytest.approx(0.9, abs=1e-6)
        assert line["classic"]["probability"] == pytest.approx(line["drop_probability"], rel=1e-6)
        said = json.loads(rig.weir("set", "rb", "floor_bytes=1", "--json").stdout)
        assert said["coupled"] == {
            "class_low": "1:10", "class_classic": "1:20", "coupling": 4.5, "ramp_least_us": 800, "ramp_us": 1,
            "floor_bytes": 1,
        }  # fmt: skip
        for pair, why in {
            "coupling=16": "must be a number, 0 or above and below 16",
            "ramp_us=0": "must be a whole number, 1 .. 65535",
            "ramp_least_us=1.5": "must be a whole number, 0 .. 16777215",
            "floor_bytes=x": "must be a whole number, 0 .. 16777215",
            "probability=linear": 'two coupled bands need "squared"',
        }.items():
            failed = rig.weir("set", "rb", pair, check=False)
            assert failed.returncode == 2
            assert why in failed.stderr
        assert rig.status()["coupled"] == said["coupled"]


def test_the_controller_sets_the_coupling_with_the_gains(rig, bands):
    def gains(*words: str) -> subprocess.CompletedProcess:
        argv = [sys.executable, "-m", "weir.cli", "gains", "--bpf", "rb", *words]
        return rig.router.run(*argv, check=False, env={"PYTHONPATH": str(REPO / "controller")})

    with bands("ramp_us=300"):
        before = rig.status()["config_id"]
        done = gains("--set", "coupling=1.5", "--set", "target_us=9000")
        assert (done.returncode, done.stderr) == (0, "")
        assert "  coupling = 1.5\n  ramp_least_us = 800\n  ramp_us = 300\n" in done.stdout
        status = rig.status()
        assert (status["coupled"]["coupling"], status["coupled"]["ramp_us"]) == (1.5, 300)
        assert status["gains"]["target_us"] == 9000
        assert status["config_id"] != before
        refused = gains("--set", "coupling=16", "--set", "target_us=1000")
        assert refused.returncode == 1
        assert "coupling = 16: must be a number, 0 or above and below 16" in refused.stderr
        assert rig.status()["gains"]["target_us"] == 9000
        assert json.loads(gains("--json").stdout)[0]["floor_bytes"] == 3028
    rig.unshape()
    rig.shape()
    with rig.attached("--peer", rig.peer):
        refused = gains("--set", "coupling=1.5")
        assert refused.returncode == 1
        assert "only two coupled bands have it" in refused.stderr
        assert "coupling" not in gains().stdout


def test_overload_drops_in_l_as_in_c_and_marks_what_is_left(rig, bands):
    count = 4000
    with bands("--fixed-probability", 0.5, "min_backlog_bytes=0", "min_delay_share=0"):
        came = through_low(rig, [ECT1] * count)
        status = rig.status()
    assert set(came) == {MARKED}
    assert 1 - len(came) / count == pytest.approx(0.25, abs=spread(0.25, count))
    assert status["low"]["drops_aqm"] == count - len(came)


def test_frames_of_l_that_borrow_are_waited_for(rig, bands):
    """The rig itself: L is served at a hundredth of what is sent, and LAST comes before its last frame."""
    two_classes(rig, SLOW | {"low": "1mbit"})
    with bands("--fixed-probability", 0, "delay_bound_share=0", "delay_bound_slope=0", "delay_limit_share=0"):
        assert len(through_low(rig, [ECT1] * 100)) == 100


def test_a_queue_of_l_is_marked_by_its_own_law_while_u_is_0(rig, bands):
    """Beyond three packets that wait, which is more than the ramp's bytes and its time, every packet is marked."""
    two_classes(rig, VERY_SLOW)
    with bands("--fixed-probability", 0):
        assert set(rig.through([ECT0] * 20)) == {ECT0}  # the line's rate is known from here on
        came = through_both(rig, [ECT1] * 40)
        again = through_low(rig, [ECT1])
        status = rig.status()
    assert len(came) == 40
    assert came[:2] == [ECT1, ECT1]
    assert came.count(MARKED) > 30
    assert status["low"]["marks"] == came.count(MARKED)
    assert again == [ECT1]


def test_l_is_served_first_and_c_keeps_its_share(rig, bands):
    two_classes(rig, VERY_SLOW)
    unbounded = ("delay_bound_share=0", "delay_bound_slope=0", "delay_limit_share=0")
    with bands("--fixed-probability", 0, "ramp_least_us=16777215", *unbounded):
        came = through_both(rig, [NOT_ECT] * 30 + [ECT1] * 5)
        assert sorted(came) == sorted([NOT_ECT] * 30 + [ECT1] * 5)
        assert came[-10:] == [NOT_ECT] * 10  # they were sent before those of L
        came = through_both(rig, [ECT1] * 30 + [NOT_ECT] * 5)
        assert sorted(came) == sorted([ECT1] * 30 + [NOT_ECT] * 5)
        assert NOT_ECT in came[:20]  # and does not wait for the last of L


def test_the_limit_is_that_of_both_bands_together(rig, bands):
    two_classes(rig, VERY_SLOW)
    with bands("--fixed-probability", 0, "--limit-packets", 20):
        came = through_both(rig, [NOT_ECT, ECT1] * 60, 2.0)
        status = rig.status()
    assert 20 <= len(came) < 120
    assert status["low"]["drops_limit"] > 0 < status["classic"]["drops_limit"]
    assert status["low"]["drops_limit"] + status["classic"]["drops_limit"] >= 120 - len(came)


def test_detached_everything_takes_the_default_class(rig, bands):
    with bands("--fixed-probability", 1):
        assert rig.through([ECT1] * 20) == []
    before = class_packets(rig)
    assert rig.through([ECT1] * 20) == [ECT1] * 20
    assert class_packets(rig)["1:10"] == before["1:10"]
    assert rig.router.run("tc", "filter", "show", "dev", "rb", "egress", check=False).stdout == ""


def test_a_tree_that_changes_under_it_is_reported(rig, bands):
    with bands("--fixed-probability", 0):
        assert "trouble" not in rig.status()
        rig.router.run("tc", "class", "change", "dev", "rb", "parent", "1:1", "classid", "1:10", "htb", "rate", "1gbit",
                       "prio", "3")  # fmt: skip
        assert "L must be served first" in rig.status()["trouble"]
        rig.unshape()
        assert "its root qdisc was htb 1: at attach and is none (noqueue) now" in rig.status()["trouble"]
        assert rig.through([ECT1, NOT_ECT, ECT0]) == [ECT1, NOT_ECT, ECT0]
        two_classes(rig)
        assert "trouble" not in rig.status()


def refusal(rig, *words) -> str:
    failed = rig.weir("attach", "rb", "--gains", TUNED, *words, check=False)
    assert failed.returncode in (1, 2)
    assert len(failed.stderr.splitlines()) == 1
    with pytest.raises(Failed):
        rig.status()
    return failed.stderr


@pytest.mark.parametrize(
    ("tree", "why"),
    {
        "no htb": (
            "tc qdisc add dev rb root handle 1: tbf rate 10mbit burst 5k limit 100000",
            "its root qdisc is tbf 1:",
        ),
        "one class": (
            "tc qdisc add dev rb root handle 1: htb; tc class add dev rb parent 1: classid 1:10 htb rate 1gbit",
            "packets wait in 1 classes",
        ),
        "no class": ("tc qdisc add dev rb root handle 1: htb", "htb 1: has no class"),
        "three classes": (
            CLASSES.format(**FAST) + ";tc class add dev rb parent 1:1 classid 1:30 htb rate 1mbit",
            "packets wait in 3 classes",
        ),
        "the wrong one first": (CLASSES.format(**FAST | {"low_prio": 1}), "L must be served first"),
        "other numbers": (
            CLASSES.format(**FAST).replace("1:20", "1:2a"),
            ", not in 1:10 and 1:20; give those that are there",
        ),
    }.values(),
)
def test_other_trees_are_refused_with_the_reason(rig, tree, why):
    rig.unshape()
    rig.router.sh(tree)
    said = refusal(rig, "--peer", rig.peer, "--coupled", "1:10,1:20")
    rig.unshape()
    assert why in said or (why == "htb 1: has no class" and "packets wait in 0 classes" in said)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--coupled", "1:10"), "must be the two classes, of band L and of band C: 1:10,1:20"),
        (("--coupled", "1:10,0:20"), "must be the two classes"),
        (("--coupled", "1:10,1:20x"), "must be the two classes"),
        (("--coupled", "1:10,1:10"), "must be two classes"),
        (("--coupled", "1:10,1:20", "--rate", "10mbit"), "takes signal poll or veth, not virtual"),
        (("--coupled", "1:10,1:20", "--peer", "PEER", "--whole-tree"), "leave one of them out"),
        (("--coupled", "1:10,1:20", "--peer", "PEER", "probability=linear"), 'two coupled bands need "squared"'),
        (("--peer", "PEER", "coupling=2"), "only two coupled bands have it"),
    ],
)
def test_options_that_do_not_go_together_are_refused(rig, words, why):
    two_classes(rig)
    said = refusal(rig, *(rig.peer if word == "PEER" else word for word in words))
    rig.unshape()
    assert why in said


def test_what_waits_at_attach_is_a_stray(rig, bands):
    """A packet that waits at attach is of neither band: it comes out uncounted."""
    two_classes(rig, VERY_SLOW)
    out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
    attached = threading.Event()

    def keep_waiting() -> None:
        """More than the line carries, for as long as the attach takes."""
        while not attached.wait(0.02):
            out.send(NOT_ECT)

    with out, back:
        for _ in range(50):  # three seconds of the line
            out.send(NOT_ECT)
        feeder = threading.Thread(target=keep_waiting)
        feeder.start()
        with ExitStack() as stack:
            try:
                stack.enter_context(bands("--fixed-probability", 0))
            finally:
                attached.set()
                feeder.join()
            out.send(LAST)
            while back.recv(65536) != LAST:
                pass
            status = rig.status()
    assert status["counters"]["strays"] >= 1
    assert status["backlog_packets"] == 0
