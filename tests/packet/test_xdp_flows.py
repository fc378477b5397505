# SPDX-License-Identifier: Apache-2.0
"""Flows that the eBPF programs see in fragments, tunnels and tags (docs/design/flows.md), by packets on real
interfaces."""

import pytest
from flow_frames import N, cases, others
from flow_rig import PROGRAMS, Counting

CASES = cases()


@pytest.fixture(scope="module", params=PROGRAMS)
def counting(request, rig):
    counting = Counting(rig, request.param)
    yield counting
    counting.close()


@pytest.mark.parametrize("name", CASES)
def test_packets_count_for_their_flow(counting, name):
    """Two of N flows may share a counter, and one flow that of LAST."""
    case = CASES[name]
    assert counting.flows(case.one) <= 1
    if case.many:
        assert N - 2 <= counting.flows(case.many) <= N


@pytest.mark.parametrize("name", others())
def test_packets_outside_the_law_are_counted_as_such(counting, name):
    frames = others()[name]
    before = counting.status()["counters"]
    assert counting.flows(frames) <= 1
    after = counting.status()["counters"]
    assert after["non_ip_packets"] - before["non_ip_packets"] == len(frames) + 1
    assert after["seen_packets"] - before["seen_packets"] == len(frames) + 1
