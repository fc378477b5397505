# SPDX-License-Identifier: Apache-2.0
"""Figures of two bands, by what packets say of themselves as they go into the queue under test."""

import numpy as np
import pytest

from weirlab.topologies.dumbbell.bands import METRICS, bands_metrics, has_both

BULK = {"kind": "tcp", "start_s": 0.0, "stop_s": 20.0, "count": 1}
SPEC = {
    "warmup_s": 5.0,
    "duration_s": 20.0,
    "flows": [
        {**BULK, "ect1": True, "count": 2},
        {**BULK, "count": 4},
        {**BULK, "start_s": 10.0},
        {**BULK, "kind": "udp", "ect1": False},
    ],
}
RATES = {0: 6.0, 1: 3.0, 2: 50.0, 3: 1.0}


def test_each_band_has_its_own_delays_and_share():
    delay_us = np.array([1000.0, 3000.0, 9000.0, 2000.0])
    low = np.array([True, False, False, True])
    found = bands_metrics(delay_us, np.array([300.0, 500.0, 100.0, 100.0]), low, RATES, SPEC)
    assert set(found) == set(METRICS)
    assert found["queue_delay_low_mean_ms"] == pytest.approx(1.5)
    assert found["queue_delay_low_max_ms"] == pytest.approx(2)
    assert found["queue_delay_classic_p50_ms"] == pytest.approx(6)
    assert found["low_share_percent"] == pytest.approx(40)


def test_the_balance_is_a_flows_rate_over_a_flows_rate_of_those_that_ran_throughout():
    found = bands_metrics(np.array([1.0]), np.array([1.0]), np.array([True]), RATES, SPEC)
    assert found["goodput_classic_over_scalable"] == pytest.approx((3 / 4) / (6 / 2))
    assert found["queue_delay_classic_mean_ms"] is None
    silent = bands_metrics(np.array([1.0]), np.array([1.0]), np.array([True]), {**RATES, 0: 0.0}, SPEC)
    assert silent["goodput_classic_over_scalable"] is None


def test_only_scenarios_with_both_sorts_of_flows_have_them():
    assert has_both(SPEC)
    assert not has_both({"flows": [BULK, BULK]})
    assert not has_both({"flows": [{**BULK, "ect1": True}]})
    prague = {**BULK, "kind": "quic-download", "cc": "prague"}
    assert has_both({"flows": [{**prague, "ecn": True}, BULK]})
    assert not has_both({"flows": [{**prague, "ecn": False}, BULK]})
