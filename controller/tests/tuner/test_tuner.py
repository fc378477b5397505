# SPDX-License-Identifier: Apache-2.0
"""The tuner's guard rails, whatever the telemetry says."""

import dataclasses
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuner_rig import GENTLE, PAPER, STEEP, Line, tuned

from weir.dataplane.base import Sample
from weir.gains import Gains
from weir.tuner import design
from weir.tuner.cli import human
from weir.tuner.core import GOODPUT_LEAST, LOSS_MOST, Tuner, too_dear
from weir.tuner.decision import Decision, Effect, Settings, matters, near_kept
from weir.tuner.design import Point
from weir.tuner.window import Stretch

OTHER = dataclasses.replace(STEEP, kp=12.0)


def sample_at(t_us: int, **more) -> Sample:
    plain = {
        "device": "d", "port": "p", "t_us": t_us, "delay_us": 15_000, "u": 0.1, "drop_probability": 0.01,
        "backlog_bytes": 18_000, "rate_bit_s": 10_000_000, "passed_packets": t_us // 1200,
        "passed_bytes": t_us // 1200 * 1500, "marks_packets": 0, "drops_aqm_packets": t_us // 120_000,
        "drops_limit_packets": 0, "row": 5,
    }  # fmt: skip
    return Sample(**(plain | more))


def steady(tuner: Tuner, begin_us: int, end_us: int, **more) -> list:
    """A busy queue on a line of `rate_bit_s`, 10 Mbit/s by default."""
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
    return Tuner(Settings(**wanted), "d", "p", STEEP, 0)


points = st.builds(
    Point,
    capacity_bit_s=st.floats(1e5, 1e11),
    rtt_s=st.floats(1e-4, 5),
    p=st.floats(0, 1),
    packet_bytes=st.floats(40, 9000),
)


@given(
    points,
    st.sampled_from([STEEP, GENTLE, PAPER]),
    st.integers(100, 1_000_000),
    st.floats(0.001, 1),
    st.floats(1.3, 15.9),
)
def test_gains_are_the_operators_as_far_as_the_line_bears_them(point, profile, most_us, share, z1):
    base = design.held_at(dataclasses.replace(profile, z1=z1), most_us)
    target_us = max(round(share * most_us), 1)
    gains = design.gains_for(point, base, target_us)  # Gains checks all that the law asks for
    gains.to_params()
    assert gains.target_us == target_us
    assert gains.m2_us < gains.m1_us
    steepest = max(gains.z1, gains.z2, gains.z3, 1)
    assert 0 < gains.kp <= base.kp
    assert gains.kp * steepest * design.FULL_PACKET_BYTES * 8 / point.capacity_bit_s <= design.PACKET_SHARE * (1 + 1e-9)
    assert base.interval_us <= gains.interval_us <= max(base.interval_us, design.INTERVAL_MOST_US)
    ti = [one.kp * one.interval_us / one.ki for one in (base, gains) if one.ki]
    assert ti[1:] == pytest.approx(ti[:1], rel=0.01)
    ours = ("target_us", "m1_us", "m2_us", "kp", "ki", "kd", "interval_us")
    assert dataclasses.replace(gains, **{key: getattr(base, key) for key in ours}) == base


def test_a_line_that_bears_the_operators_gains_gets_them():
    assert design.gains_for(Point(10e6, 0.1, 0.01, 1500.0), STEEP) == STEEP
    slow = design.gains_for(Point(1e6, 0.1, 0.01, 1500.0), STEEP)
    assert slow.kp < 0.5 * STEEP.kp
    assert slow.interval_us > STEEP.interval_us


@given(points, st.integers(100, 15000))
def test_bounds_that_are_shares_follow_the_target_that_is_chosen(point, target_us):
    base = dataclasses.replace(STEEP, delay_bound_share=1.25, delay_limit_share=1.75, ecn_drop_share=4.0)
    params = design.gains_for(point, Gains.from_params(base.to_params()), target_us).to_params()
    wanted = [round(share * target_us) for share in (1.25, 1.75, 4.0)]
    assert [params.delay_bound_us, params.delay_limit_us, params.ecn_drop_us] == wanted


@settings(deadline=None, max_examples=60)
@given(st.floats(1e6, 2e8), st.floats(0.005, 0.3), st.floats(1e-4, 0.3))
def test_no_phase_margin_is_told_of_a_loop_that_the_model_calls_unstable(capacity_bit_s, rtt_s, p):
    told = design.forecast(*((point := Point(capacity_bit_s, rtt_s, p, 1500.0)), design.gains_for(point, STEEP)))
    if told.stable:
        assert told.gain_margin_db is None or told.gain_margin_db >= 0
    else:
        assert told.phase_margin_deg is None
        assert told.settling_s is None


def test_an_unstable_loop_is_called_so():
    point = Point(10e6, 0.1, 0.01, 1500.0)
    told = design.forecast(point, design.gains_for(point, STEEP))
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
    """Decisions of the tuner on the line's samples that come at `now_us` of their time."""
    told = []
    while line.now_s < until_s - 1e-9:
        line.run(line.now_s + 0.1)
        sample = line.sample()
        told += tuner.sample(sample, now_us(sample.t_us))
    return told


def test_samples_that_waited_are_neither_judged_on_nor_answered_one_by_one():
    line, tuner = Line(10e6, 0.02, 10, STEEP), new(hold_target=True)
    heard(tuner, line, 5, lambda t_us: t_us)
    line.rate_bit_s = 1e6
    told = heard(tuner, line, 64, lambda t_us: 66_000_000 + t_us // 1000)
    assert told
    assert all(one.action == "hold" and "s late; the gains stay" in one.reason for one in told)
    after = heard(tuner, line, 70, lambda t_us: 990_000 + t_us)
    assert "set" in [one.action for one in after]


def test_a_minute_in_a_moment_from_the_start_brings_one_change():
    line = Line(10e6, 0.02, 10, STEEP)
    tuner = Tuner(Settings(target_us=12_000), "rig", "p1", STEEP, 0)
    changes = 0
    for at in range(600):
        line.run(0.1 * (at + 1))
        if at % 100 == 0:
            line.rate_bit_s = 1e6 if line.rate_bit_s == 10e6 else 10e6
        told = tuner.sample(line.sample(), 60_000_000 + at * 400)
        changes += sum(isinstance(one, Decision) and one.gains is not None for one in told)
    assert changes == 1


def test_a_clock_that_stood_still_is_not_late_for_ever():
    line, tuner = Line(10e6, 0.02, 10, STEEP), new(hold_target=True)
    heard(tuner, line, 5, lambda t_us: t_us)
    line.rate_bit_s = 1e6
    told = heard(tuner, line, 25, lambda t_us: t_us + 100_000_000)
    assert "telemetry comes 100.0 s late" in told[0].reason
    assert told[-1].action == "set"
    assert tuner.window.capacity_bit_s == pytest.approx(1e6, rel=0.1)


def test_no_capacity_no_change():
    tuner = new()
    assert steady(tuner, 0, 5_000_000, rate_bit_s=None, backlog_bytes=0) == []
    assert tuner.gains == STEEP


def test_first_decision_comes_within_half_a_second_and_settles():
    tuner = new(hold_target=True, target_us=12_000)
    told = steady(tuner, 0, 30_000_000)
    assert told[0].t_us <= 500_000
    assert [one.action for one in told] == ["set"], "a steady line needs no more than a capacity"
    assert not matters(tuner.gains, told[-1].gains)


def test_a_line_that_bears_its_gains_is_left_as_it_is():
    tuner = new(hold_target=True)
    assert steady(tuner, 0, 30_000_000) == []
    assert tuner.gains == STEEP


def test_a_drift_below_the_hysteresis_changes_nothing():
    tuner = new(hold_target=True)
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
    tuner = new(hold_target=True, rtt_s=0.02)
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
    tuner = new(target_us=12_000)
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
    tuner = new(target_us=12_000)
    decision = steady(tuner, 0, 2_000_000)[0]
    assert tuner.operator_set(decision.gains, 2_000_000) == []
    assert not tuner.stood_down


def test_lost_and_back_keeps_the_gains_and_other_gains_are_a_new_start():
    tuner = new(hold_target=True, target_us=12_000)
    steady(tuner, 0, 10_000_000)
    gains = tuner.gains
    assert [one.action for one in tuner.lost(10_000_000)] == ["hold"]
    assert tuner.lost(10_100_000) == []
    assert steady(tuner, 10_200_000, 12_000_000) == []
    assert [one.action for one in tuner.back(gains, 12_000_000)] == ["resume"]
    assert steady(tuner, 12_100_000, 25_000_000) == []
    tuner.lost(25_000_000)
    tuner.back(STEEP, 26_000_000)
    assert tuner.gains == STEEP
    again = steady(tuner, 26_100_000, 30_000_000)[0]
    assert again.action == "set"
    assert not matters(gains, again.gains)


def test_a_refused_write_leaves_the_old_gains_and_is_tried_again_later_and_later():
    tuner = new(hold_target=True, target_us=12_000)
    refused_us = []
    for t_us in range(0, 40_000_000, 100_000):
        for one in tuner.sample(sample_at(t_us), t_us):
            if one.gains is not None:
                refused_us.append(t_us)
                told = tuner.refused(one, "no such port", t_us)
                assert "no such port" in told[0].reason
                assert tuner.gains == STEEP
    waits = [later - earlier for earlier, later in itertools.pairwise(refused_us)]
    assert len(waits) >= 3
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]


class Queue:
    """A line of 10 Mbit/s whose queue follows its parameters: `seek` lets time pass, with a mean delay of `mean_us`, or
    of `follows` times the present target, that swings by `swing_us`; `lost` is the share dropped, or a function of the
    target, and `used` likewise of the line."""

    def __init__(self, tuner: Tuner, t_us: int = 0, heard_later_us: int = 0):
        self.tuner, self.t_us, self.heard_later_us = tuner, t_us, heard_later_us
        self.sent = self.drops = 0.0

    def seek(self, seconds: float, mean_us: int | None = None, swing_us: int = 1_500, follows: float = 0.95,
             lost=0.03, used=0.999) -> list:  # fmt: skip
        told = []
        for _ in range(round(10 * seconds)):
            self.t_us += 100_000
            target_us = self.tuner.gains.target_us
            share = lost(target_us) if callable(lost) else lost
            busy = used(target_us) if callable(used) else used
            self.sent += 1e6 / 8 / 1500 * busy
            self.drops += 1e6 / 8 / 1500 * share / (1 - share)
            delay_us = follows * target_us if mean_us is None else mean_us
            delay_us += swing_us if self.t_us // 100_000 % 2 else -swing_us
            one = sample_at(
                self.t_us, delay_us=round(delay_us), passed_packets=round(self.sent),
                passed_bytes=round(1500 * self.sent), drops_aqm_packets=round(self.drops),
            )  # fmt: skip
            told += self.tuner.sample(one, self.t_us + self.heard_later_us)
        return told


def words(told: list) -> list[str]:
    return [one.verdict if isinstance(one, Effect) else one.action for one in told]


def on_trial(**queue_does) -> tuple[Queue, Decision]:
    queue = Queue(new())
    for _ in range(200):
        for one in queue.seek(0.1, **queue_does):
            if one.action == "trial":
                return queue, one
    raise AssertionError("no trial of a lower target")


def test_a_target_comes_down_by_what_is_to_spare_a_third_at_a_time():
    queue = Queue(new())
    told = queue.seek(30)
    assert words(told)[:3] == ["trial", "kept", "keep"]
    targets = [one.changed["target_us"] for one in told if isinstance(one, Decision) and one.changed]
    assert targets[0] == [15_000, 10_000]
    assert all(2 / 3 * was - 100 <= is_now < was for was, is_now in targets)
    last_us = queue.tuner.gains.target_us
    assert 2.0 * 1_500 < last_us < 3.5 * 1_500, "what its swing needs is left"
    assert queue.tuner.base.target_us == 15_000


COSTS = {
    "goodput": {"used": lambda target_us: 0.999 if target_us == 15_000 else 0.999 - 1.5 * GOODPUT_LEAST},
    "loss": {"lost": lambda target_us: 0.03 + (15_000 - target_us) / 1e3 * 0.004},  # 0.4 % a ms
    "as much delay": {"mean_us": 14_500},
    "much more of a small loss": {"lost": lambda target_us: 0.006 if target_us == 15_000 else 0.0065 * LOSS_MOST},
}


@pytest.mark.parametrize("what", COSTS)
def test_a_lower_target_that_costs_too_much_is_taken_back_exactly(what):
    queue, trial = on_trial(**COSTS[what])
    before = dataclasses.replace(queue.tuner.gains, **{key: was for key, (was, _) in trial.changed.items()})
    told = queue.seek(6, **COSTS[what])
    assert words(told) == ["rolled-back", "roll-back"]
    effect, back = told
    assert effect.of_t_us == trial.t_us
    assert effect.after is not None
    assert back.gains == before == STEEP
    assert back.changed == {key: [is_now, was] for key, (was, is_now) in trial.changed.items()}


def test_a_dearer_price_of_loss_keeps_the_target_higher():
    ends = []
    for price in (0.02, 0.12, 2.0):
        queue = Queue(new(loss_price=price))
        queue.seek(60, swing_us=500, lost=lambda target_us: 0.03 * (60_000 / (45_000 + target_us)) ** 2)
        ends.append(queue.tuner.gains.target_us)
    assert ends[0] > ends[1] > ends[2]


stretches = st.builds(
    Stretch, seconds=st.just(4.0), samples=st.just(40), delay_mean_us=st.integers(0, 100_000).map(float),
    delay_sd_us=st.floats(0, 1e5), utilisation=st.floats(0, 1.1), packets=st.just(4000), hits=st.just(40),
    p=st.floats(0, 1), lost=st.floats(0, 1),
)  # fmt: skip


@given(stretches, stretches, st.floats(0, 100))
def test_nothing_is_kept_that_costs_goodput_or_more_loss_than_its_delay_is_worth(before, after, price):
    if too_dear(before, after, price) is None:
        assert after.utilisation >= before.utilisation - GOODPUT_LEAST
        assert after.delay_mean_us < before.delay_mean_us or before.delay_mean_us == 0
        assert 100 * (after.lost - before.lost) <= price * (before.delay_mean_us - after.delay_mean_us) / 1e3 + 1e-9


STEPS = {
    "stays above": {"mean_us": 40_000},
    "must go": {"lost": 0.2},
    "of the line used": {"used": 0.8, "mean_us": 3_000},
}


@pytest.mark.parametrize("when", ["kept", "on trial"])
@pytest.mark.parametrize("told_as", STEPS)
def test_a_step_of_the_load_brings_the_operators_gains_back_at_once(told_as, when):
    queue, _ = on_trial()
    if when == "kept":
        queue.seek(12)
        assert queue.tuner.gains.target_us < 10_000
    told = queue.seek(5, **STEPS[told_as])
    back = next(one for one in told if isinstance(one, Decision))
    assert told_as in back.reason
    assert back.gains == STEEP
    assert queue.seek(5, mean_us=14_000) == [], "the operator's gains stay for a while"


def test_a_load_that_varies_is_left_to_the_operators_gains():
    """3 s of a flood, 3 s of calm, in turn: no sample of it is like the next one."""
    queue, lower_s = Queue(new()), 0.0
    for _ in range(60):
        queue.seek(3, mean_us=25_000, lost=0.4)
        for _ in range(30):
            queue.seek(0.1, lost=0.005)
            lower_s += 0.1 * (queue.tuner.gains.target_us < 15_000)
    assert lower_s < 0.05 * 360


def test_it_waits_longer_each_time_a_target_is_given_up():
    queue = Queue(new())
    told = queue.seek(400, **COSTS["goodput"])
    trials_us = [one.t_us for one in told if isinstance(one, Decision) and one.action == "trial"]
    waits = [later - earlier for earlier, later in itertools.pairwise(trials_us)]
    assert len(trials_us) <= 5
    assert waits == sorted(waits)
    assert waits[0] >= 10_000_000


def test_a_trial_is_taken_back_when_telemetry_fails_meanwhile():
    queue, trial = on_trial()
    queue.t_us += 20_000_000
    told = queue.seek(0.1)
    effect, back = told
    assert (effect.verdict, effect.after) == ("rolled-back", None)
    assert back.action == "roll-back"
    assert {key: [after, before] for key, (before, after) in trial.changed.items()} == back.changed
    assert "not measured" in human(effect, "now")


def test_a_trial_cut_by_lost_telemetry_is_taken_back_when_it_is_there_again():
    queue, trial = on_trial()
    queue.tuner.lost(queue.t_us + 500_000)
    told = queue.tuner.back(trial.gains, queue.t_us + 20_000_000)
    assert [one.action for one in told] == ["resume"]
    assert "trial" in told[0].reason
    queue.t_us += 20_000_000
    effect, back = queue.seek(3)
    assert (effect.of_t_us, effect.verdict, back.action) == (trial.t_us, "rolled-back", "roll-back")
    assert {key: [after, before] for key, (before, after) in trial.changed.items()} == back.changed


@pytest.mark.parametrize("what", ["operator_set", "back"])
def test_a_trial_that_others_gains_replace_has_an_end(what):
    queue, trial = on_trial()
    effect, *_ = getattr(queue.tuner, what)(OTHER, queue.t_us + 500_000)
    assert (effect.of_t_us, effect.verdict, effect.after) == (trial.t_us, "rolled-back", None)
    assert queue.tuner.gains == OTHER


def test_a_trial_cut_by_another_capacity_leaves_nothing_behind():
    queue, trial = on_trial()
    told = steady(queue.tuner, queue.t_us + 100_000, queue.t_us + 2_500_000, rate_bit_s=3_000_000)
    assert (told[0].of_t_us, told[0].verdict) == (trial.t_us, "rolled-back")
    assert told[1].action == "set"
    assert queue.tuner.gains == STEEP


def test_what_is_hardly_different_stays_as_it_is():
    wanted = dataclasses.replace(STEEP, kp=STEEP.kp * 1.05, ki=STEEP.ki * 3)
    assert near_kept(STEEP, wanted) == dataclasses.replace(STEEP, ki=STEEP.ki * 3)
    assert not matters(STEEP, dataclasses.replace(STEEP, kp=STEEP.kp * 1.05))
    assert matters(STEEP, wanted)


@given(st.lists(st.tuples(st.integers(1_000, 40_000), st.floats(0.0, 1.0), st.floats(0, 0.5)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_no_target_is_above_the_operators_nor_too_short_for_three_packets(queues):
    queue = Queue(new())
    for mean_us, swing, lost in queues:
        queue.seek(6, mean_us=mean_us, swing_us=round(swing * mean_us), lost=lost)
        assert 3 * 1211 <= queue.tuner.gains.target_us <= 15_000
        assert queue.tuner.gains.m2_us < queue.tuner.gains.target_us < queue.tuner.gains.m1_us


@pytest.mark.parametrize("wanted", [{"hold_target": True}, {"dry_run": True}])
def test_a_target_to_be_held_is_held(wanted):
    queue = Queue(new(**wanted))
    assert not queue.seek(20)
    assert queue.tuner.gains.target_us == 15_000


def test_few_drops_do_not_tell_how_far_a_queue_swings():
    assert not Queue(new()).seek(8, lost=0.0005)


def test_a_line_that_is_not_full_is_not_tried_on():
    assert not Queue(new()).seek(20, used=0.97)


def test_a_tuner_that_knows_the_operators_target_does_not_take_a_lower_one_for_it():
    lowered = dataclasses.replace(STEEP, target_us=5_000, m1_us=6_666, m2_us=3_333)
    told = steady(Tuner(Settings(), "d", "p", lowered, 0, target_us=15_000), 0, 2_000_000)
    assert told[0].changed["target_us"] == [5_000, 15_000]
    asked = Tuner(Settings(target_us=8_000), "d", "p", lowered, 0, target_us=15_000)
    assert steady(asked, 0, 2_000_000)[0].changed["target_us"] == [5_000, 8_000]


def test_an_operators_hand_makes_a_new_target():
    queue = Queue(new())
    assert queue.seek(10)
    tuner = queue.tuner
    assert tuner.gains.target_us < 12_000
    tuner.operator_set(dataclasses.replace(tuner.gains, kp=50.0), queue.t_us)
    assert tuner.base.target_us == 15_000  # it is not about the target
    tuner.resume(queue.t_us)
    by_hand = design.held_at(tuner.gains, 12_000)
    tuner.operator_set(by_hand, queue.t_us)
    tuner.resume(queue.t_us)
    queue.seek(20)
    assert tuner.base.target_us == 12_000
    assert tuner.gains.target_us <= 12_000


@pytest.mark.parametrize("wrong", [{"rtt_s": 0.0}, {"rtt_s": float("nan")}, {"capacity_bit_s": 1.0}, {"target_us": 5},
                                   {"phase_margin_deg": 90}, {"at_most_every_s": 0.0},
                                   {"loss_price": -1.0}])  # fmt: skip
def test_settings_name_what_is_wrong(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Settings(**wrong)


def test_a_line_without_load_is_left_alone():
    line = Line(10e6, 0.02, 1, STEEP)
    assert tuned(line, Tuner(Settings(), "rig", "p1", STEEP, 0), 3) == []


@pytest.mark.parametrize("refused", [False, True])
def test_a_device_that_started_anew_is_looked_at_anew(refused):
    """Its clock and counters begin again, below those of the sample, the waits and a refusal."""
    up_us = 100_000_000_000
    queue = Queue(new(), up_us)
    told = queue.seek(6)
    if refused:
        first = next(one for one in told if one.gains)
        queue.tuner.refused(first, "gone", first.t_us)
    was = queue.tuner.gains
    queue.tuner.lost(up_us + 6_000_000)
    queue.tuner.back(was, up_us + 7_000_000)
    told = Queue(queue.tuner, 1_000_000, up_us + 7_000_000).seek(20)
    assert [one for one in told if isinstance(one, Decision) and one.changed]


def test_gains_of_a_write_whose_end_was_not_seen_do_not_lower_the_operators_target():
    queue = Queue(new())
    queue.seek(6)
    queue.tuner.lost(6_000_000)
    queue.tuner.back(design.held_at(queue.tuner.gains, 4_000), 7_000_000, target_us=15_000)
    assert queue.tuner.base.target_us == 15_000
    assert queue.tuner.base.m1_us == pytest.approx(STEEP.m1_us, rel=0.01)


@given(st.floats(5e4, 1e12), st.integers(1, 2**24 - 1))
def test_the_least_target_is_never_above_the_operators(capacity_bit_s, target_us):
    base = design.held_at(STEEP, target_us)
    assert 1 <= design.target_least_us(capacity_bit_s, base) <= target_us
