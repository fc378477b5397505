# SPDX-License-Identifier: Apache-2.0
"""The fair share of bulk flows: its vectors are what the golden model says, and what flows.md says of floods holds."""

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import VECTORS

from weir import bands, fair, fair_vectors
from weir.bands import Kind
from weir.bands_vectors import DEFAULT, TUNED, Queue
from weir.fair import FAIR_LEAST_BYTES, FLOWS_MOST_Q16, Fair
from weir.law import U32_MAX

FULL = 1514


def test_the_committed_file_equals_the_model() -> None:
    same = (VECTORS / "fair" / "share.jsonl").read_text(encoding="utf-8") == fair_vectors.generate()
    assert same, "out of date: `./run generate`"


@given(
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, U32_MAX), st.integers(0, 2**33), st.booleans())),
)
def test_a_share_is_between_a_frame_and_all_that_passed(packets: list) -> None:
    state, now_us = Fair(), 0
    for step_us, flow_bytes, len_bytes, passes in packets:
        now_us += step_us
        share = fair.arrival(state, TUNED, Kind.LARGE, flow_bytes, now_us, len_bytes)
        assert FAIR_LEAST_BYTES <= share <= max(state.passed_bytes, FAIR_LEAST_BYTES)
        assert state.flows_q16 <= FLOWS_MOST_Q16
        if passes:
            fair.passed(state, len_bytes)


@dataclass
class Sender:
    rate_bytes_s: float
    arrived_bytes: int = 0
    policed_bytes: int = 0
    passed_bytes: int = 0


def run(rates_bytes_s: list[float], line_bytes_s: float, seed: int, seconds: float = 4) -> list[Sender]:
    """Flows of constant rates at a queue whose law never draws and that holds four targets. Returns the flows' sums
    over the second half of the time."""
    queue, state, random = Queue(), Fair(), Random(seed)
    senders, backlog_bytes, last_s = [Sender(rate) for rate in rates_bytes_s], 0.0, 0.0
    due = sorted((random.random() * FULL / rate, index) for index, rate in enumerate(rates_bytes_s))
    while due[0][0] < seconds:
        now_s, index = due.pop(0)
        sender, flow, now_us = senders[index], queue.flows[index], 2**40 + int(now_s * 1e6)
        backlog_bytes, last_s = max(backlog_bytes - line_bytes_s * (now_s - last_s), 0), now_s
        tau_us = int(backlog_bytes / line_bytes_s * 1e6)
        kind = bands.arrival(flow, queue.share, queue.budget, TUNED, DEFAULT, now_us, FULL, tau_us)
        share = fair.arrival(state, TUNED, kind, flow.flow_bytes, now_us, FULL)
        policed = fair.is_policed(TUNED, flow.flow_bytes, share, tau_us, random.getrandbits(32))
        passes = not policed and tau_us < 4 * TUNED.target_us
        if now_s > seconds / 2:
            sender.arrived_bytes += FULL
            sender.policed_bytes += FULL if policed else 0
            sender.passed_bytes += FULL if passes else 0
        if passes:
            backlog_bytes += FULL
            bands.passed(queue.budget, FULL)
            fair.passed(state, FULL)
        due.append((now_s + FULL / sender.rate_bytes_s * random.uniform(0.8, 1.2), index))
        due.sort()
    return senders


@pytest.mark.parametrize("flood", [12, 40])
def test_a_flood_beside_others_gets_about_their_rate(flood: int) -> None:
    """Three flows of 500 kB/s each on 2 MB/s; the fourth offers 12 or 40 times as much."""
    (*others, stranger) = run([500_000.0] * 3 + [flood * 500_000.0], 2e6, seed=flood)
    assert all(sender.passed_bytes > 0.95 * sender.arrived_bytes for sender in others)
    mean_bytes = sum(sender.passed_bytes for sender in others) / 3
    assert 0.5 < stranger.passed_bytes / mean_bytes < 2


def test_flows_of_like_rates_are_never_policed() -> None:
    """Their sum is a tenth above the line."""
    senders = run([400_000.0, 500_000.0, 600_000.0, 700_000.0], 2e6, seed=5)
    assert not any(sender.policed_bytes for sender in senders)


def test_a_packet_of_a_flow_below_its_share_waits_for_the_limit() -> None:
    assert fair.kind_by_share(Kind.LARGE, 4 * FULL, 4 * FULL) == Kind.SMALL
    assert fair.kind_by_share(Kind.SMALL, 5 * FULL, 4 * FULL) == Kind.LARGE
    assert fair.kind_by_share(Kind.SPILLED, FULL, 4 * FULL) == Kind.SPILLED
    assert fair.is_spared(Kind.SMALL, TUNED, TUNED.delay_limit_us - 1)
    assert not fair.is_spared(Kind.SMALL, TUNED, TUNED.delay_limit_us)
    assert not fair.is_spared(Kind.LARGE, TUNED, 0)
