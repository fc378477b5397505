# SPDX-License-Identifier: Apache-2.0
"""The reward of `pbq` by hand: what flows have together, beside the link that they were on."""

from dataclasses import replace

import made
import numpy as np
import pytest

from weirtrain.episodes import Episode
from weirtrain.settings import SharedReward
from weirtrain.shared_reward import FACTS, facts, of_flows, of_one
from weirtrain.trajectory import read

# 1 MB/s at 40 ms for two flows; five packets of each of two take 14.54 ms.
EPISODE = Episode(0, 1, 1, 8.0, 40.0, 50, 0.0, 2, 20, "none", "fifo")
REWARD = SharedReward(throughput=1, delay=1, loss=1)


def flow(*steps, begin=0):
    steps = [
        made.step(n, **({"rtt_mean_us": 40_000, "t_us": 100_000 * (n + begin)} | one)) for n, one in enumerate(steps)
    ]
    return read(made.content([made.head(), *steps]), "T")


def rate(bytes_s):
    return {"acked_bytes": bytes_s / 10}


def test_equal_shares_and_no_queue_are_worth_0():
    flows = [flow(rate(500_000)), flow(rate(500_000))]
    assert [worth[0] for worth in of_flows(flows, EPISODE, REWARD)] == pytest.approx([0, 0], abs=1e-9)


def test_what_one_takes_from_another_is_no_gain():
    unequal = of_flows([flow(rate(250_000)), flow(rate(750_000))], EPISODE, REWARD)
    wanted = (np.log2(0.5) + np.log2(1.5)) / 2
    assert [worth[0] for worth in unequal] == pytest.approx([wanted, wanted])
    assert wanted < 0


def test_a_flow_that_is_alone_has_the_link():
    flows = [flow(*[rate(1_000_000)] * 2, *[rate(500_000)] * 2), flow(*[rate(500_000)] * 2, begin=2)]
    first, second = of_flows(flows, EPISODE, REWARD)
    assert list(first) == pytest.approx([0] * 4, abs=1e-9)
    assert list(second) == pytest.approx([0, 0], abs=1e-9)


def test_beside_other_traffic_more_than_the_share_is_worth_no_more():
    beside = replace(EPISODE, flows=1, cross="cubic")
    worths = [of_flows([flow(rate(bytes_s))], beside, REWARD)[0][0] for bytes_s in (250_000, 500_000, 900_000)]
    assert worths == pytest.approx([-1, 0, 0])


def test_delay_is_beside_the_paths_own_round_trip():
    late = {"rtt_mean_us": 40_000 + 27_270} | rate(500_000)
    flows = [flow(late), flow(rate(500_000))]
    # The least that the flow itself measured does not count.
    for least in (40_000, 60_000):
        flows[0] = flow(late | {"rtt_least_us": least})
        assert of_flows(flows, EPISODE, REWARD)[0][0] == pytest.approx(-0.5, abs=1e-3)
    far = replace(EPISODE, extra_rtt_ms=27.27)
    worths = of_flows([flow(late), flow(late)], far, REWARD)
    assert [worth[0] for worth in worths] == pytest.approx([-0.5, 0], abs=1e-3)


def test_random_loss_is_not_the_flows_fault():
    lossy = replace(EPISODE, flows=1, loss_percent=10.0)
    worth = of_flows([flow({"acked_bytes": 90_000, "lost_bytes": 10_000})], lossy, REWARD)[0][0]
    assert worth == pytest.approx(np.log2(0.9))


def test_one_interval_alone():
    assert of_one(1.0, 0.04, 0.0, EPISODE, REWARD) == 0
    assert of_one(0.5, 0.04, 0.25, EPISODE, REWARD) == pytest.approx(-1.25)


def test_the_critic_is_told_of_the_link():
    flows = [flow({}, {}), flow({})]
    found = facts(flows[0], 0, flows, EPISODE)
    assert found.shape == (2, FACTS)
    assert list(found[:, -1]) == pytest.approx([2 / 3, 1 / 3])
