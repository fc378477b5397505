# SPDX-License-Identifier: Apache-2.0
"""Episodes of training, of tests and of held-out links are apart; they are of their ranges and of their seed."""

from collections import Counter

import pytest

from weirlab.run.scenarios import load_scenario
from weirtrain import ranges
from weirtrain.episodes import UDP, held_out, plan
from weirtrain.profiles import PROFILES
from weirtrain.scenario_file import files

POLICY = "policy of a test\n"
FOUND = ranges.load()
EPISODES = [plan("pbq", 1, number) for number in range(500)]
PBQ = PROFILES["pbq"]
RANGES = ("rate_mbit_s", "rtt_ms", "buffer_bdp", "loss_percent", "flows")


def apart(one, other):
    """Whether two ranges have no number in common."""
    return all(a[1] < b[0] or b[1] < a[0] for a in one for b in other)


def keeps_apart(training, test):
    """The names of the ranges that keep a test out of the training."""
    return [name for name in RANGES if name in test and name in training and apart(training[name], test[name])]


def within(value, range_):
    return any(least <= value <= most for least, most in range_)


@pytest.mark.parametrize("name", FOUND["test"])
def test_each_test_is_outside_the_training(name):
    assert keeps_apart(FOUND["training"], FOUND["test"][name])


@pytest.mark.parametrize("kind", FOUND["held_out"])
def test_each_held_out_kind_is_outside_the_training(kind):
    assert keeps_apart(FOUND["training"], FOUND["held_out"][kind])


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
    for episode in EPISODES:
        for name, value in {"rate_mbit_s": episode.rate_mbit_s, "rtt_ms": episode.rtt_ms,
                            "loss_percent": episode.loss_percent, "flows": episode.flows,
                            "duration_s": episode.duration_s}.items():  # fmt: skip
            assert within(value, [[least, most] for least, most in training[name]]), (name, value)
    assert {episode.queue for episode in EPISODES} == set(training["queues"])
    assert {episode.flows for episode in EPISODES} == set(range(1, 7))
    assert len({episode.explore for episode in EPISODES}) == 500


def test_the_training_has_all_that_pbq_is_to_learn():
    rivals = [rival for episode in EPISODES for rival in episode.rivals]
    assert {rival.control for rival in rivals} == set(FOUND["training"]["rivals"]) - {"none"}
    assert {episode.crossing for episode in EPISODES} == set(range(9))
    assert any(
        rival.start_s > 0 and rival.stop_s < episode.duration_s for episode in EPISODES for rival in episode.rivals
    )
    assert any(len(episode.rivals) == 2 for episode in EPISODES)
    assert any(episode.rates for episode in EPISODES)
    assert any(episode.ecn for episode in EPISODES)
    assert any(episode.farther for episode in EPISODES)


def test_one_training_reaches_200_mbit_s_with_a_flow_alone():
    """The guard's limits come of the greatest rates that flows had."""
    ones = [plan("pbq", 1, number) for number in range(PBQ.updates * PBQ.episodes)]
    assert any(one.rate_mbit_s > 200 and one.flows == 1 and not one.rivals and not one.rates for one in ones)


def test_competing_flows_are_there_within_the_run_and_no_more_than_the_path_holds():
    for episode in EPISODES:
        assert episode.crossing <= 8
        for rival in episode.rivals:
            assert 0 <= rival.start_s < rival.stop_s <= episode.duration_s
            assert (rival.rate_mbit_s > 0) == (rival.control == UDP)


@pytest.mark.parametrize("kind", FOUND["held_out"])
def test_held_out_episodes_have_what_their_kind_says(kind):
    table, ones = FOUND["held_out"][kind], held_out(kind, 24)
    assert len({one.lab_seed for one in (*ones, *EPISODES)}) == 24 + 500
    for one in ones:
        assert one.explore is None
        assert not within(one.rate_mbit_s, FOUND["training"]["rate_mbit_s"])
        assert bool(one.rates) == (kind == "varying")
        assert bool(one.loss_percent) <= (kind in ("lossy", "fast"))
        assert {rival.control for rival in one.rivals} <= set(table["rivals"])
        assert bool(one.rivals) == (kind in ("beside-cubic", "beside-bbr", "alone-again"))
        assert one.judged_from_s + 2 < one.duration_s
        if kind == "unequal-rtts":
            assert one.rtt_of_s(one.flows - 1) == pytest.approx(4 * one.rtt_of_s(0), rel=1e-3)
        if kind == "alone-again":
            assert one.judged_from_s == max(rival.stop_s for rival in one.rivals) + 5
    assert held_out(kind, 3) == ones[:3]


def test_an_episode_depends_on_seed_and_number_alone():
    assert plan("pbq", 7, 3) == plan("pbq", 7, 3)
    assert plan("pbq", 7, 3) != plan("pbq", 8, 3)
    assert plan("pbq", 7, 3) != plan("pbq", 7, 4)
    one, other = plan("pbq-paper", 1, 0), plan("pbq-paper", 1, 1)
    assert (one.rate_mbit_s, one.rtt_ms, one.flows, one.duration_s) == (2, 30, 2, 120)
    assert one.lab_seed != other.lab_seed


def in_the_lab(folder, episode, profile):
    """The run that the lab makes of an episode."""
    for name, content in files(episode, profile, POLICY.encode()).items():
        (folder / name).write_bytes(content)
    (run,) = load_scenario(folder / "scenario.toml").runs()
    return run


@pytest.mark.parametrize("profile", ["pbq", "pbq-paper"])
def test_each_episode_is_a_scenario_that_the_lab_takes(tmp_path, profile):
    for number in range(40):
        episode = plan(profile, 1, number)
        run = in_the_lab(tmp_path, episode, profile)
        assert run.seed == episode.lab_seed
        quic = run.spec["flows"][0]
        assert (quic["cc"], quic["cc_weights"], quic["cc_explore"]) == (profile, POLICY, episode.explore)
        delays = run.spec["link"]["access"]["delay_ms"] + run.spec["link"]["bottleneck"]["delay_ms"]
        assert 2 * delays == pytest.approx(episode.rtt_ms, abs=0.01)
        flows = Counter()
        for group in run.spec["flows"]:
            flows[group["kind"]] += group["count"]
            assert group["ecn"] == (episode.ecn and group["kind"] != "udp")
        assert (flows["quic-download"], flows["tcp"]) == (episode.flows, episode.crossing)
        assert [tuple(one) for one in run.spec["link"]["bottleneck"].get("rates", [])] == list(episode.rates)


@pytest.mark.parametrize("kind", FOUND["held_out"])
def test_each_held_out_episode_is_a_scenario_that_the_lab_takes(tmp_path, kind):
    for episode in held_out(kind, 6):
        in_the_lab(tmp_path, episode, "pbq")


def test_the_later_senders_have_the_longer_round_trip_in_the_lab(tmp_path):
    episode = next(one for one in EPISODES if one.farther)
    near, far = in_the_lab(tmp_path, episode, "pbq").spec["flows"][:2]
    assert (near["count"], far["count"]) == (episode.flows - episode.farther, episode.farther)
    assert (near["extra_rtt_ms"], far["extra_rtt_ms"]) == (0, episode.extra_rtt_ms)


@pytest.mark.parametrize("number", range(30))
def test_a_shorter_episode_is_one_that_the_lab_takes(tmp_path, number):
    episode = plan("pbq", 2, number, 4.0)
    assert episode.duration_s == 4
    in_the_lab(tmp_path, episode, "pbq")
