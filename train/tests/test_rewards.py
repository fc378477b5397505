# SPDX-License-Identifier: Apache-2.0
"""Eq. 2 and 3 by hand, stretches, and GAE beside its definition as a double sum."""

import made
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirtrain.rewards import of_intervals, together
from weirtrain.settings import Reward
from weirtrain.stretches import Stretch, advantages, stretches
from weirtrain.trajectory import read


def trajectory(*steps):
    return read(made.content([made.head(), *(made.step(n, **step) for n, step in enumerate(steps))]), "T")


def test_rewards_by_hand():
    given_ = trajectory(
        {},  # 100 kB/s, nothing lost, at the least round trip
        {"acked_bytes": 5_000, "lost_bytes": 5_000},
        {"rtt_last_us": 45_001, "rtt_mean_us": 30_000},  # the last counts, not the mean
        {"rtt_last_us": 45_000, "acked_bytes": 0, "interval_us": 200_000},  # at gamma, not above it
    )
    found = of_intervals(given_, Reward(alpha=2, beta=3, gamma=1.5, eta=0.25), unit_bytes_s=100_000)
    assert found == pytest.approx([2, 1 - 1.5, 2 - 0.25, 0])


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("", []),
        ("p", []),  # its result is not known
        ("pp", [(0, 0)]),
        ("pppp", [(0, 2)]),
        ("sspp", [(2, 2)]),
        ("ppsp", [(0, 1)]),  # the second's result is in a line that is not the policy's
        ("pspps", [(0, 0), (2, 3)]),
        ("ss", []),
    ],
)
def test_stretches(by, wanted):
    names = {"p": "policy", "s": "startup"}
    found = stretches(trajectory(*({"by": names[one]} for one in by)))
    assert found == [Stretch(first, last) for first, last in wanted]


numbers = st.floats(-10, 10, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), numbers, st.floats(0, 1), st.floats(0, 1))
def test_gae_is_its_definition(pairs, rest, discount, decay):
    rewards, values = np.array([one[0] for one in pairs]), np.array([one[1] for one in pairs] + [rest])
    found = advantages(rewards, values, discount, decay)
    for n in range(len(rewards)):
        slow = sum(
            (discount * decay) ** k * (rewards[n + k] + discount * values[n + k + 1] - values[n + k])
            for k in range(len(rewards) - n)
        )
        assert found[n] == pytest.approx(slow, abs=1e-6)


@given(st.lists(numbers, min_size=1, max_size=20), numbers, st.floats(0, 1))
def test_gae_with_decay_1_is_the_return_less_the_value(rewards, rest, discount):
    values = np.append(np.arange(len(rewards), dtype=float), rest)
    found = advantages(np.array(rewards), values, discount, 1.0)
    to_come = rest
    for n in reversed(range(len(rewards))):
        to_come = rewards[n] + discount * to_come
        assert found[n] == pytest.approx(to_come - values[n], abs=1e-6)


def test_gae_wants_the_value_after_the_stretch():
    with pytest.raises(ValueError, match="expected one more"):
        advantages(np.zeros(3), np.zeros(3), 0.9, 0.9)


def test_a_team_is_paid_the_mean_of_what_its_members_get_at_that_time():
    one = trajectory(*({"t_us": 1_000_000 + 100_000 * n} for n in range(4)))
    other = trajectory(*({"t_us": 1_160_000 + 100_000 * n} for n in range(2)))  # from 1.06 to 1.26 s
    worths = [np.array([1.0, 2.0, 3.0, 4.0]), np.array([10.0, 20.0])]
    own, its = together([one, other], worths)
    assert own.tolist() == [1.0, 2.0, 6.5, 12.0]  # middles at 0.95, 1.05, 1.15, 1.25
    assert its.tolist() == [6.5, 12.0]
    assert together([one], worths[:1])[0].tolist() == worths[0].tolist()
