# SPDX-License-Identifier: Apache-2.0
"""Common parts of the two PPOs of the cross-check, and how their seeds are put together."""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

from weirtrain import crosscheck
from weirtrain.learner import Learner
from weirtrain.profiles import PROFILES

PROFILE = PROFILES["pbq-paper"].changed({"document.output": "linear"})


class Empty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-5, 5, (PROFILE.width,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)


def test_both_begin_with_the_same_policy_and_the_same_critic():
    ours = Learner.begin(PROFILE, 1).policy
    kwargs = {"net_arch": list(PROFILE.hidden), "log_std_init": PROFILE.log_deviation}
    theirs = PPO("MlpPolicy", Empty(), seed=2, device="cpu", policy_kwargs=kwargs).policy
    states = torch.randn((7, PROFILE.width), generator=torch.Generator().manual_seed(3))
    drawn = torch.randn(7, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        assert not torch.allclose(theirs.predict_values(states).squeeze(-1), ours.values(states))
        crosscheck.begin_alike(theirs, ours)
        values, known, _ = theirs.evaluate_actions(states, drawn.unsqueeze(-1))
        torch.testing.assert_close(values.squeeze(-1), ours.values(states))
        torch.testing.assert_close(known, ours.log_probabilities(states, drawn))


def test_the_table_and_the_lines_are_over_seeds():
    rising = [(10.0 * n, float(n)) for n in range(1, 13)]
    level = [(10.0 * n, 1.0) for n in range(1, 13)]
    parts = crosscheck.rewards_of_parts([rising, level])
    assert list(parts) == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10", "11 to 12"]
    assert (parts["1 to 2"].mean, parts["11 to 12"].mean) == (1.25, 6.25)
    curves = {"stable-baselines3": [level, level], "ours": [rising, level]}
    lines = crosscheck.as_csv(curves).splitlines()
    assert lines[0] == "learner,seed,episode,steps,reward"
    assert len(lines) == 1 + 4 * 12
    assert "ours,2,12,120,1.0" in lines
    assert "6.25" in crosscheck.page(curves, 12, 30.0)
