# SPDX-License-Identifier: Apache-2.0
"""The tuner beside a simulated line: what it is for."""

import dataclasses
import itertools
from statistics import fmean, pstdev

import pytest
from tuner_rig import Line, tuned

from weir.gains import Gains
from weir.model.fluid import Plant
from weir.model.margins import margins
from weir.resources import PROFILES
from weir.settings import load
from weir.tuner.core import Tuner
from weir.tuner.decision import Decision, Settings

TUNED = load(PROFILES / "tuned.toml")
# A slow integral against a tenth of the proportional gain that would damp it: swings from empty to four targets
RINGING = dataclasses.replace(TUNED, kp=1.0, ki=1.0, kd=0.0, schedule_shift=0, schedule_weight_shift=0)


def a_tuner(gains: Gains, **settings) -> Tuner:
    return Tuner(Settings(**settings), "rig", "p1", gains, 0)


def sets(told: list) -> list[Decision]:
    return [one for one in told if isinstance(one, Decision) and one.gains is not None]


def test_a_queue_that_swings_is_calmed():
    alone = Line(10e6, 0.04, 10, RINGING)
    alone.run(16)
    line = Line(10e6, 0.04, 10, RINGING)
    told = tuned(line, a_tuner(RINGING, rtt_s=0.04), 16)
    before, after = alone.delays_between(6, 16), line.delays_between(6, 16)
    assert pstdev(after) < 0.5 * pstdev(before)
    assert fmean(after) < 16
    assert len(after) > 0.98 * 10e6 / 8 / 1500 * 10  # the line is used
    assert sets(told)[0].t_us < 2.5e6, "the first decision takes too long"


@pytest.mark.parametrize("profile", ["tuned", "paper"])
def test_a_profile_of_ours_is_no_better_than_the_tuner(profile):
    gains = load(PROFILES / f"{profile}.toml")
    alone = Line(10e6, 0.02, 10, gains)
    alone.run(12)
    line = Line(10e6, 0.02, 10, gains)
    tuned(line, a_tuner(gains, rtt_s=0.02, hold_target=True), 12)
    excess = [fmean(max(0.0, delay - 15) for delay in one.delays_between(4, 12)) for one in (alone, line)]
    assert excess[1] < 0.7 * excess[0]
    assert pstdev(line.delays_between(4, 12)) < pstdev(alone.delays_between(4, 12))
    assert line.sent_bytes > 0.99 * alone.sent_bytes


def test_delay_that_buys_nothing_is_not_kept():
    held, line = (Line(10e6, 0.02, 10, TUNED) for _ in range(2))
    tuned(held, a_tuner(TUNED, rtt_s=0.02, hold_target=True), 24)
    tuned(line, a_tuner(TUNED, rtt_s=0.02), 24)
    assert fmean(line.delays_between(12, 24)) < 0.7 * fmean(held.delays_between(12, 24))
    assert len(line.delays_between(12, 24)) > 0.99 * len(held.delays_between(12, 24))


@pytest.mark.parametrize("rate_after", [4e6, 25e6])
def test_another_capacity_is_followed(rate_after):
    line = Line(10e6, 0.02, 10, TUNED)
    tuner = a_tuner(TUNED, rtt_s=0.02)
    tuned(line, tuner, 8)
    assert tuner.window.capacity_bit_s == pytest.approx(10e6, rel=0.05)
    line.rate_bit_s = rate_after
    told = tuned(line, tuner, 16)
    first = sets(told)[0]
    assert first.t_us - 9e6 < 2e6
    assert tuner.window.capacity_bit_s == pytest.approx(rate_after, rel=0.1)
    settled = line.delays_between(11, 16)
    assert fmean(settled) < 21
    assert len(settled) > 0.97 * rate_after / 8 / 1500 * 5


def test_a_wanted_phase_margin_is_promised_by_the_model():
    line = Line(10e6, 0.02, 10, TUNED)
    tuner = a_tuner(TUNED, rtt_s=0.02, phase_margin_deg=50.0)
    told = tuned(line, tuner, 12)
    told_margins = [one.phase_margin_deg for one in sets(told) if one.phase_margin_deg is not None]
    assert told_margins
    assert all(margin >= 50 for margin in told_margins)
    promised = [one for one in sets(told) if one.phase_margin_deg is not None][-1]
    assert "can't be promised" not in promised.reason
    p = float(promised.reason.split(" and ")[1].split(" %")[0]) / 100
    for times, row in itertools.product((0.25, 1, 4), (1, 2, 3, 4, 5)):
        load = min(times * p, 0.9)
        plant = Plant.from_probability(promised.capacity_bit_s, 0.02, load, 1500, "cubic", queue_delay_s=0.015)
        found = margins(plant, promised.gains, u=load**0.5, row=row, settling=False)
        assert found.stable
        assert found.phase_margin_deg is None or found.phase_margin_deg >= 49  # the reason's p has two digits


def test_a_margin_that_no_gains_give_is_not_promised():
    line = Line(10e6, 0.12, 3, TUNED)
    told = tuned(line, a_tuner(TUNED, rtt_s=0.12, phase_margin_deg=80.0), 15)
    asked = [one.reason for one in sets(told) if " must go" in one.reason]
    assert asked
    assert all("80 degrees can't be promised" in reason for reason in asked)


def test_dry_run_writes_nothing_and_says_what_it_would():
    line = Line(10e6, 0.02, 10, TUNED)
    told = tuned(line, a_tuner(TUNED, dry_run=True), 6)
    assert line.gains == TUNED
    would = [one for one in told if one.action == "set"]
    assert would
    assert all(one.dry_run and one.changed and one.gains is None for one in would)
    assert len(would) < 4


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_light_load_was_given_holds_a_heavy_one_when_the_tuner_is_gone(seed):
    """Few Reno flows of long round trips empty the queue at each loss, so the gate goes up; then the tuner dies."""
    line = Line(10e6, 0.12, 3, TUNED, seed=seed)
    told = tuned(line, a_tuner(TUNED, rtt_s=0.12), 30)
    gates = [one.changed["min_delay_share"] for one in sets(told) if "of the line used" in one.reason]
    assert gates
    assert all(was < is_now <= 1 for was, is_now in gates)
    assert line.gains.min_delay_share <= 1
    light = line.delays_between(15, 30)
    line.join(47)
    line.run(50)
    assert fmean(line.delays_between(38, 50)) <= 1.2 * 15
    assert fmean(light) < 15
