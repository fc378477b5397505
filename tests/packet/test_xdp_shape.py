# SPDX-License-Identifier: Apache-2.0
"""`attach --shape`: weir-xdp makes the shaper itself, and takes away what it made and nothing else."""

import json
import re

import pytest
from packet_rig import Failed


@pytest.fixture(autouse=True)
def nothing_stays(rig):
    yield
    rig.weir("detach", "rb", check=False)
    rig.unshape()


def tree(rig) -> list[str]:
    """Qdiscs and classes at rb, without their counters."""
    return rig.router.sh("tc qdisc show dev rb; tc class show dev rb").splitlines()


@pytest.mark.parametrize(
    ("words", "root", "queue"),
    [
        ((), "7e1f", "7e1f:3"),
        (("--no-bands",), "7e1d", "7e1d:1"),
        (("--signal", "poll", "--whole-tree"), "7e1d", "7e1d:1"),
    ],
)
def test_the_shaper_is_made_and_taken_away(rig, words, root, queue):
    before = tree(rig)
    rig.weir("attach", "rb", "--shape", "95mbit", *words)
    made = "\n".join(tree(rig))
    assert f"qdisc htb {root}: root" in made
    assert "rate 95Mbit ceil 95Mbit" in made
    assert re.search(f"qdisc pfifo [0-9a-f]+: parent {queue} limit 3922p", made)
    assert (rig.status()["shape_bit_s"], rig.status().get("trouble")) == (95_000_000, None)
    assert ("bands" in rig.status()) == (not words)
    assert f"shaped to 95 Mbit/s by htb {root}: of weir-xdp" in rig.weir("status", "rb").stdout
    rig.weir("detach", "rb")
    assert tree(rig) == before


def test_packets_wait_there_and_the_law_sees_them(rig):
    rig.weir("attach", "rb", "--shape", "1mbit", "--fixed-probability", "0")
    frames = [bytes.fromhex("020000000002020000000001") + b"\x88\xb6" + bytes(1486) for _ in range(40)]
    assert len(rig.through(frames)) == 40
    status = rig.status()
    assert status["counters"]["seen_packets"] >= 41
    assert status["dq_rate_bit_s"] == pytest.approx(1e6, rel=0.3)


@pytest.mark.parametrize(
    "change",
    [
        "tc class change dev rb parent 7e1d: classid 7e1d:1 htb rate 50mbit",
        "tc class add dev rb parent 7e1d: classid 7e1d:2 htb rate 50mbit",
        "tc qdisc replace dev rb parent 7e1d:1 pfifo limit 77",
        "tc filter add dev rb parent 7e1d: protocol all u32 match u32 0 0 classid 7e1d:1",
        "tc qdisc replace dev rb root handle 9: tbf rate 10mbit burst 5000 limit 100000",
    ],
)
def test_what_somebody_changed_is_his(rig, change):
    rig.weir("attach", "rb", "--shape", "95mbit", "--no-bands")
    rig.router.sh(change)
    changed = tree(rig)
    done = rig.weir("detach", "rb")
    assert "stays: it is not the shaper that attach made, or was changed since" in done.stderr
    assert [line for line in tree(rig) if "clsact" not in line] == [line for line in changed if "clsact" not in line]
    assert json.loads(rig.weir("status", "--json").stdout) == []


def test_a_root_of_somebody_elses_is_refused(rig):
    rig.shape("10mbit")
    before = tree(rig)
    with pytest.raises(Failed, match=r"it has a root qdisc already, htb 1::.* leave --shape out"):
        rig.weir("attach", "rb", "--shape", "95mbit")
    assert tree(rig) == before
    assert json.loads(rig.weir("status", "--json").stdout) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rate", "1mbit"], "leave one of them out"),
        (["--peer", "PEER", "--coupled", "1:10,1:20"], "--coupled"),
        (["--bands", "--no-bands"], "leave one of them out"),
    ],
)
def test_what_goes_with_no_shaper_is_refused(rig, options, words):
    with pytest.raises(Failed, match=words):
        rig.weir("attach", "rb", "--shape", "1mbit", *(rig.peer if one == "PEER" else one for one in options))
    assert "htb" not in "".join(tree(rig))


@pytest.mark.parametrize("rate", ["8kbit", "10gbit", "100gbit"])
def test_any_rate(rig, rate):
    """Above 34 Gbit/s a rate has 64 bits."""
    before = tree(rig)
    rig.weir("attach", "rb", "--shape", rate)
    assert f"rate {rate[:-3].replace('g', 'G').replace('k', 'K')}bit" in "".join(tree(rig))
    rig.weir("detach", "rb")
    assert tree(rig) == before


@pytest.mark.parametrize(
    "words",
    [
        ["--leaf-aqm", "maybe"],
        ["--flows"],
        ["--leaf-aqm", "off", "--rate", "1mbit", "--hook", "tc"],
    ],
)
def test_options_of_leaves_that_do_not_fit_are_refused(rig, words):
    before = tree(rig)
    refused = rig.weir("attach", "rb", *words, check=False)
    assert refused.returncode in (1, 2)
    assert words[0] in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert tree(rig) == before


def test_flow_queues_or_nothing(rig):
    """A kernel without fq_codel keeps its qdiscs."""
    before = tree(rig)
    made = rig.weir("attach", "rb", "--shape", "10mbit", "--flows", check=False)
    if made.returncode:
        assert "fq_codel" in made.stderr
    else:
        assert rig.status()["flow_queues"] is True
        rig.weir("detach", "rb")
    assert tree(rig) == before
    assert json.loads(rig.weir("status", "--json").stdout) == []
