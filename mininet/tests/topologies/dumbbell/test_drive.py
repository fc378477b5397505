# SPDX-License-Identifier: Apache-2.0
"""Computations of a run's driver before it starts anything."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab.arrivals import LEAST_SHORT_BYTES, arrivals
from weirlab.lab.net import NetError
from weirlab.topologies.dumbbell.drive import Drive
from weirlab.topologies.dumbbell.network import Dumbbell, Link, changed_bottleneck, longer
from weirlab.topologies.dumbbell.queues.red import red_burst, red_thresholds
from weirlab.topologies.dumbbell.traffic import MOST_SENDERS, sender_shares


def group(count, extra_rtt_ms=0.0):
    return {"count": count, "extra_rtt_ms": extra_rtt_ms}


def test_groups_share_senders_unless_one_is_farther_away():
    assert sender_shares([group(3), group(2)]) == [[1, 2, 3], [4, 5]]
    assert sender_shares([group(12), group(1)]) == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2], [3]]
    assert sender_shares([group(12), group(2, 40)]) == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2], [11, 12]]


@given(st.lists(st.builds(group, st.integers(1, 40), st.sampled_from([0.0, 20.0, 70.0])), min_size=1, max_size=6))
def test_no_sender_is_left_out_and_none_has_flows_of_two_distances(flows):
    shares = sender_shares(flows)
    assert [len(share) for share in shares] == [flow["count"] for flow in flows]
    used = {sender for share in shares for sender in share}
    assert used == set(range(1, len(used) + 1))
    far = {(sender, flow["extra_rtt_ms"]) for flow, share in zip(flows, shares, strict=True) for sender in share}
    assert len(far) == len(used) <= MOST_SENDERS * len(flows)


SHORT = {"count": 3, "start_s": 2.0, "stop_s": 30.0, "arrivals_per_s": 10.0}


def test_short_transfers_come_as_often_and_as_large_as_was_asked_for():
    flow = {**SHORT, "stop_s": 2002.0, "bytes_median": 20000.0, "bytes_sigma": 1.0}
    found = [each for place in arrivals(flow, 1, 7) for each in place]
    assert abs(len(found) - 20000) < 5 * 20000**0.5  # five standard deviations
    assert min(at for at, _ in found) > 2e6
    assert max(at for at, _ in found) < 2002e6
    sizes = sorted(size for _, size in found)
    assert 19000 < sizes[len(sizes) // 2] < 21000
    assert sizes[0] >= LEAST_SHORT_BYTES
    # Of a log-normal distribution with sigma 1, 15.9 % are above the median times e.
    assert 0.15 < sum(size > 20000 * 2.71828 for size in sizes) / len(sizes) < 0.168


def test_a_seed_gives_the_same_transfers_and_another_others():
    flow = {**SHORT, "bytes": 5000}
    assert arrivals(flow, 0, 1) == arrivals(flow, 0, 1) != arrivals(flow, 0, 2)
    assert arrivals(flow, 1, 1) != arrivals(flow, 0, 1)
    assert {size for place in arrivals(flow, 0, 1) for _, size in place} == {5000}


def test_red_thresholds_in_time_are_of_the_rate():
    aqm = {"min_ms": 5, "max_ms": 15, "avpkt_bytes": 1000}
    assert red_thresholds(aqm, 10) == (6250, 18750)
    assert red_burst(aqm, 10) == red_burst({"min_bytes": 6250, "max_bytes": 18750, "avpkt_bytes": 1000}, 200) == 11


def test_a_change_tells_tc_what_changed_and_nothing_else():
    before = Link(10, 50, 1, 1000)
    assert changed_bottleneck(before, before) == []
    assert changed_bottleneck(before, Link(10, 50, 0, 1000)) == [
        ("r2", "qdisc change dev out root handle 1: netem limit 100000 delay 50ms")
    ]
    assert changed_bottleneck(before, Link(2.5, 0, 1, 1000)) == [
        ("r1", "class change dev bn parent 1: classid 1:1 htb rate 2.5mbit burst 1540 cburst 1540 quantum 1540"),
        ("r2", "qdisc change dev out root handle 1: netem limit 100000 delay 0ms loss 1%"),
        ("r2", "qdisc change dev bn root handle 1: netem limit 100000 delay 0ms rate 2.5mbit"),
    ]


def test_a_farther_sender_is_a_hop_of_another_name_with_room_for_what_is_under_way():
    access, bottleneck = Link(50, 1, 0, 1000), Link(10, 50, 0, 1000)
    hops = Dumbbell.hops(2, access, bottleneck, 1454, [0.0, 20.0], one_in=8)
    assert [(hop.name, hop.propagation_us, hop.one_in) for hop in hops] == [
        ("access", 1233, 8), ("access-20ms", 21233, 8), ("bottleneck", 0, 1), ("egress", 50000, 8),
        ("reverse", 50000, 8),
    ]  # fmt: skip
    far = longer(access, 20)
    assert (far.delay_ms, longer(access, 0)) == (21, access)
    assert far.queue_limit_packets - 1000 > 50e6 * 0.020 / 8 / 1454


class Here:
    """A node whose programs run on this machine."""

    popen = staticmethod(subprocess.Popen)


@pytest.mark.parametrize(
    ("script", "early", "said"),
    [
        ("echo 'no such device' >&2; exit 3", True, "ended by itself, before the run was over, with 3: no such device"),
        ("exit 0", True, "ended by itself, before the run was over, with 0"),
        ("trap 'exit 4' TERM; echo up; while :; do sleep 0.1; done", False, "ended on SIGTERM with 4"),
    ],
)
def test_a_tuner_that_does_not_run_to_the_end_fails_the_run(tmp_path, script, early, said):
    flows = [{"kind": "tcp", "count": 1, "extra_rtt_ms": 0.0, "payload_bytes": 1400}]
    link = {"rate_mbit_s": 10, "delay_ms": 1, "loss_percent": 0, "queue_limit_packets": 100}
    drive = Drive({"flows": flows, "link": {"access": link, "bottleneck": link}, "changes": []}, tmp_path)
    try:
        drive.tuner = drive.start(Here, "tune", ["sh", "-c", script], ready="" if early else "up")
        if early:
            drive.tuner.wait()
        else:
            drive.wait_ready()
        with pytest.raises(NetError, match=said):
            drive.end_tuner()
    finally:
        drive.stop()
