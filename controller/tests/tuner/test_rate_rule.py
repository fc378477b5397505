# SPDX-License-Identifier: Apache-2.0
"""A rate that follows the line: use of the line, bounds, lost probes, longer paths, clocks."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_rig import SimulatedLine

from weir.tuner.rate import RateRule, RateSettings

BOUNDS = RateSettings(5e5, 6e6, 20e6, target_us=8_000)


def a_line(rate_bit_s=lambda _: 10e6, settings=BOUNDS, **options) -> SimulatedLine:
    return SimulatedLine(RateRule(settings, 0), rate_bit_s, **options)


def steps(*rates: float, every_s: float = 8.0):
    return lambda at_s: rates[int(at_s / every_s) % len(rates)]


# ---- purpose ----


@pytest.mark.parametrize("target_us", [8_000, 30_000])
@pytest.mark.parametrize("line_bit_s", [1e6, 4e6, 10e6, 18e6])
def test_a_constant_line_is_used_and_its_queue_stays_near_the_target(line_bit_s, target_us):
    line = a_line(lambda _: line_bit_s, replace(BOUNDS, target_us=target_us))
    line.run(10)
    line.begin_figures()
    line.run(30)
    packets_ms = 2 * 1514 * 8e3 / line_bit_s
    assert line.used > 0.95
    assert line.delay_ms(0.5) < target_us / 1e3 + packets_ms + 15


def test_a_line_that_becomes_slower_keeps_little_in_its_queue():
    line = a_line(steps(10e6, 4e6))
    line.run(64)
    assert line.used > 0.93
    assert line.delay_ms(0.9) < 60


def test_a_line_that_becomes_faster_is_used_within_seconds():
    line = a_line(lambda at_s: 2e6 if at_s < 15 else 16e6)
    line.run(20)
    line.begin_figures()
    line.run(10)
    assert line.used > 0.9


def test_without_load_the_rate_returns_to_the_base():
    line = a_line(load=lambda at_s: 1.0 if at_s < 10 else 0.1)
    line.run(70)
    assert line.rule.rate_bit_s == pytest.approx(BOUNDS.base_bit_s, rel=0.02)


def test_load_below_the_rate_does_not_raise_it():
    line = a_line(load=lambda _: 0.6)
    line.run(30)
    assert line.rule.rate_bit_s == pytest.approx(BOUNDS.base_bit_s)


def test_delay_without_load_of_ours_is_not_ours():
    line = a_line(load=lambda _: 0.05)
    line.run(5)
    line.base_ms += 300
    line.begin_figures()
    line.run(20)
    assert min(decision.rate_bit_s for decision in line.decisions) >= 0.9 * BOUNDS.base_bit_s


# ---- bounds and windup ----


@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.sampled_from([0.0, 1e5, 1e6, 5e6, 20e6, 90e6]), min_size=1, max_size=6),
    loads=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    lost=st.floats(0, 1),
    jitter_ms=st.floats(0, 100),
    base_ms=st.floats(1, 600),
    seed=st.integers(0, 1000),
)
def test_the_rate_stays_within_its_bounds(rates, loads, lost, jitter_ms, base_ms, seed):
    line = a_line(
        steps(*rates, every_s=1.0), load=steps(*loads, every_s=1.7), lost_share=lost, jitter_ms=jitter_ms,
        base_ms=base_ms, seed=seed,
    )  # fmt: skip
    line.run(6)
    for decision in line.decisions:
        assert BOUNDS.min_bit_s <= decision.rate_bit_s <= BOUNDS.max_bit_s
        assert math.isfinite(decision.load)


@pytest.mark.parametrize(("line_bit_s", "bound"), [(90e6, BOUNDS.max_bit_s), (1e5, BOUNDS.min_bit_s)])
def test_time_at_a_bound_does_not_wind_up(line_bit_s, bound):
    """After a minute at a bound the rate leaves it as quickly as after ten seconds."""
    times = []
    for seconds in (10, 60):
        line = a_line(lambda at_s, since_s=seconds: line_bit_s if at_s < since_s else 5e6, limit_bytes=40_000)
        line.run(seconds)
        assert line.rule.rate_bit_s == pytest.approx(bound, rel=0.3)
        line.begin_figures()
        line.run(15)
        away = [abs(decision.rate_bit_s - 5e6) < 2e6 for decision in line.decisions]
        assert any(away)
        times.append(away.index(True))
    assert times[1] <= times[0] + 20


# ---- probes ----


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_lost_probes_cost_little(share):
    line = a_line(lost_share=share)
    line.run(10)
    line.begin_figures()
    line.run(60)
    assert line.used > 0.8
    assert line.delay_ms(0.5) < 30


def test_reflectors_that_stop_leave_the_base_rate():
    line = a_line()
    line.run(10)
    line.stopped = {"a", "b"}
    line.run(60)
    assert line.rule.rate_bit_s == pytest.approx(BOUNDS.base_bit_s, rel=0.05)
    line.stopped = set()
    line.run(10)
    line.begin_figures()
    line.run(10)
    assert line.used > 0.9
    assert line.delay_ms(0.5) < 20


def test_one_reflector_that_stops_is_not_missed():
    line = a_line()
    line.run(10)
    line.stopped = {"a"}
    line.begin_figures()
    line.run(60)
    assert line.used > 0.75
    assert line.delay_ms(0.5) < 30


def test_an_outage_is_seen_before_an_answer_comes():
    line = a_line(lambda at_s: 0.0 if 10 <= at_s < 11 else 10e6)
    line.run(10.3)
    assert line.rule.rate_bit_s < 3e6
    line.run(4)
    line.begin_figures()
    line.run(10)
    assert line.used > 0.9


def test_reflectors_at_different_distances_do_not_disturb_each_other():
    rule = RateRule(BOUNDS, 0)
    far_us = {"near": 5_000, "far": 180_000}
    answers, t_us, key = [], 0, 0
    for t_us in range(25_000, 10_000_000, 25_000):
        if t_us % 50_000 == 0:
            key += 1
            name = "near" if key % 2 else "far"
            rule.sent(key, name, t_us, t_us // 10)
            answers.append((t_us + far_us[name], key))
        for at_us, its in [one for one in answers if one[0] <= t_us]:
            assert rule.answered(its, at_us)
            answers.remove((at_us, its))
        decision = rule.tick(t_us, t_us // 10)
    assert decision.delay_us == 0


@pytest.mark.parametrize("key", [7, -1])
def test_an_answer_to_no_probe_is_ignored(key):
    rule = RateRule(BOUNDS, 0)
    rule.sent(1, "a", 0, 0)
    assert not rule.answered(key, 10_000)
    assert rule.answered(1, 10_000)
    assert not rule.answered(1, 20_000)


# ---- the path ----


@pytest.mark.parametrize(("longer_ms", "most_ms"), [(5, 20), (30, 20), (200, 60)])
def test_a_longer_path_is_not_taken_for_a_queue(longer_ms, most_ms):
    line = a_line()
    line.run(20)
    line.base_ms += longer_ms
    line.run(15)
    line.begin_figures()
    line.run(60)
    assert line.used > 0.9
    assert line.delay_ms(0.5) < most_ms


def test_a_shorter_path_is_known_within_a_minute():
    line = a_line(base_ms=60)
    line.run(20)
    line.base_ms = 30
    line.run(20)
    line.begin_figures()
    line.run(60)
    assert line.used > 0.9
    assert line.delay_ms(0.5) < 25


def test_the_least_round_trip_does_not_creep_up_over_minutes():
    line = a_line()
    line.run(200)
    line.begin_figures()
    line.run(20)
    assert line.delay_ms(0.5) < 20


def test_a_queue_that_stands_at_the_start_is_found():
    line = a_line(lambda _: 3e6, load=lambda _: 1.0)
    line._in = 150_000  # 400 ms
    line.run(40)
    line.begin_figures()
    line.run(20)
    assert line.delay_ms(0.5) < 30


@pytest.mark.parametrize("jitter_ms", [5, 15, 40])
def test_a_path_whose_delay_varies_by_itself_is_used(jitter_ms):
    line = a_line(jitter_ms=jitter_ms)
    line.run(20)
    line.begin_figures()
    line.run(60)
    assert line.used > 0.7
    assert line.delay_ms(0.5) < 60


# ---- clocks and counters ----


@settings(max_examples=15, deadline=None)
@given(jump_us=st.one_of(st.integers(-(10**10), -100_000), st.integers(2_000_000, 10**12)), at_s=st.floats(3, 8))
def test_a_clock_that_leaps_keeps_the_rate(jump_us, at_s):
    line = a_line()
    line.run(at_s)
    before = line.rule.rate_bit_s
    line.offset_us += jump_us
    line.begin_figures()
    line.run(0.05)
    assert line.decisions[0].action == "hold"
    assert line.decisions[0].rate_bit_s == before
    line.run(10)
    line.begin_figures()
    line.run(10)
    assert line.used > 0.85
    assert line.delay_ms(0.5) < 40


def test_a_counter_that_starts_anew_keeps_the_rate():
    line = a_line()
    line.run(10)
    before = line.rule.rate_bit_s
    line.sent_bytes = 0.0
    line.begin_figures()
    line.run(0.025)
    assert line.decisions[0].rate_bit_s == before
    line.run(10)
    assert line.used > 0.85


@pytest.mark.parametrize(
    "values",
    [(2e6, 1e6, 3e6), (1e6, 4e6, 3e6), (0, 1e6, 2e6), (1e6, 2e6, math.inf), (math.nan, 1e6, 2e6), (-1, 1e6, 2e6)],
)
def test_bounds_without_sense_are_refused(values):
    with pytest.raises(ValueError, match="must be"):
        RateSettings(*values)


@pytest.mark.parametrize("target_us", [0, 999, 1_000_001, -5])
def test_a_target_out_of_range_is_refused(target_us):
    with pytest.raises(ValueError, match="target_us"):
        RateSettings(1e6, 2e6, 3e6, target_us)
