# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of paced flows and of the queue on the way back."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.metrics.paced import Stream, estimated_jitter, figures, longest_run, met
from weirlab.topologies.dumbbell.paced import paced_metrics
from weirlab.topologies.dumbbell.return_way import METRICS, return_metrics

TRANSITS = st.lists(st.none() | st.integers(0, 500_000), min_size=1, max_size=60)  # None: lost


def stream(transits_us, gap_us=20_000):
    """A flow's packets, each so long on its way."""
    sent = np.arange(len(transits_us)) * float(gap_us)
    heard = sorted((at + way, place) for place, (at, way) in enumerate(zip(sent, transits_us, strict=True))
                   if way is not None)  # fmt: skip
    return Stream(
        sent,
        np.array([place for _, place in heard], dtype=int),
        np.array([at for at, _ in heard]),
        np.full(len(heard), 160.0),
    )


def test_figures_that_can_be_done_in_the_head():
    # 100 packets of 20 ms, the first second warm-up; 30 ms on the way, the 60th and 61st lost, the 80th 46 ms late.
    transits = [30_000.0] * 100
    transits[60] = transits[61] = None
    transits[80] = 46_000.0
    found = figures([met(stream(transits), 1e6, 2e6)])
    assert (found["packets"], found["loss_percent"], found["loss_run_packets"]) == (50, 4.0, 2)
    assert found["delay_mean_ms"] == pytest.approx((47 * 30 + 46) / 48)
    assert found["delay_p50_ms"] == 30
    # J is 1 ms after the late packet (16 / 16), 1 + (16 - 1) / 16 after the next, and decays from there on.
    first, second = 1.0, 1 + 15 / 16
    course = [0.0] * 28 + [first, second] + [second * (15 / 16) ** n for n in range(1, 19)]
    assert found["jitter_ms"] == pytest.approx(sum(course) / 48)
    assert found["jitter_p99_ms"] == pytest.approx(16, rel=0.01)


def test_a_flow_of_which_nothing_arrives_has_losses_and_no_delay():
    found = figures([met(stream([None] * 20), 0, 1e9)])
    assert (found["loss_percent"], found["loss_run_packets"], found["delay_mean_ms"]) == (100, 20, None)
    assert figures([met(stream([None]), 1e9, 2e9)])["loss_percent"] is None


@given(TRANSITS)
def test_jitter_is_that_of_the_rfc(transits):
    """RFC 3550 6.4.1 as it stands there, packet by packet in order of arrival."""
    flow = stream(transits)
    jitter, last, course = 0.0, None, []
    for place, at in zip(flow.heard_place, flow.heard_us, strict=True):
        transit = at - flow.sent_us[place]
        if last is not None:
            jitter += (abs(transit - last) - jitter) / 16
            course.append(jitter)
        last = transit
    found = met(flow, 0, 1e12)
    assert found.jitter_us == pytest.approx(course)
    assert (found.jitter_us <= max(found.deviation_us, default=0) + 1e-6).all()


@given(TRANSITS, st.integers(0, 10**6))
def test_a_longer_way_changes_delay_and_nothing_else(transits, more):
    near = figures([met(stream(transits), 0, 1e12)])
    far = figures([met(stream([None if each is None else each + more for each in transits]), 0, 1e12)])
    for name, value in near.items():
        shift = more / 1e3 if name.startswith("delay") and value is not None else 0
        assert far[name] == (None if value is None else pytest.approx(value + shift, abs=1e-6))


@given(st.lists(st.booleans()))
def test_the_longest_run_of_losses_is_the_longest(arrived):
    text = "".join("." if here else "x" for here in arrived)
    assert longest_run(np.array(arrived, dtype=bool)) == max(map(len, re.findall("x+", text)), default=0)


@given(TRANSITS)
def test_a_packet_that_comes_twice_counts_once(transits):
    once = stream(transits)
    twice = Stream(
        once.sent_us,
        np.concatenate([once.heard_place, once.heard_place]),
        np.concatenate([once.heard_us, once.heard_us + 1e9]),
        np.concatenate([once.heard_bytes, once.heard_bytes]),
    )
    assert figures([met(twice, 0, 1e12)]) == figures([met(once, 0, 1e12)])


def test_steady_jitter_comes_to_its_value():
    assert estimated_jitter(np.full(200, 5000.0))[-1] == pytest.approx(5000, rel=1e-4)


def test_each_flow_has_figures_of_its_own_beside_its_kinds():
    flows = [
        {"kind": "tcp", "count": 1},
        {"kind": "voice", "count": 2},
        {"kind": "game", "count": 1},
    ]
    spec = {"flows": flows, "warmup_s": 0.0, "duration_s": 4.0}
    streams = {(1, 0): stream([10_000.0] * 100), (1, 1): stream([30_000.0] * 100), (2, 0): stream([5_000.0] * 100)}
    found = paced_metrics(streams, spec)
    assert [found[f"{name}_delay_mean_ms"] for name in ("voice", "voice_1.0", "voice_1.1", "game", "game_2.0")] == [
        20, 10, 30, 5, 5
    ]  # fmt: skip
    assert found["voice_packets"] == 200
    assert found["voice_jitter_ms"] == 0


def test_figures_of_the_way_back_that_can_be_done_in_the_head():
    counters = {"drops_aqm_packets": 3, "drops_limit_packets": 2, "marks_packets": 0}
    size = np.array([66.0, 66, 94, 1242])
    found = return_metrics(np.array([1e3, 2e3, 3e3, 10e3]), size, counters, 12, 0.1, 2.0)
    assert set(found) == set(METRICS)
    assert (found["return_packets"], found["return_acks_packets"], found["return_acks_per_packet"]) == (4, 3, 0.25)
    assert found["return_utilisation_percent"] == pytest.approx(100 * 1468 * 8 / 200_000)
    assert (found["return_delay_mean_ms"], found["return_delay_p50_ms"], found["return_delay_max_ms"]) == (4, 2.5, 10)
    assert found["return_loss_percent"] == pytest.approx(100 * 5 / 9)
    assert found["return_drops_qdisc_packets"] is None
    nothing = return_metrics(np.array([]), np.array([]), {}, 12, 0.1, 2.0)
    assert nothing["return_delay_mean_ms"] is None
    assert nothing["return_packets"] == 0
