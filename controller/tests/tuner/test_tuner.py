# SPDX-License-Identifier: Apache-2.0
"""The tuner's guard rails, whatever the telemetry says."""

import dataclasses
import itertools
import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuner_rig import Line, tuned

from weir.dataplane.base import Sample
from weir.gains import Gains
from weir.resources import PROFILES
from weir.settings import load
from weir.tuner import design
from weir.tuner.cli import human
from weir.tuner.core import Tuner
from weir.tuner.decision import DIFFERENCE, Decision, Effect, Settings, matters, near_kept
from weir.tuner.design import Choice, Point

TUNED = load(PROFILES / "tuned.toml")
OTHER = dataclasses.replace(TUNED, kp=12.0)


def sample_at(t_us: int, **more) -> Sample:
    plain = {
        "device": "d", "port": "p", "t_us": t_us, "delay_us": 15_000, "u": 0.1, "drop_probability": 0.01,
        "backlog_bytes": 18_000, "rate_bit_s": 10_000_000, "passed_packets": t_us // 1200,
        "passed_bytes": t_us // 1200 * 1500, "marks_packets": 0, "drops_aqm_packets": t_us // 120_000,
        "drops_limit_packets": 0, "row": 5,
    }  # fmt: skip
    return Sample(**(plain | more))


def steady(tuner: Tuner, begin_us: int, end_us: int, **more) -> list:
    """A busy queue on a line of `rate_bit_s`, 10 Mbit/s unless told."""
    told, last = [], tuner.window.samples[-1] if tuner.window.samples else sample_at(begin_us - 100_000)
    packets, drops = last.passed_packets, last.drops_aqm_packets
    for t_us in range(begin_us, end_us, 100_000):
        if "passed_packets" not in more:
            packets += round((more.get("rate_bit_s") or 1e7) * 0.1 / 8 / 1500)
            drops += 1
        counts = {"passed_packets": packets, "passed_bytes": packets * 1500, "drops_aqm_packets": drops}
        told += tuner.sample(sample_at(t_us, **(counts | more)), t_us)
    return told


def new(**wanted) -> Tuner:
    return Tuner(Settings(**wanted), "d", "p", TUNED, 0)


points = st.builds(
    Point,
    capacity_bit_s=st.floats(1e5, 1e11),
    rtt_s=st.floats(1e-4, 5),
    p=st.floats(0, 1),
    packet_bytes=st.floats(40, 9000),
)
choices = st.builds(Choice, kp_factor=st.floats(1 / 8, 4), gate_factor=st.floats(0.5, 2),
                    integral_time_factor=st.floats(1 / 4, 1))  # fmt: skip


@given(points, choices, st.integers(100, 1_000_000), st.sampled_from(["linear", "squared"]), st.floats(1.3, 15.9))
def test_gains_are_always_ones_the_law_accepts_and_within_bounds(point, choice, target_us, probability, z1):
    base = dataclasses.replace(TUNED, target_us=target_us, probability=probability, z1=z1)
    gains = design.gains_for(point, base, choice)  # Gains checks all that the law asks for
    assert gains.target_us == target_us
    assert (gains.ecn_bound, gains.z1, gains.z2, gains.z3) == (base.ecn_bound, base.z1, base.z2, base.z3)
    assert 0 < gains.kp <= design.KP_MOST_PER_S
    packet_s, p = point.packet_bytes * 8 / point.capacity_bit_s, min(point.p, design.P_MOST)
    steepest = gains.kp * max(gains.z1, gains.z2, gains.z3, 1)
    assert steepest * packet_s <= design.PACKET_SHARE * (1 + 1e-9)
    period_s = max(gains.interval_us / 1e6, packet_s)
    assert 2 * p**0.5 * steepest * period_s / (1 - p) <= design.THINNING * (1 + 1e-9)
    assert design.INTERVAL_US[0] <= gains.interval_us <= design.INTERVAL_US[1]
    assert design.GATE <= gains.min_delay_share <= 1
    assert gains.min_backlog_bytes == base.min_backlog_bytes
    gains.to_params()


@given(points, choices, st.integers(100, 15000))
def test_bounds_that_are_shares_follow_the_target_that_is_chosen(point, choice, target_us):
    base = dataclasses.replace(TUNED, delay_bound_share=1.25, delay_limit_share=1.75, ecn_drop_share=4.0)
    chosen = dataclasses.replace(choice, target_us=target_us)
    params = design.gains_for(point, Gains.from_params(base.to_params()), chosen).to_params()
    wanted = [round(share * target_us) for share in (1.25, 1.75, 4.0)]
    assert [params.delay_bound_us, params.delay_limit_us, params.ecn_drop_us] == wanted


@settings(deadline=None, max_examples=60)
@given(st.floats(1e6, 2e8), st.floats(0.005, 0.3), st.floats(1e-4, 0.3))
def test_no_phase_margin_is_told_of_a_loop_that_the_model_calls_unstable(capacity_bit_s, rtt_s, p):
    told = design.forecast(*((point := Point(capacity_bit_s, rtt_s, p, 1500.0)), design.gains_for(point, TUNED)))
    if told.stable:
        assert told.gain_margin_db is None or told.gain_margin_db >= 0
    else:
        assert told.phase_margin_deg is None
        assert told.settling_s is None


def test_an_unstable_loop_is_called_so():
    point = Point(10e6, 0.1, 0.01, 1500.0)
    told = design.forecast(point, design.gains_for(point, TUNED))
    assert told.stable is False
    line = Decision(0, "d", "p", "set", "why", stable=told.stable, gain_margin_db=told.gain_margin_db)
    assert f"unstable by the linear model, {told.gain_margin_db:.0f} dB" in human(line, "now")
    assert "degrees" not in human(line, "now")


chaos = st.lists(
    st.tuples(
        st.sampled_from(["sample", "sample", "sample", "lost", "back", "rtt"]),
        st.one_of(st.just(100_000), st.integers(-2_000_000, 30_000_000)),
        st.one_of(st.just(100_000), st.integers(0, 20_000), st.integers(0, 30_000_000)),
        st.integers(0, 2**24 - 1),
        st.one_of(st.none(), st.integers(0, 10**13), st.just(10_000_000)),
        st.integers(0, 2**40),
        st.integers(-5, 5000),
    ),
    max_size=120,
)


@settings(deadline=None, max_examples=150)
@given(chaos, st.floats(0.1, 5))
def test_whatever_is_told_no_port_is_changed_too_often_or_to_what_the_law_refuses(events, every_s):
    tuner = new(at_most_every_s=every_s)
    t_us, now_us, passed, changes = 10_000_000, 0, 0, []
    for what, step_us, came_us, delay_us, rate_bit_s, backlog_bytes, packets in events:
        t_us, now_us = max(0, t_us + step_us), now_us + came_us
        passed = max(0, passed + packets)
        if what == "lost":
            told = tuner.lost(t_us)
        elif what == "back":
            told = tuner.back(tuner.gains, t_us)
        elif what == "rtt":
            told = tuner.rtt(delay_us, "spin-bit", t_us) or []
        else:
            told = tuner.sample(
                sample_at(t_us, delay_us=delay_us, rate_bit_s=rate_bit_s, backlog_bytes=backlog_bytes,
                          passed_packets=passed, passed_bytes=passed * 1500, drops_aqm_packets=passed // 50), now_us,
            )  # fmt: skip
        for one in told:
            json.dumps(one.record())
            if isinstance(one, Decision) and one.gains is not None:
                one.gains.to_params()
                assert one.gains == tuner.gains
                changes.append(now_us)
                assert what == "sample", "gains are changed by nothing but telemetry"
    assert all(later - earlier >= every_s * 1e6 for earlier, later in itertools.pairwise(changes))


def heard(tuner: Tuner, line: Line, until_s: float, now_us) -> list:
    """What the tuner says of the line's samples that come at `now_us` of their time."""
    told = []
    while line.now_s < until_s - 1e-9:
        line.run(line.now_s + 0.1)
        sample = line.sample()
        told += tuner.sample(sample, now_us(sample.t_us))
    return told


def test_samples_that_waited_are_neither_judged_on_nor_answered_one_by_one():
    line, tuner = Line(10e6, 0.02, 10, TUNED), new(trials=False)
    heard(tuner, line, 5, lambda t_us: t_us)
    line.rate_bit_s = 4e6
    told = heard(tuner, line, 64, lambda t_us: 66_000_000 + t_us // 1000)
    assert told
    assert all(one.action == "hold" and "s late; the gains stay" in one.reason for one in told)
    after = heard(tuner, line, 70, lambda t_us: 990_000 + t_us)
    assert "set" in [one.action for one in after]


def test_a_minute_in_a_moment_from_the_start_brings_one_change():
    line = Line(10e6, 0.02, 10, TUNED)
    tuner = Tuner(Settings(), "rig", "p1", TUNED, 0)
    changes = 0
    for at in range(600):
        line.run(0.1 * (at + 1))
        if at % 100 == 0:
            line.rate_bit_s = 4e6 if line.rate_bit_s == 10e6 else 10e6
        told = tuner.sample(line.sample(), 60_000_000 + at * 400)
        changes += sum(isinstance(one, Decision) and one.gains is not None for one in told)
    assert changes == 1


def test_a_clock_that_stood_still_is_not_late_for_ever():
    line, tuner = Line(10e6, 0.02, 10, TUNED), new(trials=False)
    heard(tuner, line, 5, lambda t_us: t_us)
    line.rate_bit_s = 4e6
    told = heard(tuner, line, 25, lambda t_us: t_us + 100_000_000)
    assert "telemetry comes 100.0 s late" in told[0].reason
    assert told[-1].action == "set"
    assert tuner.window.capacity_bit_s == pytest.approx(4e6, rel=0.1)


def test_no_capacity_no_change():
    tuner = new()
    assert steady(tuner, 0, 5_000_000, rate_bit_s=None, backlog_bytes=0) == []
    assert tuner.gains == TUNED


def test_first_decision_comes_within_half_a_second_and_settles():
    tuner = new(trials=False)
    told = steady(tuner, 0, 30_000_000)
    assert told[0].t_us <= 500_000
    assert told[0].action == "set"
    assert len(told) <= 3, "a steady line needs no more than a capacity, then a load"
    assert not matters(tuner.gains, told[-1].gains)


def test_a_drift_below_the_hysteresis_changes_nothing():
    tuner = new(trials=False)
    steady(tuner, 0, 20_000_000)
    gains = tuner.gains
    for begin_us, rate in ((20, 10.4e6), (26, 9.7e6), (32, 10.6e6)):
        assert steady(tuner, begin_us * 1_000_000, (begin_us + 6) * 1_000_000, rate_bit_s=int(rate)) == []
    assert tuner.gains == gains


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"t_us": 19_000_000}, "time went back"),
        ({"t_us": 19_900_000}, "twice"),
        ({"t_us": 29_900_000}, "no sample for 10.0 s"),
        ({"t_us": 20_000_000, "passed_packets": 0, "passed_bytes": 0, "drops_aqm_packets": 0}, "counters started anew"),
        ({"t_us": 20_000_000, "trouble": "netem came", "delay_us": 0, "rate_bit_s": None}, "netem came"),
    ],
)
def test_a_fault_of_telemetry_is_told_once_and_changes_nothing(fault, words):
    tuner = new(trials=False, rtt_s=0.02)
    steady(tuner, 0, 20_000_000)
    gains = tuner.gains
    given_sample = sample_at(**fault)
    told = tuner.sample(given_sample, given_sample.t_us)
    assert [one.action for one in told] == ["hold"]
    assert words in told[0].reason
    anew = given_sample.passed_packets == 0
    for t_us in range(given_sample.t_us + 100_000, given_sample.t_us + 15_000_000, 100_000):
        after = dataclasses.replace(sample_at(t_us - given_sample.t_us), t_us=t_us) if anew else sample_at(t_us)
        assert tuner.sample(after, t_us) == []
    assert tuner.gains == gains


def test_an_operators_hand_is_respected_until_resume():
    tuner = new()
    steady(tuner, 0, 2_000_000)
    told = tuner.operator_set(OTHER, 2_000_000)
    assert [one.action for one in told] == ["stand-down"]
    assert told[0].gains is None
    assert told[0].changed["kp"][1] == 12.0
    assert steady(tuner, 2_000_000, 30_000_000, rate_bit_s=3_000_000) == []
    assert tuner.operator_set(dataclasses.replace(OTHER, ki=1.0), 30_000_000) == []
    assert [one.action for one in tuner.resume(30_000_000)] == ["resume"]
    assert steady(tuner, 30_100_000, 35_000_000)[0].action == "set"


def test_our_own_change_told_back_is_no_operators_hand():
    tuner = new()
    decision = steady(tuner, 0, 2_000_000)[0]
    assert tuner.operator_set(decision.gains, 2_000_000) == []
    assert not tuner.stood_down


def test_lost_and_back_keeps_the_gains_and_other_gains_are_a_new_start():
    tuner = new(trials=False)
    steady(tuner, 0, 10_000_000)
    gains = tuner.gains
    assert [one.action for one in tuner.lost(10_000_000)] == ["hold"]
    assert tuner.lost(10_100_000) == []
    assert steady(tuner, 10_200_000, 12_000_000) == []
    assert [one.action for one in tuner.back(gains, 12_000_000)] == ["resume"]
    assert steady(tuner, 12_100_000, 25_000_000) == []
    tuner.lost(25_000_000)
    tuner.back(TUNED, 26_000_000)
    assert tuner.gains == TUNED
    again = steady(tuner, 26_100_000, 30_000_000)[0]
    assert again.action == "set"
    assert not matters(gains, again.gains)


def test_a_refused_write_leaves_the_old_gains_and_is_tried_again_later_and_later():
    tuner = new(trials=False)
    refused_us = []
    for t_us in range(0, 40_000_000, 100_000):
        for one in tuner.sample(sample_at(t_us), t_us):
            if one.gains is not None:
                refused_us.append(t_us)
                told = tuner.refused(one, "no such port", t_us)
                assert "no such port" in told[0].reason
                assert tuner.gains == TUNED
    waits = [later - earlier for earlier, later in itertools.pairwise(refused_us)]
    assert len(waits) >= 3
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]


def trial_of(tuner: Tuner, **queue) -> tuple[Decision, int]:
    for t_us in range(0, 120_000_000, 100_000):
        swing = dict(queue)
        swing["delay_us"] = 2_000 if t_us // 100_000 % 2 else 29_000
        for one in tuner.sample(sample_at(t_us, **swing), t_us):
            if one.action == "trial":
                return one, t_us
    raise AssertionError("no trial of a queue that swings")


def trials_of(seed: int, seconds: int, correlation_s: float, sd_ms) -> list[tuple[float, float, str]]:
    """Kp before, Kp tried and the verdict of each trial on a line of 10 Mbit/s whose delay is AR(1) noise; its swing
    follows Kp by `sd_ms`, nothing else does."""
    draw, tuner = random.Random(seed), new(rtt_s=0.1, hold_target=True)
    keep, noise, drops, sent, found, tried = math.exp(-0.1 / correlation_s), 0.0, 0, 0, [], (0.0, 0.0)
    for at in range(seconds * 10):
        noise = keep * noise + math.sqrt(1 - keep * keep) * draw.gauss(0, 1)
        delay_ms = max(1.0, 10.5 + sd_ms(tuner.gains.kp) * noise)
        backlog_bytes = round(delay_ms * 1250)
        sent += 83
        drops += sum(draw.random() < 0.01 for _ in range(83))
        sample = sample_at(
            (at + 1) * 100_000, delay_us=round(1e3 * delay_ms), backlog_bytes=backlog_bytes, passed_packets=sent,
            passed_bytes=round(0.995 * 125_000 * (at + 1)) + backlog_bytes, drops_aqm_packets=drops,
        )  # fmt: skip
        for one in tuner.sample(sample, sample.t_us):
            if isinstance(one, Effect):
                found.append((*tried, one.verdict))
            elif one.action == "trial":
                tried = tuple(one.changed.get("kp", (0.0, 0.0)))
    return found


def test_chance_is_not_taken_for_an_improvement():
    found = []
    for seed, (correlation_s, sd_ms) in itertools.product(range(8), [(0.1, 4.5), (0.3, 5.5), (0.6, 4.5), (0.6, 7.0)]):
        found += trials_of(seed, 150, correlation_s, lambda kp, sd_ms=sd_ms: sd_ms)
    assert len(found) >= 80
    assert sum(verdict == "kept" for *_, verdict in found) <= 0.05 * len(found)


def test_a_real_improvement_is_kept():
    """Four times the Kp that this queue bears, and its swing goes with it."""
    found = [one for seed in range(12) for one in trials_of(seed, 150, 0.3, lambda kp: max(3.0, 12.0 * kp / 160))]
    better = [verdict for was, is_now, verdict in found if is_now < was]
    worse = [verdict for was, is_now, verdict in found if is_now > was]
    assert len(better) >= 8
    assert sum(verdict == "kept" for verdict in better) > 0.5 * len(better)
    assert "kept" not in worse


def test_a_queue_that_stays_above_its_target_is_first_given_a_faster_integral():
    tuner = new(hold_target=True)
    told = [one for one in steady(tuner, 0, 40_000_000, delay_us=20_000) if isinstance(one, Decision)]
    trial = next(one for one in told if one.action == "trial")
    assert "above the target" in trial.reason
    assert list(trial.changed) == ["ki"]
    was, is_now = trial.changed["ki"]
    assert is_now == pytest.approx(2 * was, rel=DIFFERENCE)
    after = told[told.index(trial) + 1]
    assert after.action == "roll-back", "the queue stayed where it was"
    assert after.changed["ki"] == [is_now, was]


def test_a_trial_that_makes_things_worse_is_rolled_back_exactly():
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    old = {key: before for key, (before, _) in trial.changed.items()}
    assert old
    worse = [
        one
        for t_us in range(began_us + 100_000, began_us + 10_000_000, 100_000)
        for one in tuner.sample(sample_at(t_us, delay_us=1_000 if t_us // 100_000 % 2 else 60_000), t_us)
    ]
    assert len(worse) == 2
    effect, back = worse
    assert isinstance(effect, Effect)
    assert effect.verdict == "rolled-back"
    assert effect.of_t_us == trial.t_us
    assert effect.after.delay_sd_us > effect.before.delay_sd_us
    assert back.action == "roll-back"
    assert {key: getattr(back.gains, key) for key in old} == pytest.approx(old, rel=1e-5)
    assert {key: [after, before] for key, (before, after) in trial.changed.items()} == back.changed


def test_a_trial_that_helps_is_kept():
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    told = steady(tuner, began_us + 100_000, began_us + 10_000_000, delay_us=14_000)
    assert [getattr(one, "verdict", None) or one.action for one in told] == ["kept", "keep"]
    assert tuner.gains == trial.gains


def test_a_trial_is_taken_back_when_telemetry_fails_meanwhile():
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    late = sample_at(began_us + 20_000_000)
    told = tuner.sample(late, late.t_us)
    effect, back = told
    assert (effect.verdict, effect.after) == ("rolled-back", None)
    assert back.action == "roll-back"
    assert {key: [after, before] for key, (before, after) in trial.changed.items()} == back.changed
    assert "not measured" in human(effect, "now")


def test_a_trial_cut_by_lost_telemetry_is_taken_back_when_it_is_there_again():
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    tuner.lost(began_us + 500_000)
    told = tuner.back(trial.gains, began_us + 20_000_000)
    assert [one.action for one in told] == ["resume"]
    assert "trial" in told[0].reason
    effect, back = steady(tuner, began_us + 20_100_000, began_us + 23_000_000)
    assert (effect.of_t_us, effect.verdict, back.action) == (trial.t_us, "rolled-back", "roll-back")
    assert {key: [after, before] for key, (before, after) in trial.changed.items()} == back.changed


@pytest.mark.parametrize("what", ["operator_set", "back"])
def test_a_trial_that_others_gains_replace_has_an_end(what):
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    effect, *_ = getattr(tuner, what)(OTHER, began_us + 500_000)
    assert (effect.of_t_us, effect.verdict, effect.after) == (trial.t_us, "rolled-back", None)
    assert tuner.gains == OTHER


def test_a_trial_cut_by_another_capacity_leaves_nothing_behind():
    tuner = new(hold_target=True)
    trial, began_us = trial_of(tuner)
    told = steady(tuner, began_us + 100_000, began_us + 12_000_000, rate_bit_s=3_000_000)
    assert (told[0].of_t_us, told[0].verdict) == (trial.t_us, "rolled-back")
    assert told[1].action == "set"
    assert tuner.choice == Choice()


def test_what_is_hardly_different_stays_as_it_is():
    wanted = dataclasses.replace(TUNED, kp=TUNED.kp * 1.05, ki=TUNED.ki * 3, dq_shift=TUNED.dq_shift + 1)
    assert near_kept(TUNED, wanted) == dataclasses.replace(TUNED, ki=TUNED.ki * 3)
    assert not matters(TUNED, dataclasses.replace(TUNED, kp=TUNED.kp * 1.05))
    assert matters(TUNED, wanted)


def seek(tuner: Tuner, begin_us: int, seconds: float, mean_us: int, swing_us: int, drops: int = 1) -> list[Decision]:
    """A busy line's queue that stays around `mean_us`, whatever it is told to hold."""
    told = []
    for t_us in range(begin_us, begin_us + round(seconds * 1e6), 100_000):
        delay_us = mean_us + (swing_us if t_us // 100_000 % 2 else -swing_us)
        hits = drops * t_us // 100_000
        told += tuner.sample(sample_at(t_us, delay_us=delay_us, drops_aqm_packets=hits), t_us)
    return [one for one in told if isinstance(one, Decision) and "target_us" in one.changed]


def test_a_target_comes_down_by_what_is_to_spare_and_up_where_the_queue_runs_empty():
    tuner = new()
    down = seek(tuner, 0, 6, 14_000, 3_000)
    assert down[0].changed["target_us"][0] == 15_000
    assert down[0].changed["target_us"][1] == pytest.approx(15_000 - (14_000 - 2.2 * 3_000), abs=400)
    low_us = tuner.gains.target_us
    (up,) = seek(tuner, 10_000_000, 4, 2_500, 2_400)
    assert up.changed["target_us"] == [low_us, pytest.approx(min(low_us + 2.2 * 2_400 - 2_500, 15_000), abs=300)]
    assert not seek(tuner, 14_000_000, 9, 14_000, 1_500), "it must stay up for a while"
    assert tuner.base.target_us == 15_000


@given(st.lists(st.tuples(st.integers(1_000, 40_000), st.floats(0.0, 1.0), st.integers(0, 3)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_no_target_is_above_the_operators_nor_too_short_for_three_packets(queues):
    tuner, at_us = new(), 0
    for mean_us, swing, drops in queues:
        seek(tuner, at_us, 6, mean_us, round(swing * mean_us), drops)
        at_us += 6_000_000
        assert 3 * 1211 <= tuner.gains.target_us <= 15_000
        assert tuner.gains.m2_us < tuner.gains.target_us < tuner.gains.m1_us


def test_a_target_to_be_held_is_held():
    tuner = new(hold_target=True)
    assert not seek(tuner, 0, 20, 14_000, 1_000)
    assert tuner.gains.target_us == 15_000


def test_few_drops_do_not_tell_how_far_a_queue_swings():
    assert not seek(new(), 0, 8, 14_000, 1_000, drops=0)


def test_on_a_slow_line_the_packet_that_is_sent_is_taken_off():
    tuner = new()
    told = steady(tuner, 0, 2_000_000, rate_bit_s=2_000_000, delay_us=9_000)
    assert told[0].changed["target_us"] == [15_000, pytest.approx(15_000 - 6_056, abs=200)]
    held = new(hold_target=True)
    steady(held, 0, 2_000_000, rate_bit_s=2_000_000, delay_us=9_000)
    assert held.gains.target_us == 15_000


def test_a_tuner_that_knows_the_operators_target_does_not_take_a_lower_one_for_it():
    lowered = dataclasses.replace(TUNED, target_us=5_000, m1_us=6_666, m2_us=3_333)
    told = steady(Tuner(Settings(), "d", "p", lowered, 0, target_us=15_000), 0, 2_000_000)
    assert told[0].changed["target_us"] == [5_000, 15_000]
    asked = Tuner(Settings(target_us=8_000), "d", "p", lowered, 0, target_us=15_000)
    assert steady(asked, 0, 2_000_000)[0].changed["target_us"] == [5_000, 8_000]


def test_an_operators_hand_makes_a_new_target():
    tuner = new()
    assert seek(tuner, 0, 10, 14_000, 1_500)
    tuner.operator_set(dataclasses.replace(tuner.gains, kp=50.0), 10_000_000)
    assert tuner.base.target_us == 15_000  # it is not about the target
    tuner.resume(10_000_000)
    by_hand = dataclasses.replace(tuner.gains, target_us=12_000)
    tuner.operator_set(by_hand, 10_000_000)
    tuner.resume(10_000_000)
    seek(tuner, 10_000_000, 20, 4_000, 3_900)
    assert tuner.base.target_us == 12_000
    assert tuner.gains.target_us <= 12_000


@pytest.mark.parametrize("wrong", [{"rtt_s": 0.0}, {"rtt_s": float("nan")}, {"capacity_bit_s": 1.0}, {"target_us": 5},
                                   {"phase_margin_deg": 90}, {"at_most_every_s": 0.0}])  # fmt: skip
def test_settings_name_what_is_wrong(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)


def test_a_line_without_load_is_left_alone_after_the_first_setting():
    line = Line(10e6, 0.02, 1, TUNED)
    told = tuned(line, Tuner(Settings(trials=False), "rig", "p1", TUNED, 0), 3)
    assert len(told) <= 1


@pytest.mark.parametrize("refused", [False, True])
def test_a_device_that_started_anew_is_looked_at_anew(refused):
    """Its clock and counters begin again, below those that the look, the waits and a refusal were told by."""
    tuner, up_us = new(), 100_000_000_000
    if refused:
        first = next(one for one in steady(tuner, up_us, up_us + 1_000_000) if one.gains)
        tuner.refused(first, "gone", first.t_us)
    else:
        assert seek(tuner, up_us, 6, 14_000, 3_000)
    was = tuner.gains
    tuner.lost(up_us + 6_000_000)
    tuner.back(was, up_us + 7_000_000)
    told = []
    for t_us in range(1_000_000, 21_000_000, 100_000):
        one = sample_at(t_us, delay_us=2_500 + 2_400 * (-1) ** (t_us // 100_000))
        told += tuner.sample(one, up_us + t_us + 7_000_000)
    assert [one for one in told if one.changed]
    assert refused or tuner.gains.target_us > was.target_us


def test_gains_of_a_write_whose_end_was_not_seen_do_not_lower_the_operators_target():
    tuner = new()
    seek(tuner, 0, 6, 14_000, 3_000)
    tuner.lost(6_000_000)
    tuner.back(dataclasses.replace(tuner.gains, target_us=4_000), 7_000_000, target_us=15_000)
    assert tuner.base.target_us == 15_000


@given(st.floats(5e4, 1e12), st.integers(1, 2**24 - 1))
def test_targets_are_in_order_and_one_tuner_after_the_other_brings_none_to_nothing(capacity_bit_s, target_us):
    least_us, most_us = design.targets_us(capacity_bit_s, target_us)
    assert 1 <= least_us <= most_us <= target_us
    ever_us = target_us
    for _ in range(30):
        ever_us = design.targets_us(capacity_bit_s, ever_us)[0]
    assert ever_us >= min(target_us, 1.3 * 1514 * 8e6 / capacity_bit_s)


def test_traffic_that_comes_and_goes_is_no_line_left_unused():
    tuner, drops, packets = new(), 0, 0
    raised = []
    for t_us in range(0, 200_000_000, 100_000):
        on = t_us % 20_000_000 < 10_000_000
        packets += 83 * on
        drops += on
        delay_us = (6_000 + 500 * (-1) ** (t_us // 100_000)) * on
        one = sample_at(
            t_us, delay_us=delay_us, backlog_bytes=7_500 * on, passed_packets=packets, passed_bytes=packets * 1500,
            drops_aqm_packets=drops,
        )  # fmt: skip
        raised += [line for line in tuner.sample(one, t_us) if "of the line used" in getattr(line, "reason", "")]
    assert tuner.gains.target_us < 15_000
    assert not raised
