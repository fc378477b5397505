# SPDX-License-Identifier: Apache-2.0
"""The fair share of hosts: its vectors are what the golden model says, and a host's flows share what the host has."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import VECTORS

from weir import bands, fair, hosts, hosts_vectors
from weir.bands import Kind
from weir.bands_vectors import DEFAULT, TUNED, Queue
from weir.fair import FAIR_LEAST_BYTES, FLOWS_MOST_Q16
from weir.hosts import Host, HostFair

FULL = 1514
LINE_BYTES_S = 2e6


def test_the_committed_file_equals_the_model() -> None:
    same = (VECTORS / "fair" / "hosts.jsonl").read_text(encoding="utf-8") == hosts_vectors.generate()
    assert same, "out of date: `./run generate`"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**20), st.integers(0, 2), st.integers(0, 2**32 - 1), st.integers(0, 2**33), st.booleans()
        )
    )
)
def test_a_flows_share_is_at_most_its_hosts_and_that_at_most_all_that_passed(packets: list) -> None:
    counters, state, now_us = [Host() for _ in range(3)], HostFair(), 0
    for step_us, index, flow_bytes, len_bytes, passes in packets:
        now_us += step_us
        host = counters[index]
        hosts.host_arrival(host, TUNED, now_us, len_bytes)
        share = hosts.host_share(host, state, TUNED, Kind.LARGE, flow_bytes, now_us, len_bytes)
        assert share == max(host.host_share_bytes, FAIR_LEAST_BYTES)
        assert host.host_share_bytes <= state.share_bytes <= state.passed_bytes
        assert max(state.flows_q16, host.host_flows_q16) <= FLOWS_MOST_Q16
        if passes:
            fair.passed(state, len_bytes)


def passed_shares(flows: list[tuple[int, float]], seed: int, seconds: float = 6) -> list[float]:
    """Shares of the line of flows, each of a host and with a rate in lines, that do not answer to drops; over the
    second half of the time. The law never draws; the queue holds four targets."""
    queue, state, random = Queue(), HostFair(), Random(seed)
    queue.flows = [bands.BandFlow() for _ in flows]
    counters = [Host() for _ in flows]
    passed, backlog_bytes, last_s = [0] * len(flows), 0.0, 0.0
    gaps_s = [FULL / (rate * LINE_BYTES_S) for _, rate in flows]
    due = sorted((random.random() * gap, index) for index, gap in enumerate(gaps_s))
    while due[0][0] < seconds:
        now_s, index = due.pop(0)
        flow, host, now_us = queue.flows[index], counters[flows[index][0]], 2**40 + int(now_s * 1e6)
        backlog_bytes, last_s = max(backlog_bytes - LINE_BYTES_S * (now_s - last_s), 0), now_s
        tau_us = int(backlog_bytes / LINE_BYTES_S * 1e6)
        kind = bands.arrival(flow, queue.share, queue.budget, TUNED, DEFAULT, now_us, FULL, tau_us)
        hosts.host_arrival(host, TUNED, now_us, FULL)
        share = hosts.host_share(host, state, TUNED, kind, flow.flow_bytes, now_us, FULL)
        policed = fair.is_policed(TUNED, flow.flow_bytes, share, tau_us, random.getrandbits(32))
        if not policed and tau_us < 4 * TUNED.target_us:
            backlog_bytes += FULL
            bands.passed(queue.budget, FULL)
            fair.passed(state, FULL)
            passed[index] += FULL if now_s > seconds / 2 else 0
        due.append((now_s + gaps_s[index] * random.uniform(0.8, 1.2), index))
        due.sort()
    return [size / (LINE_BYTES_S * seconds / 2) for size in passed]


@pytest.mark.parametrize("seed", [1, 2])
def test_eight_flows_of_a_host_share_what_one_flow_of_another_leaves(seed: int) -> None:
    *eight, one = passed_shares([(0, 0.4)] * 8 + [(1, 0.4)], seed)
    assert one > 0.37
    assert 0.45 < sum(eight) < 0.75
    assert max(eight) < 2 * min(eight)


def test_hosts_that_send_little_leave_their_part_to_the_others() -> None:
    """Five hosts, of which four send 5 %: the fifth is below three times its share, and never policed."""
    *_, most = passed_shares([(index, 0.05) for index in range(4)] + [(4, 0.75)], seed=3)
    assert most > 0.72


def test_large_are_flows_of_a_host_above_its_share_that_have_the_mean_of_it() -> None:
    above, below = Host(160 * FULL, 4 << 20), Host(80 * FULL, 1 << 20)
    state = HostFair(share_bytes=128 * FULL)
    assert hosts.kind_by_host(Kind.SMALL, above, state, 3 * FULL) == Kind.LARGE
    assert hosts.kind_by_host(Kind.LARGE, above, state, 2 * FULL) == Kind.SMALL
    assert hosts.kind_by_host(Kind.LARGE, below, state, 5 * FULL) == Kind.SMALL
    assert hosts.kind_by_host(Kind.SPILLED, below, state, FULL) == Kind.SPILLED
