# SPDX-License-Identifier: Apache-2.0
"""The environment is one by Gymnasium's own rules, in real lab runs, and repeats."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from weirlab.run.runner import RunError
from weirtrain.env import CongestionEnv
from weirtrain.learner import Learner
from weirtrain.profiles import PROFILES
from weirtrain.weights import WeightsError

SECONDS = 2.0


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "pbq-paper.weights"
    path.write_bytes(Learner.begin(PROFILES["pbq-paper"], 1).weights_file("none", "a test"))
    return path


def test_gymnasium_accepts_it(weights):
    env = CongestionEnv("pbq-paper", weights, episode_s=SECONDS)
    try:
        check_env(env, skip_render_check=True)
    finally:
        env.close()


def test_an_episode_is_cut_at_the_end_and_repeats(weights):
    env = CongestionEnv("pbq-paper", weights, episode_s=SECONDS)

    def episode():
        state, _ = env.reset(seed=4)
        seen, ended = [state], False
        while not ended:
            state, reward, done, ended, interval = env.step(np.array([0.3], np.float32))
            assert not done
            assert env.observation_space.contains(state)
            assert np.isfinite(reward)
            assert ended or {"acked_bytes", "lost_bytes", "rtt_mean_us", "interval_us"} <= interval.keys()
            seen.append(state)
        return np.stack(seen)

    one = episode()
    assert len(one) > 5
    assert np.array_equal(one, episode())
    with pytest.raises(RunError, match="call reset first"):
        env.step([0.0])


def test_weights_that_do_not_fit_are_refused(weights, tmp_path):
    bad = tmp_path / "bad.weights"
    bad.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(WeightsError, match=r"bad\.weights: wrong checksum"):
        CongestionEnv("pbq-paper", bad)
