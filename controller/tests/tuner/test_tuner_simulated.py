# SPDX-License-Identifier: Apache-2.0
"""The tuner beside a simulated line: what it is for."""

import itertools
from statistics import fmean, quantiles

import pytest
from tuner_rig import GENTLE, PAPER, STEEP, Line, tuned

from weir.gains import Gains
from weir.model.fluid import Plant
from weir.model.margins import margins
from weir.tuner.core import Tuner
from weir.tuner.decision import Decision, Settings


def a_tuner(gains: Gains, **settings) -> Tuner:
    return Tuner(Settings(**settings), "rig", "p1", gains, 0)


def sets(told: list) -> list[Decision]:
    return [one for one in told if isinstance(one, Decision) and one.gains is not None]


@pytest.mark.parametrize("flows", [(5, 45), (30, 0), (2, 0), (10, 20)], ids=str)
@pytest.mark.parametrize("profile", [STEEP, GENTLE, PAPER], ids=["steep", "gentle", "paper"])
def test_a_queue_is_never_worse_than_with_fixed_gains_at_the_same_ceiling(profile, flows):
    """With and without more flows that come and stay; figures over three seeds, for chance alone moves those of one."""
    few, more = flows
    delays, sent, hit = ([], []), [0, 0], [0, 0]
    for seed in (1, 2, 3):
        for at, tune in enumerate((False, True)):
            line = Line(10e6, 0.1, few, profile, seed=seed)
            tuner = a_tuner(profile, hold_target=not tune)
            tuned(line, tuner, 12)
            line.join(more)
            tuned(line, tuner, 24)
            delays[at].extend(line.delays_between(4, 24))
            sent[at] += line.sent_bytes
            hit[at] += line.sample().drops_aqm_packets
    fixed, auto = ([fmean(one), quantiles(one, n=100)[98]] for one in delays)
    assert auto[0] <= 1.05 * fixed[0], "mean"
    assert auto[1] <= 1.05 * fixed[1], "p99"
    assert sent[1] >= 0.99 * sent[0]
    assert hit[1] <= 1.25 * hit[0]


def test_delay_that_buys_nothing_is_not_kept():
    held, line = (Line(10e6, 0.1, 30, STEEP) for _ in range(2))
    tuned(held, a_tuner(STEEP, rtt_s=0.1, hold_target=True), 24)
    told = tuned(line, a_tuner(STEEP, rtt_s=0.1), 24)
    assert fmean(line.delays_between(12, 24)) < 0.7 * fmean(held.delays_between(12, 24))
    assert len(line.delays_between(12, 24)) > 0.99 * len(held.delays_between(12, 24))
    changed = {key for one in sets(told) for key in one.changed}
    assert changed == {"target_us", "m1_us", "m2_us"}, "the gains are the operator's"


def test_loss_that_is_too_dear_is_not_paid():
    """Ten flows of 20 ms lose a percent more of their packets for each 2 ms less."""
    cheap, dear = (Line(10e6, 0.02, 10, STEEP) for _ in range(2))
    tuned(cheap, a_tuner(STEEP, loss_price=5.0), 24)
    tuned(dear, a_tuner(STEEP), 24)
    assert cheap.gains.target_us < dear.gains.target_us
    assert cheap.sample().drops_aqm_packets > 1.1 * dear.sample().drops_aqm_packets


@pytest.mark.parametrize("rate_after", [4e6, 25e6])
def test_another_capacity_is_followed(rate_after):
    line = Line(10e6, 0.1, 30, STEEP)
    tuner = a_tuner(STEEP, rtt_s=0.1)
    tuned(line, tuner, 8)
    assert tuner.gains.target_us < STEEP.target_us
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
    line = Line(10e6, 0.02, 10, STEEP)
    tuner = a_tuner(STEEP, rtt_s=0.02, phase_margin_deg=50.0)
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
    line = Line(10e6, 0.12, 3, STEEP)
    told = tuned(line, a_tuner(STEEP, rtt_s=0.12, phase_margin_deg=80.0), 15)
    asked = [one.reason for one in sets(told)]
    assert asked
    assert all("80 degrees can't be promised" in reason for reason in asked)


def test_dry_run_writes_nothing_and_says_what_it_would():
    line = Line(10e6, 0.02, 10, STEEP)
    told = tuned(line, a_tuner(STEEP, dry_run=True, target_us=12_000), 6)
    assert line.gains == STEEP
    would = [one for one in told if one.action == "set"]
    assert would
    assert all(one.dry_run and one.changed and one.gains is None for one in would)
    assert len(would) < 4


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_light_load_was_given_holds_a_heavy_one_when_the_tuner_is_gone(seed):
    line = Line(10e6, 0.1, 30, STEEP, seed=seed)
    tuned(line, a_tuner(STEEP, rtt_s=0.1), 24)
    assert line.gains.target_us < STEEP.target_us
    line.join(47)
    line.run(40)
    assert fmean(line.delays_between(28, 40)) <= 15
