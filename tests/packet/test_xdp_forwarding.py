# SPDX-License-Identifier: Apache-2.0
"""Real packets through a forwarding node: what comes out at the other end of it."""

import json
import math
import subprocess

import pytest
from packet_rig import BUILD, HOOKS, LAST, NEARLY_ONE, by_name
from packets import packets

PACKETS = packets()

SIGNALS = {
    "veth": ("--peer", None),
    "veth-clsact": ("--peer", None, "--hook", "clsact"),
    "poll": ("--signal", "poll"),
    "backlog": ("--signal", "backlog"),
    "virtual-tc": ("--rate", "100gbit", "--hook", "tc"),
    "virtual-xdp": ("--rate", "100gbit"),
}


@pytest.fixture(scope="module")
def shaped(rig):
    rig.shape("1gbit", limit=10000)
    yield rig
    rig.unshape()


@pytest.fixture(params=by_name(SIGNALS))
def signal(request, shaped):
    options = [shaped.peer if option is None else option for option in SIGNALS[request.param]]
    dev = "ra" if request.param == "virtual-xdp" else "rb"

    def attach(*more: object):
        return shaped.attached(*options, *more, dev=dev, profile="paper")

    return shaped, attach, dev


def test_forwarded_packets_are_bit_identical(signal):
    rig, attach, _ = signal
    frames = [p.frame for p in PACKETS.values()]
    assert rig.through(frames) == frames
    with attach("--fixed-probability", "0"):
        assert rig.through(frames) == frames


def test_jumbo_frames_are_bit_identical(jumbo):
    template = PACKETS["ipv4-not_ect"].frame
    frames = [template + bytes(9014 - len(template)), template + bytes(8000 - len(template))]
    jumbo.shape("1gbit")
    with jumbo.attached("--peer", jumbo.peer, "--fixed-probability", "0"):
        assert jumbo.through(frames) == frames
        assert jumbo.status()["backlog_packets"] == 0
        assert jumbo.status()["counters"]["seen_bytes"] == sum(map(len, [*frames, LAST]))


def test_only_what_is_under_the_law_is_dropped(signal):
    rig, attach, dev = signal
    with attach("--fixed-probability", "1"):
        got = rig.through([p.frame for p in PACKETS.values()])
        counters = rig.status(dev)["counters"]
    assert got == [p.frame for p in PACKETS.values() if not p.under_law]
    assert counters["dropped_aqm_packets"] == sum(p.under_law for p in PACKETS.values())


def test_ect_is_marked_and_nothing_else_changed(signal):
    rig, attach, _ = signal
    with attach("--fixed-probability", NEARLY_ONE, "ecn_bound=1"):
        got = rig.through([p.frame for p in PACKETS.values()])
    assert got == [p.marked if p.under_law else p.frame for p in PACKETS.values() if p.marked or not p.under_law]


def test_drop_rate_on_the_wire_is_within_the_binomial_bound(signal):
    rig, attach, dev = signal
    sent, u = 4000, 0.3
    with attach("--fixed-probability", u, "probability=linear"):
        got = 0
        for _ in range(8):  # in parts that fit any socket's buffer
            got += len(rig.through([PACKETS["ipv4-not_ect"].frame] * (sent // 8)))
        counters = rig.status(dev)["counters"]
    assert got == sent - counters["dropped_aqm_packets"]
    assert counters["seen_packets"] == sent + 8
    assert abs(counters["dropped_aqm_packets"] - sent * u) <= 5 * math.sqrt(sent * u * (1 - u))


def test_veth_counts_to_zero_again(shaped):
    """Tags beside the data at one end and in it at the other must not leave bytes behind."""
    with shaped.attached("--peer", shaped.peer, "--fixed-probability", "0"):
        shaped.through([p.frame for p in PACKETS.values()])
        status = shaped.status()
    assert (status["backlog_packets"], status["backlog_bytes"]) == (0, 0)
    assert status["counters"]["strays"] == 0
    assert status["counters"]["seen_bytes"] == sum(len(p.frame) for p in PACKETS.values()) + len(LAST)


@pytest.mark.parametrize("hook", HOOKS)
def test_later_filters_still_run(shaped, hook):
    shaped.router.sh(
        "tc qdisc add dev rb clsact;"
        "tc filter add dev rb egress prio 200 u32 match u32 0 0 action mirred egress redirect dev lo"
    )
    try:
        with shaped.attached("--peer", shaped.peer, "--fixed-probability", "0", "--hook", hook):
            assert shaped.through([PACKETS["ipv4-ect0"].frame], patience_s=0.5) == []
            assert shaped.status()["counters"]["seen_packets"] == 2
        # clsact was there before, so it stays
        assert "clsact" in shaped.router.run("tc", "qdisc", "show", "dev", "rb").stdout
    finally:
        shaped.router.run("tc", "qdisc", "del", "dev", "rb", "clsact")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("sampler_first", [True, False])
def test_the_sampler_sees_only_what_passed(shaped, tmp_path, hook, sampler_first):
    """weir-sojourn is a clsact filter: at either end it must come after ours, whichever was there first."""
    not_ect = [PACKETS["ipv4-not_ect"].frame[:-8] + n.to_bytes(8, "big") for n in range(20)]
    passing = PACKETS["ipv4-ect0"]
    out = tmp_path / "sojourn.jsonl"

    def sampler():
        process = shaped.router.start(
            BUILD / "weir-sojourn", "--hop", f"x:rb:{shaped.peer}", "--out", out, stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == "ready\n"
        return process

    options = ("--peer", shaped.peer, "--fixed-probability", NEARLY_ONE, "ecn_bound=1", "--hook", hook)
    process = sampler() if sampler_first else None
    try:
        with shaped.attached(*options, profile="paper"):
            process = process or sampler()
            assert shaped.through([*not_ect, passing.frame]) == [passing.marked]
            counters = shaped.status()["counters"]
    finally:
        if process:
            process.terminate()
            process.communicate()
    assert process.returncode == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    total = next(line for line in lines if line["k"] == "sampler")
    assert (counters["dropped_aqm_packets"], counters["marked_packets"], counters["strays"]) == (20, 1, 0)
    assert (total["stamped"], total["matched"], total["strays"]) == (1, 1, 0)
    assert [line["ce"] for line in lines if line["k"] == "pkt"] == [True]


def test_packets_lost_behind_us_are_forgotten(shaped):
    """Drops by the qdisc's own limit would stand in our count for ever; a second without a departure ends that."""
    frame = PACKETS["ipv4_full-not_ect"].frame
    shaped.shape("1mbit", limit=5)
    try:
        with shaped.attached("--peer", shaped.peer, "--fixed-probability", "0"):
            pass
        with shaped.attached("--peer", shaped.peer, "kp=0", "ki=0", "kd=0"):
            shaped.through([frame] * 50, patience_s=1)
            assert shaped.status()["backlog_packets"] > 0
            # 1.5 s of silence, then packets again
            shaped.router.run("sleep", "1.5")
            shaped.through([frame])
            status = shaped.status()
        assert status["counters"]["resyncs"] == 1
        assert status["backlog_packets"] == 0
    finally:
        shaped.shape("1gbit", limit=10000)
