# SPDX-License-Identifier: Apache-2.0
"""Episodes of training and of tests are apart; they are of the training's ranges and of their seed."""

import pytest

from weirlab.run.scenarios import load_scenario
from weirtrain import ranges
from weirtrain.episodes import plan, scenario

POLICY = "policy of a test\n"
FOUND = ranges.load()


def apart(one, other):
    """Whether two ranges have no number in common."""
    return all(a[1] < b[0] or b[1] < a[0] for a in one for b in other)


def keeps_apart(training, test):
    """The names of the ranges that keep a test out of the training."""
    return [name for name, range_ in test.items() if name in training and apart(training[name], range_)]


@pytest.mark.parametrize("name", FOUND["test"])
def test_each_test_is_outside_the_training(name):
    assert keeps_apart(FOUND["training"], FOUND["test"][name])


@pytest.mark.parametrize("name", FOUND["test"])
def test_each_test_is_outside_the_papers_link(name):
    link = {"rate_mbit_s": [[FOUND["paper"]["rate_mbit_s"]] * 2], "rtt_ms": [[FOUND["paper"]["rtt_ms"]] * 2],
            "loss_percent": [[0, 0]], "buffer_bdp": [[10, 10]]}  # fmt: skip
    assert keeps_apart(link, FOUND["test"][name])


def test_apart_is_seen():
    assert apart([(0, 1), (3, 4)], [(1.5, 2), (5, 6)])
    assert not apart([(0, 1), (3, 4)], [(4, 5)])
    assert not apart([(0, 10)], [(2, 3)])
    assert keeps_apart(FOUND["training"], {"loss_percent": [[0, 1]]}) == []


def test_episodes_are_drawn_from_the_training():
    training = FOUND["training"]
    episodes = [plan("pbq", 1, number) for number in range(500)]
    for episode in episodes:
        for name, value in {"rate_mbit_s": episode.rate_mbit_s, "rtt_ms": episode.rtt_ms,
                            "loss_percent": episode.loss_percent, "flows": episode.flows,
                            "duration_s": episode.duration_s}.items():  # fmt: skip
            assert any(least <= value <= most for least, most in training[name]), (name, value)
    assert {episode.cross for episode in episodes} == set(training["cross"])
    assert {episode.queue for episode in episodes} == set(training["queues"])
    assert {episode.flows for episode in episodes} == set(range(1, 7))
    assert any(episode.rate_mbit_s > 12 for episode in episodes)
    assert len({episode.explore for episode in episodes}) == 500


def test_an_episode_depends_on_seed_and_number_alone():
    assert plan("pbq", 7, 3) == plan("pbq", 7, 3)
    assert plan("pbq", 7, 3) != plan("pbq", 8, 3)
    assert plan("pbq", 7, 3) != plan("pbq", 7, 4)
    one, other = plan("pbq-paper", 1, 0), plan("pbq-paper", 1, 1)
    assert (one.rate_mbit_s, one.rtt_ms, one.flows, one.duration_s) == (2, 30, 2, 120)
    assert one.lab_seed != other.lab_seed


@pytest.mark.parametrize("profile", ["pbq", "pbq-paper"])
def test_each_episode_is_a_scenario_that_the_lab_takes(tmp_path, profile):
    (tmp_path / "policy.weights").write_text(POLICY)
    for number in range(30):
        episode = plan(profile, 1, number)
        (tmp_path / "scenario.toml").write_text(scenario(episode, profile))
        (run,) = load_scenario(tmp_path / "scenario.toml").runs()
        assert run.seed == episode.lab_seed
        quic = run.spec["flows"][0]
        assert (quic["cc"], quic["cc_weights"], quic["cc_explore"]) == (profile, POLICY, episode.explore)
        delays = run.spec["link"]["access"]["delay_ms"] + run.spec["link"]["bottleneck"]["delay_ms"]
        assert 2 * delays == pytest.approx(episode.rtt_ms, abs=0.01)
