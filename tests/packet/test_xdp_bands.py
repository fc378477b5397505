# SPDX-License-Identifier: Apache-2.0
"""Two bands of flows on a real htb or prio: which packets go ahead, who is served first, what the law drops, and the
bound of the budget (docs/design/flows.md)."""

import json
import subprocess
from contextlib import contextmanager

import pytest
from packet_rig import LAST, PROFILES, Failed, receive, until
from packets import packets
from scapy.all import IP, TCP, UDP, Dot1Q, Ether, IPv6, IPv6ExtHdrHopByHop, Raw
from test_xdp_coupled import class_packets, through_both

FRAME_BYTES = 1514
FREE_BYTES = 8192
# No half-life passes in a test, and the threshold is what the test says.
STEADY = ("--expert", "share_shift=24", "ahead_share=0", "ahead_least_bytes=1")
PASSING = ("--fixed-probability", "0", *STEADY)
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
PRIO = "tc qdisc add dev rb root handle 1: prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"


def udp(port: int, size: int = FRAME_BYTES, source: str = "10.9.0.1", below=ETHER) -> bytes:
    frame = below / IP(src=source, dst="10.9.0.2") / UDP(sport=port, dport=9)
    return bytes(frame / Raw(bytes(max(size - len(frame), 0))))


def tcp6(port: int, extension: bool) -> bytes:
    frame = ETHER / IPv6(src="fd00::1", dst="fd00::2")
    frame = frame / IPv6ExtHdrHopByHop() if extension else frame
    return bytes(frame / TCP(sport=port, dport=9) / Raw(bytes(1400)))


BULK = [udp(1)] * 200


@pytest.fixture
def bands(rig):
    """Attaches with `words`; a bulk flow has passed already, so that the budget is not what limits."""

    @contextmanager
    def attach(*words: object, rate: str = "1gbit"):
        rig.unshape()
        rig.weir("attach", "rb", "--shape", rate, "--bands", *words)
        try:
            yield
        finally:
            rig.weir("detach", "rb", check=False)

    yield attach
    rig.unshape()


def kinds(rig, frames: list[bytes]) -> tuple[int, int]:
    """Numbers of these frames that went ahead and into bulk."""
    before = rig.status()
    assert sorted(through_both(rig, frames)) == sorted(frames)
    after = rig.status()
    return tuple(after[band]["seen"] - before[band]["seen"] for band in ("ahead", "bulk"))


def test_a_flow_is_ahead_for_its_first_bytes(rig, bands):
    with bands(*PASSING, f"ahead_most_bytes={10 * FRAME_BYTES}"):
        kinds(rig, BULK)
        assert kinds(rig, [udp(2)] * 30) == (10, 20)
        assert kinds(rig, [udp(3, 100)] * 30) == (30, 0)
        sent = class_packets(rig)
        assert kinds(rig, [udp(2)] * 5 + [udp(4)] * 5) == (5, 5)
        after = class_packets(rig)
        assert (after["7e1f:2"] - sent["7e1f:2"], after["7e1f:3"] - sent["7e1f:3"]) == (5, 5)


def test_every_packet_comes_out_as_it_was(rig, bands):
    frames = [packet.frame for packet in packets().values()]
    with bands(*PASSING):
        assert sorted(through_both(rig, frames)) == sorted(frames)
        assert rig.status()["counters"]["seen_packets"] == len(frames)


def test_a_young_flow_is_served_before_the_bulk_that_waits(rig, bands):
    with bands(*PASSING, f"ahead_most_bytes={10 * FRAME_BYTES}", rate="400kbit"):
        kinds(rig, [udp(1)] * 20)
        came = through_both(rig, [udp(1)] * 20 + [udp(2)] * 2)
    assert came.index(udp(2)) < 12
    assert came[-5:] == [udp(1)] * 5


def test_the_law_drops_in_bulk_alone(rig, bands):
    words = (
        "--fixed-probability",
        1,
        *STEADY,
        f"ahead_most_bytes={10 * FRAME_BYTES}",
        "min_backlog_bytes=0",
        "min_delay_share=0",
    )
    with bands(*words):
        came = rig.through([udp(2)] * 30)
        status = rig.status()
    assert 0 < len(came) < 10
    assert status["ahead"]["drops_aqm"] == 0
    assert status["bulk"]["drops_aqm"] == 30 - len(came)


def test_band_a_has_a_limit_in_time(rig, bands):
    """A queue of two seconds in band A: packets are dropped, but not frames that are not IP.

    The limit is set once the queue stands, so no step of the law can come between the frames that make it."""
    still = ("kp=0", "ki=0", "kd=0", "delay_bound_share=0", "delay_limit_share=0")
    late, other = udp(6, 100), bytes(Ether(src=ETHER.src, dst=ETHER.dst, type=0x88B5) / Raw(bytes(60)))
    with bands(*STEADY, *still, f"ahead_most_bytes={5 * FRAME_BYTES}", rate="120kbit"):
        kinds(rig, BULK[:29])
        out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
        with out, back:
            queue = [udp(port) for port in range(2, 6)] * 5
            for frame in queue:
                out.send(frame)
            rig.weir("--expert", "set", "rb", "delay_limit_share=1.5")
            steps = rig.status()["counters"]["updates"]
            until(lambda: rig.status()["counters"]["updates"] > steps + 1, "the process has seen the queue")
            for frame in [*[late] * 4, other, LAST]:
                out.send(frame)
            came = receive(back, 10.0)
        status = rig.status()
    assert sorted(came) == sorted([*queue, other])
    assert status["ahead"]["drops_aqm"] == 4
    assert status["bulk"]["drops_aqm"] == 0


def test_the_law_reads_the_backlog_of_bulk(rig, bands):
    with bands(*PASSING, "ahead_most_bytes=1", rate="100kbit"):
        out = rig.sender.tap("a0")
        with out:
            for _ in range(60):
                out.send(udp(1))
            until(lambda: rig.status()["bulk"]["tau_us"] > 0, "the rate is known")
            status = rig.status()
    assert status["bulk"]["backlog_packets"] > 0
    assert status["tau_us"] == status["bulk"]["tau_us"]


@pytest.mark.parametrize("size", [64, FRAME_BYTES])
def test_ten_thousand_spoofed_flows_stay_in_the_budget(rig, bands, size):
    """Sources and ports that come once each, beside a bulk flow."""
    frames, bulk_frame, spoofed = [], udp(1), udp(9, size)
    for i in range(10_000):
        # scapy takes milliseconds for one
        source, port = bytes([10, i % 250, i // 250, 7]), (1024 + i).to_bytes(2, "big")
        frames.append(spoofed[:26] + source + spoofed[30:34] + port + spoofed[36:])
        if i % 4 == 0:
            frames.append(bulk_frame)
    with bands(*PASSING):
        out, back = rig.sender.tap("a0"), rig.receiver.tap("b0")
        with out, back:
            for i in range(0, len(frames), 100):
                for frame in [*frames[i : i + 100], LAST]:
                    out.send(frame)
                receive(back)
        status = rig.status()
        ahead, bulk = status["ahead"], status["bulk"]
    assert ahead["passed_bytes"] <= bulk["passed_bytes"] + 2 * FREE_BYTES
    assert bulk["passed_bytes"] > 0


def test_a_flood_of_ports_is_dropped_while_bulk_waits(rig, bands):
    """New flows beyond their part of the budget have no place in a bulk queue that stands."""
    with bands(*PASSING, "ahead_most_bytes=6056", rate="200kbit"):
        out = rig.sender.tap("a0")
        with out:
            for _ in range(150):
                out.send(udp(1))
            until(lambda: rig.status()["bulk"]["tau_us"] > 100_000, "bulk waits")
            for i in range(400):
                out.send(udp(2000 + i))
            until(lambda: rig.status()["counters"]["seen_packets"] >= 550, "all have arrived")
        status = rig.status()
    assert status["bulk"]["drops_aqm"] > 200
    assert status["ahead"]["drops_aqm"] == 0


@pytest.mark.parametrize(
    ("frames", "flows"),
    {
        "ports behind a VLAN tag": ([udp(100 + i, below=ETHER / Dot1Q(vlan=7)) for i in range(30)], 30),
        "ports behind IPv6": ([tcp6(100 + i, False) for i in range(30)], 30),
        "ports behind an extension header": ([tcp6(100 + i, True) for i in range(30)], 30),
        "one flow behind a VLAN tag": ([udp(100, below=ETHER / Dot1Q(vlan=7))] * 30, 1),
        "one flow behind an extension header": ([tcp6(100, True)] * 30, 1),
        "fragments of many datagrams": (
            [
                bytes(ETHER / IP(src="10.9.0.1", dst="10.9.0.2", id=i, frag=100, proto=17) / Raw(bytes(1400)))
                for i in range(30)
            ],
            1,
        ),
        "first fragments with ports": (
            [
                bytes(ETHER / IP(src="10.9.0.1", dst="10.9.0.2", id=i, flags="MF") / UDP(sport=i) / Raw(bytes(1400)))
                for i in range(30)
            ],
            1,
        ),
    }.values(),
)
def test_packets_count_for_their_flow(rig, bands, frames, flows):
    """All 30 of 30 flows go ahead, but for those that share a counter; of one flow the first two do."""
    with bands(*PASSING, "ahead_most_bytes=1500"):
        kinds(rig, BULK)
        ahead, bulk = kinds(rig, frames)
    assert ahead + bulk == 30
    assert ahead > 25 if flows == 30 else 1 <= ahead <= 2


def test_by_the_other_ends_count(rig):
    rig.unshape()
    rig.router.sh(
        "tc qdisc add dev rb root handle 1: htb default 20; tc class add dev rb parent 1: classid 1:1 htb rate 1gbit;"
        "tc class add dev rb parent 1:1 classid 1:10 htb rate 1mbit ceil 1gbit prio 0;"
        "tc class add dev rb parent 1:1 classid 1:20 htb rate 1mbit ceil 1gbit prio 1"
    )
    with rig.attached("--bands", "--peer", rig.peer, *PASSING, f"ahead_most_bytes={10 * FRAME_BYTES}"):
        kinds(rig, BULK)
        assert kinds(rig, [udp(2)] * 30) == (10, 20)
        until(lambda: not rig.status()["backlog_packets"], "all have left")
        status = rig.status()
    assert (status["bands"]["class_ahead"], status["bands"]["class_bulk"]) == ("1:10", "1:20")
    assert status["counters"]["strays"] == 0
    rig.unshape()


def test_prio_serves_the_first_band_first(rig):
    rig.unshape()
    try:
        rig.router.sh(PRIO)
    except (Failed, subprocess.CalledProcessError):
        pytest.skip("this kernel has no prio")
    with rig.attached("--bands", *PASSING, f"ahead_most_bytes={10 * FRAME_BYTES}"):
        kinds(rig, BULK)
        assert kinds(rig, [udp(2)] * 30) == (10, 20)
        bands = rig.status()["bands"]
    assert (bands["class_ahead"], bands["class_bulk"]) == ("1:1", "1:2")
    rig.unshape()


def test_settings_are_run_time_data(rig, bands):
    with bands(*PASSING):
        said = json.loads(rig.weir("set", "rb", "ahead_share=0.25", "ahead_most_bytes=9000", "--json").stdout)
        assert said["bands"] == {
            "class_ahead": "7e1f:2", "class_bulk": "7e1f:3", "ahead_share": 0.25, "ahead_most_bytes": 9000,
            "ahead_least_bytes": 1,
        }  # fmt: skip
        assert rig.status()["bands"] == said["bands"]
        for pair in ("ahead_share=16", "ahead_most_bytes=0", "ahead_least_bytes=1.5"):
            assert rig.weir("set", "rb", pair, check=False).returncode == 2
        assert rig.status()["bands"] == said["bands"]


def test_ensure_makes_bands_of_one_queue_and_keeps_their_settings(rig):
    rig.unshape()
    rig.weir("attach", "rb", "--shape", "95mbit", "--no-bands")
    rig.weir("ensure", "rb", "--shape", "90mbit")
    assert "bands" not in rig.status()
    rig.weir("ensure", "rb", "--shape", "95mbit", "--bands", "ahead_share=0.5")
    assert (rig.status()["signal"], rig.status()["bands"]["ahead_share"]) == ("poll", 0.5)
    assert json.loads(rig.weir("ensure", "rb", "--json").stdout)["did"] == "adopted"
    rig.weir("ensure", "rb", "--shape", "50mbit")
    status = rig.status()
    assert (status["shape_bit_s"], status["bands"]["ahead_share"]) == (50_000_000, 0.5)
    assert "trouble" not in status
    rig.weir("ensure", "rb", "--shape", "50mbit", "--no-bands")
    assert "bands" not in rig.status()
    assert "trouble" not in rig.status()
    rig.weir("detach", "rb")
    assert "htb" not in rig.router.sh("tc qdisc show dev rb")


def test_a_tree_that_changes_under_it_is_reported(rig, bands):
    with bands(*PASSING):
        assert "trouble" not in rig.status()
        rig.router.sh("tc class change dev rb parent 7e1f:1 classid 7e1f:2 htb rate 1mbit ceil 1gbit prio 2")
        assert "7e1f:2" in rig.status()["trouble"]


TWO = (
    "tc qdisc add dev rb root handle 1: htb default 20;"
    "tc class add dev rb parent 1: classid 1:10 htb rate 1mbit prio 1;"
    "tc class add dev rb parent 1: classid 1:20 htb rate 1mbit prio {prio}"
)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (TWO.format(prio=1), ()),
        (TWO.format(prio=2) + "; tc class add dev rb parent 1: classid 1:30 htb rate 1mbit", ()),
        ("tc qdisc add dev rb root handle 1: tbf rate 10mbit burst 5k limit 100000", ()),
        (TWO.format(prio=2), ("--whole-tree",)),
        (TWO.format(prio=2), ("--signal", "backlog")),
        (TWO.format(prio=2), ("--coupled", "1:10,1:20", "--peer", "PEER")),
        (TWO.format(prio=2), ("--rate", "10mbit")),
        (TWO.format(prio=2), ("ahead_share=-1",)),
    ],
)
def test_what_does_not_go_with_bands_is_refused(rig, tree, words):
    rig.unshape()
    rig.router.sh(tree)
    words = [rig.peer if word == "PEER" else word for word in words]
    failed = rig.weir("attach", "rb", "--gains", PROFILES / "tuned.toml", "--bands", *words, check=False)
    assert failed.returncode in (1, 2)
    assert len(failed.stderr.splitlines()) == 1
    with pytest.raises(Failed):
        rig.status()
    rig.unshape()


def test_their_settings_need_bands(rig):
    rig.unshape()
    assert rig.weir("attach", "rb", "--shape", "10mbit", "--no-bands", "ahead_share=1", check=False).returncode == 2
    rig.unshape()
