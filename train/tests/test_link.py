# SPDX-License-Identifier: Apache-2.0
"""Capacity and competing flows at a time of the run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab.rates import Capacity
from weirtrain.episodes import Episode, Rival
from weirtrain.link import LEAST_LEFT, Link

STEADY = Episode(0, 1, 1, 8.0, 40.0, 50, 0.0, 2, 20, "fifo")
rates = st.lists(st.floats(0, 100), min_size=1, max_size=20)


def capacity(episode, begin_s, end_s):
    return float(Link.of(episode).capacity(np.array([begin_s]), np.array([end_s]))[0])


def test_a_steady_link():
    assert capacity(STEADY, 0, 1) == capacity(STEADY, -1, 15) == 1e6


@given(rates, st.floats(0, 19), st.floats(0.1, 1))
def test_a_rate_that_varies_is_the_labs(steps, begin_s, length_s):
    steps = tuple((float(n), rate) for n, rate in enumerate(steps))
    wanted = Capacity(steps, 20).bits(begin_s, begin_s + length_s) / 8 / length_s
    assert capacity(replace(STEADY, rates=steps), begin_s, begin_s + length_s) == pytest.approx(wanted, abs=1)


def test_udp_is_taken_off_while_it_sends():
    episode = replace(STEADY, rivals=(Rival("udp", 1, 2, 9, 2.0, 3.0),))
    found = [capacity(episode, *pair) for pair in ((0, 2), (2, 5), (5, 8), (8, 9), (9, 10))]
    assert found == pytest.approx([1e6, 0.75e6, 1e6, 0.75e6, 1e6])
    assert capacity(replace(STEADY, rivals=(Rival("udp", 1, 0, 20, 9.0),)), 3, 4) == pytest.approx(LEAST_LEFT * 1e6)
    assert Link.of(episode).rivals_at(np.array([3.0])).tolist() == [0]


def test_competing_flows_come_and_go():
    link = Link.of(replace(STEADY, rivals=(Rival("cubic", 3, 2, 9), Rival("bbr", 1, 5, 20))))
    times = np.array([0.0, 2.0, 6.0, 9.0, 19.0])
    assert link.rivals_at(times).tolist() == [0, 3, 4, 1, 1]
    assert link.rivals_at(times, "cubic").tolist() == [0, 3, 3, 0, 0]
