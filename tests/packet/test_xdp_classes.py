# SPDX-License-Identifier: Apache-2.0
"""Laws of classes (docs/design/classes.md): each acts on its own class of an htb and on no other, with its own gains;
classes go and come back; whoever is killed leaves an interface that forwards."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from class_rig import CE, ECT0, HIT, NEVER, NOT_ECT, PACED, TUNED, N, attach, frame, law, listing, number, refusal, tree
from packet_rig import BUILD, NEEDS_TCX, REPO, WEIR, Failed, by_name, runs, until

pytestmark = NEEDS_TCX  # by which the rig gives packets their class


def test_each_law_acts_on_its_own_class_only(classes):
    attach(classes, "1:10", *HIT)
    attach(classes, "1:20", *NEVER)
    sent = {name: [frame(number(name), ecn) for ecn in (ECT0, NOT_ECT)] for name in ("1:10", "1:20", "1:30")}
    came = {name: classes.through(frames * N) for name, frames in sent.items()}
    assert came["1:10"] == [frame(16, CE)] * N  # Not-ECT is dropped
    assert came["1:20"] == sent["1:20"] * N
    assert came["1:30"] == sent["1:30"] * N
    counters = {name: law(classes, name)["counters"] for name in ("1:10", "1:20")}
    assert [one["seen_packets"] for one in counters.values()] == [2 * N, 2 * N]
    assert [one["marked_packets"] for one in counters.values()] == [N, 0]
    assert [one["dropped_aqm_packets"] for one in counters.values()] == [N, 0]
    none = classes.weir("status", "rb").stdout.partition("packets of no law: ")[2].split()[0]
    assert int(none) == 2 * N + 3  # and the last frames of all three


FLOOD = f"""{PACED}
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
    flood.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)  # SO_SNDBUFFORCE: or the socket would wait for the queue
    send_for_ever(lambda: flood.sendto(bytes(1200), ("10.77.0.2", 9)), 330)
"""
LINK = """
ip link add w0 type veth peer name w1
ip address add 10.77.0.1/24 dev w0
ip link set w0 up
ip link set w1 up
ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:09 dev w0
tc qdisc add dev w0 root handle 1: htb default 10
tc class add dev w0 parent 1: classid 1:10 htb rate 2mbit
tc class add dev w0 parent 1: classid 1:20 htb rate 1mbit
tc qdisc add dev w0 parent 1:10 pfifo limit 1000
tc qdisc add dev w0 parent 1:20 pfifo limit 1000
"""


def test_a_flooded_class_has_a_short_queue_of_its_own(rig):
    """More comes than class 1:10 carries. Its fifo alone would fill up to 1000 packets, five seconds of them; with the
    law it stays below 200. The class beside it is left alone."""

    def backlog_packets() -> int:
        shown = rig.router.run("tc", "-s", "class", "show", "dev", "w0", "classid", "1:10").stdout
        return int(re.search(r"backlog \S+ (\d+)p", shown)[1])

    def law(name: str) -> dict:
        return json.loads(rig.weir("status", f"w0/{name}", "--json").stdout)

    rig.router.sh(LINK)
    flood = rig.router.start(sys.executable, "-c", FLOOD)
    try:
        until(lambda: backlog_packets() > 300, "without a law the queue grows", 60)
        for name, others in (("1:10", ["--others"]), ("1:20", [])):
            rig.weir("attach", "w0", "--class", name, "--gains", TUNED, *others)
        until(lambda: backlog_packets() < 200, "the law brings it down", 60)
        seen = law("1:10")["counters"]["seen_packets"]
        most = 0
        while law("1:10")["counters"]["seen_packets"] < seen + 1000:
            most = max(most, backlog_packets())
        assert 0 < most < 200
        assert law("1:10")["counters"]["dropped_aqm_packets"] > 0
        beside = law("1:20")["counters"]
        assert (beside["seen_packets"], beside["dropped_aqm_packets"]) == (0, 0)
    finally:
        flood.kill()
        flood.wait()
        rig.weir("detach", "w0", check=False)
        rig.router.sh("ip link del w0")


@pytest.mark.skipif(
    Path("/proc/sys/net/core/bpf_jit_enable").read_text().strip() == "0", reason="the kernel puts no look-up in place"
)
def test_no_look_up_goes_through_a_pointer(classes):
    """Where clang makes one call of look-ups in two maps the kernel does not know the map, and calls by a pointer."""
    attach(classes, "1:10", *NEVER)
    program = f"{law(classes, '1:10')['pins']}/prog_weir_egress"
    code = classes.router.run("bpftool", "prog", "dump", "xlated", "pinned", program).stdout
    assert "call bpf_skb_load_bytes#" in code
    assert "call bpf_map_lookup_elem#" not in code


def test_packets_are_told_apart_by_marks_and_by_what_is_left(classes):
    attach(classes, "1:20", "--mark", "0x1/0x3", *HIT)
    attach(classes, "1:30", *NEVER, "--others")
    attach(classes, "1:10", *HIT, "--mark", "2/3")
    for dscp, ecn in ((1, CE), (5, CE), (2, CE), (3, ECT0), (32, CE), (48, ECT0), (0, ECT0)):
        assert classes.through([frame(dscp)] * N) == [frame(dscp, ecn)] * N, dscp
    seen = {name: law(classes, name)["counters"]["seen_packets"] for name in ("1:10", "1:20", "1:30")}
    assert seen["1:20"] == 3 * N  # marks 1 and 5, and its number
    assert seen["1:10"] == N
    assert seen["1:30"] == 3 * N
    assert law(classes, "1:20")["mark"] == 1
    classes.weir("detach", "rb/1:20")
    assert classes.through([frame(1), frame(32)]) == [frame(1), frame(32)]


def test_all_classes_of_an_htb_at_once(classes):
    attach(classes, "1:20", "target=20ms")
    done = classes.weir("attach", "rb", "--class", "1:", "--gains", TUNED, "target=30ms")
    assert done.stdout.count("attached to rb/1:") == 2
    targets = {one["dev"]: one["gains"]["target_us"] for one in json.loads(classes.weir("status", "--json").stdout)}
    assert targets == {"rb/1:20": 20000, "rb/1:10": 30000, "rb/1:30": 30000}
    assert "has a law already" in classes.weir("attach", "rb", "--class", "1:").stdout
    classes.weir("set", "rb", "--class", "1:", "kp=5")
    three = json.loads(classes.weir("status", "rb", "--json").stdout)
    assert [round(one["gains"]["kp"], 3) for one in three] == [5, 5, 5]
    assert sorted(one["gains"]["target_us"] for one in three) == [20000, 30000, 30000]


def test_gains_are_those_of_one_class(classes):
    attach(classes, "1:10", "target=5ms")
    attach(classes, "1:20", "target=50ms")
    before = {name: law(classes, name)["config_id"] for name in ("1:10", "1:20")}
    said = json.loads(classes.weir("set", "rb/1:10", "target=7ms", "--json", "--expect", before["1:10"]).stdout)
    assert (said["dev"], said["gains"]["target_us"]) == ("rb/1:10", 7000)
    assert law(classes, "1:10")["config_id"] == said["config_id"] != before["1:10"]
    assert law(classes, "1:20")["config_id"] == before["1:20"]
    assert law(classes, "1:20")["gains"]["target_us"] == 50000
    late = classes.weir("set", "rb/1:10", "target=9ms", "--expect", before["1:10"], check=False)
    assert (late.returncode, law(classes, "1:10")["gains"]["target_us"]) == (3, 7000)


def test_watch_has_a_line_for_each_law(classes):
    attach(classes, "1:10")
    attach(classes, "1:20", "target=50ms")
    for words in (["rb"], ["rb/1:10", "rb/1:20"], ["--all"]):
        lines = [json.loads(line) for line in classes.weir("watch", *words, "--count", 2).stdout.splitlines()]
        assert [one["dev"] for one in lines if one["k"] == "aqm"] == ["rb/1:10", "rb/1:20"] * 2
    new = [one for one in lines if one["k"] == "new"]
    assert [one["gains"]["target_us"] for one in new] == [15000, 50000]
    assert new[0]["attach_id"] != new[1]["attach_id"]
    watch = classes.router.start(WEIR, "watch", "rb/1:10", "--follow", "--every-ms", 20, stdout=subprocess.PIPE)
    try:
        first = json.loads(watch.stdout.readline())
        classes.weir("detach", "rb/1:10")
        while (line := json.loads(watch.stdout.readline()))["k"] == "aqm":
            pass
        assert (line["k"], line["why"]) == ("gone", "rb/1:10 was detached")
        attach(classes, "1:10")
        while (line := json.loads(watch.stdout.readline()))["k"] != "new":
            pass
        assert line["attach_id"] != first["attach_id"]
    finally:
        watch.kill()
        watch.wait()


def test_a_class_that_goes_away_and_comes_back(classes):
    attach(classes, "1:10", *HIT)
    attach(classes, "1:20", *HIT)
    classes.router.sh("tc class del dev rb classid 1:10")
    until(lambda: classes.through([frame(16)]) == [frame(16)], "the law lets the class's packets pass")
    assert law(classes, "1:10")["trouble"] == "the law lets all packets pass: class 1:10 is not there"
    assert classes.through([frame(32)]) == [frame(32, CE)]  # the other law does not mind
    classes.router.sh("tc class add dev rb parent 1:1 classid 1:10 htb rate 1gbit")
    until(lambda: classes.through([frame(16)]) == [frame(16, CE)], "the law acts again")
    assert "trouble" not in law(classes, "1:10")
    classes.router.sh(  # a class below it: no packet waits in it any more
        "tc class add dev rb parent 1:10 classid 1:11 htb rate 1mbit"
    )
    until(lambda: classes.through([frame(16)]) == [frame(16)], "the law lets packets pass again")
    assert "class 1:10 has classes below it" in law(classes, "1:10")["trouble"]
    classes.unshape()
    until(lambda: classes.through([frame(32)]) == [frame(32)], "no law has its class any more")
    tree(classes, dict.fromkeys(("1:10", "1:20", "1:30"), "1gbit"))
    until(lambda: classes.through([frame(16), frame(32)]) == [frame(16, CE), frame(32, CE)], "both act again")


def test_detach_of_one_leaves_the_others(classes):
    before = listing(classes)
    attach(classes, "1:10", *HIT)
    attach(classes, "1:20", *HIT)
    pid = law(classes, "1:10")["poll"]["pid"]
    classes.weir("detach", "rb", "--class", "1:10")
    assert classes.through([frame(16), frame(32)]) == [frame(16), frame(32, CE)]
    assert "class 1:10 has no law" in refusal(classes, "status", "rb/1:10")
    attach(classes, "1:10", *NEVER)  # in the slot that is free, with nothing of the one before it
    assert classes.through([frame(16)]) == [frame(16)]
    assert law(classes, "1:10")["counters"]["marked_packets"] == 0
    classes.weir("detach", "rb", "--class", "1:")
    assert listing(classes) == before
    until(lambda: not runs(pid), "the poll process has ended")
    assert classes.through([frame(16), frame(32)]) == [frame(16), frame(32)]


def test_the_laws_go_on_after_their_process_is_killed(classes):
    attach(classes, "1:10", *HIT)
    pid = law(classes, "1:10")["poll"]["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not runs(pid), "it has ended")
    assert classes.through([frame(16), frame(32)]) == [frame(16, CE), frame(32)]
    until(lambda: not law(classes, "1:10")["poll"]["alive"], "status says so")
    done = classes.weir("attach", "rb", "--class", "1:10", "--gains", TUNED, *NEVER)
    assert "its poll process is dead" in done.stderr
    assert law(classes, "1:10")["poll"]["alive"]


REFUSED = {
    "no such class": (("--class", "1:99"), "class 1:99 is not there"),
    "no such htb": (("--class", "2:"), "htb 2: has no class that packets wait in"),
    "an inner class": (("--class", "1:1"), "class 1:1 has classes below it"),
    "no class": (("--class", "110"), "must be a class as tc has it, 1:10"),
    "no class as a name": (("--class", "1:1g"), "must be a class as tc has it"),
    "a mark without a class": (("--mark", "1"), "--mark goes with --class"),
    "a mark and two classes": (("--class", "1:10", "--class", "1:20", "--mark", "1"), "goes with one --class"),
    "others and all": (("--class", "1:", "--others"), "goes with one --class"),
    "a mark beyond its mask": (("--class", "1:10", "--mark", "4/3"), "must be a mark as iptables"),
    "another signal": (("--class", "1:10", "--signal", "backlog"), "--class takes signal poll, not backlog"),
    "a rate": (("--class", "1:10", "--rate", "1mbit"), "takes neither --peer, --rate"),
    "xdp": (("--class", "1:10", "--hook", "xdp"), "a law of a class is at tc egress"),
}


@pytest.mark.parametrize("name", by_name(REFUSED))
def test_what_makes_no_sense_is_refused(classes, name):
    words, why = REFUSED[name]
    assert why in refusal(classes, "attach", "rb", "--gains", TUNED, *words)
    assert classes.weir("status").stdout == "nothing is attached\n"


def test_what_does_not_go_with_the_laws_there_are_is_refused(classes):
    attach(classes, "1:10", "--mark", "1/0xff", "--others")
    for words, why in (
        (("attach", "rb"), "already attached to rb"),
        (("attach", "rb", "--class", "1:10"), "class 1:10 has a law already; `weir-xdp set rb/1:10`"),
        (("attach", "rb", "--class", "1:20", "--mark", "2/0xf"), "must have one mask"),
        (("attach", "rb", "--class", "1:20", "--mark", "1/0xff"), "those of another class's law already"),
        (("attach", "rb", "--class", "1:20", "--others"), "those of another class's law already"),
        (("set", "rb", "kp=1"), "rb has laws of classes: say which one"),
        (("set", "rb/1:20", "kp=1"), "class 1:20 has no law"),
        (("set", "rb", "--class", "2:", "kp=1"), "none of these classes has a law"),
        (("detach", "rb/1:20"), "class 1:20 has no law"),
        (("ensure", "rb"), "rb has laws of classes: say which one, rb/1:10"),
        (("watch", "rb/1:20", "--count", 1), "class 1:20 has no law"),
        (("watch", "rb/1:x", "--count", 1), "must be DEV, or DEV/CLASS"),
        (("watch", "rb/x", "--count", 1), "rb/x: not a name an interface can have"),
    ):
        assert why in refusal(classes, *words), words
    classes.weir("detach", "rb")
    tree(classes, {"1:30": "1gbit"})
    with classes.attached("--signal", "poll"):
        assert "its law is the whole interface's" in refusal(classes, "set", "rb/1:30", "kp=1")
        assert "already attached to rb" in refusal(classes, "attach", "rb", "--class", "1:30")


def test_classes_below_a_qdisc_of_another_kind(rig):
    """As under mq, whose queues have an htb each: the classes of two at once, distinguished by their whole number."""
    rig.unshape()
    rig.router.sh(
        "tc qdisc add dev rb root handle 9: tbf rate 1gbit burst 100k limit 1000000;"
        "tc qdisc add dev rb parent 9:1 handle 1: htb default 20;"
        "tc class add dev rb parent 1: classid 1:10 htb rate 1gbit;"
        "tc class add dev rb parent 1: classid 1:20 htb rate 1gbit;"
        "tc qdisc add dev rb parent 1:20 handle 2: htb default 10;"
        "tc class add dev rb parent 2: classid 2:10 htb rate 1gbit"
    )
    try:
        with rig.router.classifying("rb"):
            attach(rig, "1:10", *HIT)
            attach(rig, "2:10", *NEVER)
            assert "has classes below it" in refusal(rig, "attach", "rb", "--class", "1:20")
            assert "no class of htb" in refusal(rig, "attach", "rb", "--class", "9:1")
            assert rig.through([frame(16), frame(32)]) == [frame(16, CE), frame(32)]
            assert {one["class"] for one in json.loads(rig.weir("status", "rb", "--json").stdout)} == {"1:10", "2:10"}
            rig.weir("detach", "rb/2:10")
            rig.weir("detach", "rb/1:10")
    finally:
        rig.weir("detach", "rb", check=False)
        rig.unshape()


KILLS = 10


@pytest.mark.parametrize("more", [False, True], ids=["the first law", "one more law"])
def test_an_attach_killed_at_any_moment_is_made_good_by_the_next(classes, more):
    """The packets of the class are forwarded all the time, and the next attach ends with the law on."""
    words = ("attach", "rb", "--class", "1:10", "--gains", TUNED, *HIT)
    before = listing(classes)
    whole_s = math.inf
    if more:
        attach(classes, "1:20", *NEVER)
    for _ in range(3):  # the first one finds nothing in the caches
        began = time.monotonic()
        classes.weir(*words)
        whole_s = min(whole_s, time.monotonic() - began)
        classes.weir("detach", "rb/1:10")
    for kill in range(KILLS):
        process = classes.router.start(WEIR, *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole_s * kill / KILLS)
        process.kill()
        process.wait()
        assert len(classes.through([frame(16)])) == 1
        done = classes.weir(*words, check=False)
        assert not done.returncode or "class 1:10 has a law already" in done.stderr
        assert classes.through([frame(16), frame(32)]) == [frame(16, CE), frame(32)]
        assert law(classes, "1:10")["poll"]["alive"]
        classes.weir("detach", "rb/1:10")
        assert classes.through([frame(16), frame(32)]) == [frame(16), frame(32)]
    classes.weir("detach", "rb", check=False)
    assert listing(classes) == before


def test_filters_at_clsact_come_first(classes):
    """They may give packets their class, and what is attached by TCX runs before all of them."""
    classes.router.sh(
        f"tc qdisc add dev rb clsact; tc filter add dev rb egress prio 10 bpf da obj {BUILD}/empty.bpf.o sec tc"
    )
    try:
        attach(classes, "1:10", *HIT)
        assert law(classes, "1:10")["hook"] == "clsact"
        assert classes.through([frame(16), frame(32)]) == [frame(16, CE), frame(32)]
        classes.weir("detach", "rb")
        attach(classes, "1:10", "--hook", "tcx")
        assert law(classes, "1:10")["hook"] == "tcx"
    finally:
        classes.weir("detach", "rb", check=False)
        classes.router.run("tc", "qdisc", "del", "dev", "rb", "clsact", check=False)


def test_packets_that_reach_a_class_by_another_way_are_told_of(classes):
    """By a filter of htb itself: the law can't see that, and status says how much it missed."""
    classes.router.sh("tc filter add dev rb parent 1: protocol ip prio 1 u32 match ip dport 3000 0xffff classid 1:10")
    attach(classes, "1:10", *NEVER)
    assert len(classes.through([frame(0, port=3000)] * 600)) == 600
    assert "100 % never reached the law" in law(classes, "1:10")["bypass"]


def test_the_controller_sets_the_gains_of_a_class(classes):
    def gains(*words: str) -> subprocess.CompletedProcess:
        argv = [sys.executable, "-m", "weir.cli", "gains", *words]
        return classes.router.run(*argv, check=False, env={"PYTHONPATH": str(REPO / "controller")})

    attach(classes, "1:10")
    attach(classes, "1:20")
    done = gains("--bpf", "rb/1:10", "--set", "target_us=9000")
    assert (done.returncode, done.stderr) == (0, "")
    assert law(classes, "1:10")["gains"]["target_us"] == 9000
    assert law(classes, "1:20")["gains"]["target_us"] == 15000
    there = json.loads(gains("--bpf", "all", "--json").stdout)
    assert [one["port"] for one in there] == ["rb/1:10", "rb/1:20"]


def test_attach_of_a_law_that_is_not_there_is_one_line(classes):
    with pytest.raises(Failed, match="no interface nothere"):
        classes.weir("attach", "nothere/1:10")
