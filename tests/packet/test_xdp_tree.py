# SPDX-License-Identifier: Apache-2.0
"""Trees of queue disciplines under the interface: trees the law can't go by are rejected with the remedy, and one that
changes while the law is attached makes it let all packets pass, and report it."""

import itertools
import json
import subprocess

import pytest
from packet_rig import BACKLOG, PROFILES, WEIR, Failed, Rig, runs, until
from packets import packets

TUNED = PROFILES / "tuned.toml"
SIGNALS = [BACKLOG, "poll"]
ALWAYS_HIT = ("min_backlog_bytes=0", "min_delay_share=0", "share_least=0")
"""Beside a probability of 1: no queue is too short, and the first packet of a flow is not spared."""
REFUSED = {
    "two classes": (
        "tc qdisc add dev rb root handle 1: htb default 1; tc class add dev rb parent 1: classid 1:1 htb rate 10mbit;"
        "tc class add dev rb parent 1: classid 1:2 htb rate 5mbit",
        "2 classes under it have queues of their own",
    ),
    "classes below a class": (
        "tc qdisc add dev rb root handle 1: htb default 10; tc class add dev rb parent 1: classid 1:1 htb rate 10mbit;"
        "tc class add dev rb parent 1:1 classid 1:10 htb rate 5mbit;"
        "tc class add dev rb parent 1:1 classid 1:20 htb rate 5mbit;"
        "tc class add dev rb parent 1:1 classid 1:30 htb rate 5mbit",
        "3 classes under it have queues of their own",
    ),
    "classes in the qdisc of a class": (
        "tc qdisc add dev rb root handle 1: htb default 1; tc class add dev rb parent 1: classid 1:1 htb rate 10mbit;"
        "tc qdisc add dev rb parent 1:1 handle 2: htb default 1;"
        "tc class add dev rb parent 2: classid 2:1 htb rate 5mbit;"
        "tc class add dev rb parent 2: classid 2:2 htb rate 5mbit",
        "2 classes under it have queues of their own",
    ),
    "a shaper without a class": ("tc qdisc add dev rb root handle 1: htb", "htb 1: has no class"),
}
TAKEN = {
    "tbf": "tc qdisc add dev rb root tbf rate 10mbit burst 5k limit 100000",
    "tbf with a fifo in it": (
        "tc qdisc add dev rb root handle 1: tbf rate 10mbit burst 5k limit 100000;"
        "tc qdisc add dev rb parent 1:1 handle 2: bfifo limit 100000"
    ),
    "one class below another, tbf in it": (
        "tc qdisc add dev rb root handle 1: htb default 10; tc class add dev rb parent 1: classid 1:1 htb rate 10mbit;"
        "tc class add dev rb parent 1:1 classid 1:10 htb rate 5mbit;"
        "tc qdisc add dev rb parent 1:10 handle 2: tbf rate 4mbit burst 5k limit 100000"
    ),
    "a fifo": "tc qdisc add dev rb root pfifo limit 100",
}


@pytest.fixture
def bare(rig: Rig):
    """The rig with no qdisc on rb, before and after."""
    rig.unshape()
    yield rig
    rig.unshape()


def objection(rig: Rig, *options: object) -> str:
    """Error of attach, in one line; nothing is attached then."""
    with pytest.raises(Failed) as failure:
        rig.weir("attach", "rb", "--gains", TUNED, *options)
    assert failure.value.status == 1
    assert len(failure.value.stderr.splitlines()) == 1
    assert rig.weir("status").stdout == "nothing is attached\n"
    return failure.value.stderr


@pytest.mark.parametrize("tree", REFUSED)
def test_a_tree_one_law_can_not_see_is_refused(bare, tree):
    script, words = REFUSED[tree]
    bare.router.sh(script)
    for options in ((), ("--signal", "poll")):
        assert words in objection(bare, *options)
    with bare.attached("--rate", "1mbit", "--hook", "tc"):  # it does not go by the tree
        assert "trouble" not in bare.status()


@pytest.mark.parametrize("tree", TAKEN)
def test_a_tree_with_one_queue_is_taken(bare, tree):
    bare.router.sh(TAKEN[tree])
    for options in ((), ("--signal", "poll"), ("--peer", bare.peer)):
        with bare.attached(*options):
            assert "trouble" not in bare.status()
            assert "TROUBLE" not in bare.weir("status", "rb").stdout


def test_who_insists_gets_one_law_for_all_classes(bare):
    bare.router.sh(REFUSED["two classes"][0])
    assert "--whole-tree" in objection(bare)
    assert "2 classes" in objection(bare, "--peer", bare.peer)
    with bare.attached("--whole-tree"):
        assert "trouble" not in bare.status()
    assert "does not go by the tree" in objection(bare, "--whole-tree", "--rate", "1mbit")


ROOTS = {
    "none": ("none (noqueue)", "tc qdisc del dev rb root"),
    "another kind under the same number": (
        "tbf 1:",
        "tc qdisc del dev rb root; tc qdisc add dev rb root handle 1: tbf rate 1mbit burst 5k limit 100000",
    ),
    "another of the same kind": (
        "htb 7:",
        "tc qdisc del dev rb root; tc qdisc add dev rb root handle 7: htb default 1;"
        "tc class add dev rb parent 7: classid 7:1 htb rate 1mbit",
    ),
}


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_with_another_root_all_packets_pass(bare, signal, root):
    """U is fixed at 1, so that no packet passes while the law acts."""
    frame = packets()["ipv4_full-not_ect"].frame
    bare.shape("100mbit")
    with bare.attached("--signal", signal, "--fixed-probability", 1, *ALWAYS_HIT):
        assert bare.through([frame] * 20) == []
        bare.router.sh(ROOTS[root][1])
        if signal == "poll":  # `status` reads the root itself, and may be ahead of the process that packets go by
            until(lambda: bare.through([frame]) == [frame], "the process has seen it")
        dropped = bare.status()["counters"]["dropped_aqm_packets"]
        assert bare.through([frame] * 20) == [frame] * 20
        status, text = bare.status(), bare.weir("status", "rb").stdout
        watched = json.loads(bare.weir("watch", "rb", "--count", 1).stdout)
        for told in (status, watched):
            assert f"its root qdisc was htb 1: at attach and is {ROOTS[root][0]} now" in told["trouble"]
            assert (told["drop_probability"], told["dq_rate_bit_s"], told["tau_us"]) == (0, 0, 0)
            assert "rate_age_us" not in told
        assert "TROUBLE: its root qdisc was htb 1: at attach" in text
        assert status["counters"]["unusable"] >= 20
        assert status["counters"]["dropped_aqm_packets"] == dropped
        assert dropped == 20 or (signal == "poll" and dropped > 20)
        # put back as it was, by number and kind, the law goes on
        bare.shape("100mbit")
        until(lambda: bare.through([frame]) == [], "the law acts again")
        assert "trouble" not in bare.status()
        assert bare.through([frame] * 20) == []
        if signal == "poll":
            assert runs(bare.status()["poll"]["pid"])


def test_a_veths_shaper_that_goes_takes_its_rate_along(bare):
    """Packets in and out are counted all the same, but the rate measured is not that of any queue now."""
    frame = packets()["ipv4_full-not_ect"].frame
    bare.shape("10mbit")
    with bare.attached("--peer", bare.peer):
        assert len(bare.through([frame] * 300)) > 0
        status = bare.status()
        assert status["dq_rate_bit_s"] > 0
        assert status["rate_age_us"] > 0
        bare.unshape()
        status = bare.status()
        assert (
            status["trouble"] == "its root qdisc was htb 1: at attach and is none (noqueue) now: no packet waits there"
        )
        assert status["dq_rate_bit_s"] == 0
        assert "rate unknown" in bare.weir("status", "rb").stdout


def test_poll_lets_all_pass_when_classes_come(bare):
    """Only a process can read below the root; it does once a second."""
    frame = packets()["ipv4_full-not_ect"].frame
    bare.shape("100mbit")
    with bare.attached("--signal", "poll", "--fixed-probability", 1, *ALWAYS_HIT):
        assert bare.through([frame] * 5) == []
        bare.router.sh("tc class add dev rb parent 1: classid 1:2 htb rate 5mbit")
        until(lambda: bare.through([frame]) == [frame], "the process has looked")
        assert bare.through([frame] * 5) == [frame] * 5
        assert bare.status()["trouble"].startswith("the law lets all packets pass: 2 classes")


@pytest.mark.parametrize("signal", [BACKLOG, "veth"])
def test_a_running_watch_tells_of_classes_that_come(bare, signal):
    bare.shape("100mbit")
    options = ("--peer", bare.peer) if signal == "veth" else ("--signal", signal)
    with bare.attached(*options):
        watch = bare.router.start(WEIR, "watch", "rb", stdout=subprocess.PIPE)
        try:
            assert "trouble" not in json.loads(watch.stdout.readline())
            bare.router.sh("tc class add dev rb parent 1: classid 1:2 htb rate 5mbit")
            for line in itertools.islice(watch.stdout, 600):
                if trouble := json.loads(line).get("trouble"):
                    break
            assert trouble.startswith("the law goes by the wrong queue: 2 classes")
        finally:
            watch.kill()
            watch.wait()
