# SPDX-License-Identifier: Apache-2.0
"""The reward of `pbq`: each term by hand beside the link, and what holds for any flows."""

from dataclasses import fields, replace

import made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirtrain import shared_reward
from weirtrain.episodes import PACKET_BYTES, PAYLOAD_BYTES, Episode, Rival
from weirtrain.settings import SharedReward
from weirtrain.shared_reward import FACTS, facts, of_flows, of_one, terms_of
from weirtrain.trajectory import read

# 1 MB/s of UDP payload at 40 ms for two flows; five packets of each of two take 14.54 ms.
MBIT_S = 8 * PACKET_BYTES / PAYLOAD_BYTES
EPISODE = Episode(0, 1, 1, MBIT_S, 40.0, 50, 0.0, 2, 20, "fifo")
REWARD = SharedReward(use=1, queue=1, share=1, fairness=1, loss=1)
BESIDE = replace(EPISODE, flows=1, rivals=(Rival("cubic", 1, 0, 20),))


def flow(*steps, begin=0):
    steps = [
        made.step(n, **({"rtt_mean_us": 40_000, "t_us": 100_000 * (n + 1 + begin)} | one))
        for n, one in enumerate(steps)
    ]
    return read(made.content([made.head(), *steps]), "T")


def rate(bytes_s, **others):
    return {"acked_bytes": bytes_s / 10} | others


def last(flows, episode=EPISODE, number=0):
    """Terms of a flow's last interval."""
    terms = terms_of(flows, episode)[number]
    return {one.name: float(getattr(terms, one.name)[-1]) for one in fields(terms)}


def steady(bytes_s, **others):
    return flow(*[rate(bytes_s, **others)] * 10)


def test_equal_shares_and_no_queue_are_worth_0():
    worths = of_flows([steady(500_000), steady(500_000)], EPISODE, REWARD)
    assert [worth[-1] for worth in worths] == pytest.approx([0, 0], abs=1e-9)


def test_what_one_takes_from_another_is_no_gain():
    found = last([steady(250_000), steady(750_000)])
    assert found["use"] == pytest.approx(0, abs=1e-9)
    assert found["fairness"] == pytest.approx((np.log2(0.5) + np.log2(1.5)) / 2)
    assert last([steady(250_000), steady(750_000)], number=1)["fairness"] == found["fairness"]


def test_a_flow_that_is_alone_has_the_link():
    flows = [flow(*[rate(1_000_000)] * 10, *[rate(500_000)] * 10), flow(*[rate(500_000)] * 10, begin=10)]
    assert terms_of(flows, EPISODE)[0].use.tolist() == pytest.approx([0] * 20, abs=1e-9)
    assert terms_of(flows, EPISODE)[0].fair_bytes_s[[0, -1]].tolist() == pytest.approx([1e6, 0.5e6])


def test_use_is_of_the_capacity_when_the_bytes_left_the_queue():
    varying = replace(EPISODE, flows=1, rates=((0.0, MBIT_S), (0.5, MBIT_S / 2)))
    found = terms_of([flow(*[rate(1_000_000)] * 5, *[rate(500_000)] * 10)], varying)[0]
    assert found.use[-1] == pytest.approx(0, abs=1e-9)
    # The window of the eighth interval is 0.3 to 0.8 s; a round trip earlier the first rate held for 0.24 s of it.
    assert found.fair_bytes_s[7] == pytest.approx(1e6 * (0.24 + 0.26 / 2) / 0.5)
    assert last([steady(250_000)], replace(EPISODE, flows=1))["use"] == pytest.approx(-2)


def test_nothing_is_missed_while_the_line_is_out():
    out = replace(EPISODE, flows=1, rates=((0.0, MBIT_S), (0.5, 0.0)))
    found = terms_of([flow(*[rate(1_000_000)] * 6, *[rate(0)] * 14)], out)[0]
    assert found.use[12:].tolist() == [0] * 8


def test_beside_others_the_share_counts_and_the_queue_does_not():
    late = {"rtt_mean_us": 200_000}
    for bytes_s, worth in ((500_000, 0), (750_000, 0), (250_000, -0.25), (125_000, -1.25), (1_000_000, np.log2(0.75))):
        found = last([steady(bytes_s, **late)], BESIDE)
        assert (found["use"], found["queue"]) == (0, 0)
        assert found["share"] == pytest.approx(worth, abs=1e-9)


def test_alone_again_the_queue_counts():
    left = replace(BESIDE, rivals=(Rival("bbr", 2, 0, 0.5),))
    found = terms_of([steady(1_000_000, rtt_mean_us=87_270)], left)[0]
    assert (found.queue < 0).tolist() == [False] * 5 + [True] * 5
    assert (found.share < 0).tolist() == [True] * 5 + [False] * 5


def test_delay_is_beside_the_paths_own_round_trip():
    late = {"rtt_mean_us": 40_000 + 54_540}
    # The least that the flow itself measured does not count.
    for least in (40_000, 60_000):
        flows = [steady(500_000, **late, rtt_least_us=least), steady(500_000)]
        assert last(flows)["queue"] == pytest.approx(-1, abs=0.01)
    far = replace(EPISODE, extra_rtt_ms=54.54)
    flows = [steady(500_000, **late), steady(500_000, **late)]
    assert [last(flows, far, n)["queue"] for n in (0, 1)] == pytest.approx([-1, 0], abs=0.01)


def test_a_flow_counts_as_unfair_once_it_decides():
    begins = flow(*[rate(100_000, by="startup")] * 5, *[rate(100_000)] * 5)
    found = terms_of([steady(900_000), begins], EPISODE)[0].fairness
    assert (found < 0).tolist() == [False] * 6 + [True] * 4


def test_random_loss_is_not_the_flows_fault():
    lossy = replace(EPISODE, flows=1, loss_percent=10.0)
    assert last([steady(900_000, lost_bytes=10_000)], lossy)["loss"] == pytest.approx(0)
    assert last([steady(900_000, lost_bytes=90_000)], lossy)["loss"] == pytest.approx(-0.4)


ratios = st.floats(0, 1e3)


@given(ratios, ratios)
def test_more_of_the_capacity_is_worth_no_less_and_more_delay_no_more(one, other):
    less, more = sorted((one, other))
    assert shared_reward.use(np.array([less])) <= shared_reward.use(np.array([more])) <= 0
    assert shared_reward.queue(np.array([more])) <= shared_reward.queue(np.array([less])) <= 0


@given(ratios, ratios)
def test_the_band_rises_up_to_the_fair_share_and_falls_beyond_it(one, other):
    less, more = sorted((one, other))
    low, high = (float(shared_reward.band(np.array([value]))[0]) for value in (less, more))
    assert max(low, high) <= 0
    if more <= shared_reward.MOST_SHARE:
        assert low <= high
    if less >= 1:
        assert low >= high
    assert (low < -shared_reward.LEANING) == (less < 0.5 or less > 1.5 * 2**0.25)


rates_of_flows = st.lists(st.integers(0, 2_000_000), min_size=1, max_size=5)


@given(rates_of_flows, st.booleans(), st.floats(0.1, 10), st.randoms())
def test_terms_hold_for_any_flows(bytes_s, beside, scale, dice):
    episode = replace(BESIDE if beside else EPISODE, flows=len(bytes_s))
    found = last([steady(one) for one in bytes_s], episode)
    assert all(found[name] <= 0 for name in ("use", "queue", "share", "fairness"))
    assert found["use"] == 0 or not beside
    assert found["fairness"] < 0 or len(set(bytes_s)) == 1 or max(bytes_s) - min(bytes_s) < 1e-4 * max(bytes_s)
    # Neither the order of the flows nor the unit of rates counts.
    mixed = dice.sample(bytes_s, len(bytes_s))
    faster = replace(episode, rate_mbit_s=episode.rate_mbit_s * scale)
    for others in (
        last([steady(one) for one in mixed], episode),
        last([steady(one * scale) for one in bytes_s], faster),
    ):
        for name in ("use", "share", "fairness", "loss"):
            assert others[name] == pytest.approx(found[name], abs=1e-6)


@given(rates_of_flows)
def test_all_flows_are_paid_alike_for_rates(bytes_s):
    flows = [steady(one) for one in bytes_s]
    all_terms = [last(flows, replace(EPISODE, flows=len(bytes_s)), n) for n in range(len(bytes_s))]
    assert len({(one["use"], one["fairness"]) for one in all_terms}) == 1


def test_the_total_weighs_each_term_once():
    terms = terms_of([steady(250_000, rtt_mean_us=94_540, lost_bytes=5_000), steady(500_000)], EPISODE)[0]
    for one in fields(SharedReward):
        alone = SharedReward(**{other.name: float(other is one) for other in fields(SharedReward)})
        assert terms.total(alone).tolist() == getattr(terms, one.name).tolist()
    assert terms.total(REWARD)[-1] == pytest.approx(sum(getattr(terms, one.name)[-1] for one in fields(SharedReward)))


def test_one_interval_alone():
    assert of_one(1.0, 0.04, 0.0, EPISODE, REWARD) == 0
    assert of_one(0.5, 0.04, 0.25, EPISODE, REWARD) == pytest.approx(-1.25)
    assert of_one(0.5, 0.4, 0.25, BESIDE, REWARD) == pytest.approx(-0.5)


def test_the_critic_is_told_of_the_link():
    flows = [flow({}, {}), flow({})]
    found = facts(flows[0], 0, flows, EPISODE)
    assert found.shape == (2, FACTS)
    assert list(found[:, -1]) == pytest.approx([2 / 3, 1 / 3])
    assert facts(flows[0], 0, flows, replace(BESIDE, flows=2))[0, -3] == 0.25
