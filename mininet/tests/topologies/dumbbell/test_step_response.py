# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.topologies.dumbbell.step_response import (
    BIN_S,
    SPECTRUM_BIN_S,
    Step,
    ahead,
    binned,
    capacity_bits,
    course_metrics,
    fct_metrics,
    quiet_stretch_s,
    response,
    round_trip_s,
    spectral_peak,
    steps_of,
)

TARGET_MS = 15.0
SPEC = {
    "duration_s": 40.0,
    "warmup_s": 10.0,
    "reference_target_ms": TARGET_MS,
    "link": {"access": {"delay_ms": 1.0}, "bottleneck": {"rate_mbit_s": 10.0, "delay_ms": 50.0}},
    "flows": [{"kind": "tcp", "count": 1, "start_s": 0.0, "stop_s": 40.0}],
}
T_S = np.arange(0, 10, BIN_S)
FULL = np.ones(len(T_S))


def red_noise(seconds, seed, sd_ms=6.0, bin_s=SPECTRUM_BIN_S, corner_s=0.3):
    rng = np.random.default_rng(seed)
    keep = np.exp(-bin_s / corner_s)
    steps = rng.normal(size=round(seconds / bin_s)) * sd_ms * np.sqrt(1 - keep**2)
    found = np.zeros(len(steps))
    for i in range(1, len(steps)):
        found[i] = keep * found[i - 1] + steps[i]
    return found


def test_a_decay_settles_when_it_enters_the_band():
    # The mean over the half second ahead of 80 e^-1.5t is 57 e^-1.5t; it comes under 22.5 - 15 at ln(57/7.5)/1.5 s.
    found = response(TARGET_MS + 80 * np.exp(-1.5 * T_S), FULL, TARGET_MS, limit_s=2.0)
    assert found.settling_s == pytest.approx(np.log(57 / 7.5) / 1.5, abs=2 * BIN_S)
    assert found.settled
    assert found.in_time
    assert found.overshoot_ms == pytest.approx(72, rel=0.02)  # the mean of its first fifth of a second
    slow = response(TARGET_MS + 80 * np.exp(-T_S / 3), FULL, TARGET_MS, limit_s=2.0)
    assert slow.settling_s == pytest.approx(3 * np.log(74 / 7.5), abs=2 * BIN_S)
    assert slow.settled
    assert not slow.in_time


@pytest.mark.parametrize("delay_ms", [np.full(len(T_S), 29.0), 20 + 40 * np.sin(2 * np.pi * T_S / 4)])
def test_what_stands_high_or_swings_has_not_settled(delay_ms):
    found = response(delay_ms, FULL, TARGET_MS, limit_s=2.0)
    assert (found.settled, found.in_time, found.settling_s) == (False, False, 10.0)


def test_noise_about_the_target_settles_at_once_and_a_late_burst_does_not_count():
    for seed in range(5):
        delay_ms = np.maximum(TARGET_MS + red_noise(10, seed, sd_ms=3.0, bin_s=BIN_S), 0)
        delay_ms[150:156] = 90
        assert response(delay_ms, FULL, TARGET_MS, limit_s=2.0).settling_s <= 0.5


def test_an_empty_queue_on_an_idle_link_has_not_settled():
    carried = np.where(T_S < 4, 0.5, 1.0)  # the senders take four seconds to fill what is there now
    found = response(np.zeros(len(T_S)), carried, TARGET_MS, limit_s=2.0)
    assert found.settling_s == pytest.approx(4, abs=0.5)
    assert found.overshoot_ms == 0


@pytest.mark.parametrize(
    ("delay_ms", "use"), [(0.0, 0.0), (1.0, 0.1), (TARGET_MS, 0.89)], ids=["empty", "starved", "below"]
)
def test_a_link_that_is_never_filled_has_not_settled_however_steady(delay_ms, use):
    found = response(FULL * delay_ms, FULL * use, TARGET_MS, limit_s=2.0)
    assert (found.settled, found.in_time, found.settling_s) == (False, False, 10.0)
    assert response(FULL * 1.0, FULL * 0.91, TARGET_MS, limit_s=2.0).settling_s == 0


def test_what_the_link_carries_is_measured_by_the_capacity_in_force():
    spec = SPEC | {"changes": [{"at_s": 20.0, "rate_mbit_s": 20.0}]}
    t_us = np.arange(0, 40e6, 1200)  # 10 Mbit/s throughout
    size_bytes = np.full(len(t_us), 1500.0)
    assert course_metrics(t_us, np.full(len(t_us), 1e3), size_bytes, spec)["step_1_settled"] == 0
    halved = SPEC | {"changes": [{"at_s": 20.0, "rate_mbit_s": 10.0}]}
    assert course_metrics(t_us, np.full(len(t_us), 1e3), size_bytes, halved)["step_1_settled"] == 1


def test_a_burst_after_settling_is_no_overshoot():
    delay_ms = np.full(len(T_S), TARGET_MS)
    delay_ms[100:110] = 90
    assert response(delay_ms, FULL, TARGET_MS, limit_s=2.0).overshoot_ms == 0


def test_steps_are_changes_of_link_and_load_after_warm_up():
    flows = [
        *SPEC["flows"],
        {"kind": "tcp", "count": 5, "start_s": 15.05, "stop_s": 40.0, "extra_rtt_ms": 100.0},
        {"kind": "udp", "count": 1, "start_s": 2.0, "stop_s": 39.5},
    ]
    changes = [{"at_s": 15.0, "rate_mbit_s": 2}, {"at_s": 5.0, "rate_mbit_s": 20}, {"at_s": 25.0, "delay_ms": 149.0}]
    spec = SPEC | {"flows": flows, "changes": changes}
    assert steps_of(spec) == [Step(15.0, 25.0, pytest.approx(2.02)), Step(25.0, 39.5, pytest.approx(4.0))]
    assert round_trip_s(spec, 0) == pytest.approx(0.202)
    assert quiet_stretch_s(spec) == (29.0, 39.5)
    assert quiet_stretch_s(SPEC) == (10.0, 40.0)
    assert steps_of(SPEC) == []
    assert capacity_bits(spec, 10, 40) == pytest.approx(5 * 20e6 + 25 * 2e6)
    assert capacity_bits(SPEC, 10, 40) == pytest.approx(30 * 10e6)


def test_a_sine_in_noise_is_found_where_it_is():
    t_s = np.arange(0, 20, SPECTRUM_BIN_S)
    for seed in range(5):
        found = spectral_peak(20 + red_noise(20, seed) + 8 * np.sin(2 * np.pi * 1.3 * t_s))
        assert found.hz == pytest.approx(1.3, abs=0.1)
        assert found.ratio > 12
        assert found.rms_ms == pytest.approx(8 / np.sqrt(2), rel=0.35)


def test_noise_alone_has_no_peak():
    ratios = [spectral_peak(20 + red_noise(20, seed)).ratio for seed in range(40)]
    assert max(ratios) < 9
    assert np.mean(ratios) < 6


@pytest.mark.parametrize("values", [np.full(1000, 3.0), np.arange(100.0)])
def test_nothing_can_be_said_of_what_stands_still_or_is_short(values):
    assert spectral_peak(values) is None


def test_bins_by_hand():
    mean, total = binned(np.array([1.0e6, 1.02e6, 1.14e6, 2e6]), np.array([2.0, 4.0, 5.0, 9.0]), 1.0, 1.2, 0.05)
    assert mean.tolist() == [3, 0, 5, 0]
    assert total.tolist() == [6, 0, 5, 0]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.integers(1, 20))
def test_means_ahead_are_plain_means(values, bins):
    found = ahead(np.array(values), bins)
    plain = [np.mean(values[i : i + bins]) for i in range(len(values))]
    assert found == pytest.approx(plain, abs=1e-4)


@given(st.lists(st.floats(0, 1e4), min_size=20, max_size=120), st.floats(1, 100), st.floats(0.5, 5))
def test_a_response_keeps_its_word(delay_ms, target_ms, limit_s):
    found = response(np.array(delay_ms), np.ones(len(delay_ms)), target_ms, limit_s)
    assert 0 <= found.settling_s <= len(delay_ms) * BIN_S + 1e-9
    assert 0 <= found.overshoot_ms <= max(0.0, max(delay_ms) - target_ms) + 1e-6
    assert found.settled or not found.in_time
    assert not found.in_time or found.settling_s <= limit_s


def test_completion_times_by_size():
    found = fct_metrics(np.array([100.0, 14_600.0, 14_601.0, 1e6]), np.array([1e3, 3e3, 5e3, 9e3]),
                        np.array([False, False, False, True]),
                        (("small", 14_600), ("medium", 100_000), ("large", np.inf)))  # fmt: skip
    assert (found["fct_count"], found["fct_unfinished_percent"]) == (4, 25.0)
    assert (found["fct_mean_ms"], found["fct_small_mean_ms"], found["fct_medium_mean_ms"]) == (4.5, 2.0, 5.0)
    assert found["fct_large_p95_ms"] == 9.0
    assert fct_metrics(np.array([]), np.array([]), np.array([]), (("small", 1),)) == {"fct_count": 0}


def test_a_run_without_steps_has_no_figures_of_them():
    t_us = np.arange(0, 40e6, 1200)
    found = course_metrics(t_us, np.full(len(t_us), 15e3), np.full(len(t_us), 1500.0), SPEC)
    assert found == {}
