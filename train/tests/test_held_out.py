# SPDX-License-Identifier: Apache-2.0
"""Figures of policies in held-out episodes, differences episode by episode, verdicts, and what is kept of them."""

from dataclasses import replace

import made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirtrain import judging, weights
from weirtrain.episodes import PACKET_BYTES, PAYLOAD_BYTES, Episode, Rival, held_out
from weirtrain.held_out import BETTER, UNDECIDED, WORSE, as_document, figures, overall, rows
from weirtrain.rollout import Rollout
from weirtrain.settings import SharedReward
from weirtrain.trajectory import TrajectoryError, read

MBIT_S = 8 * PACKET_BYTES / PAYLOAD_BYTES
EPISODE = Episode(3, 1, None, MBIT_S, 40.0, 50, 0.0, 2, 9, "fifo", kind="steady")
POLICY = weights.write({}, [], 0.0)


def lines(bytes_s, seconds=9, digest="0" * 64, rtt_us=50_000, start_us=0):
    steps = [
        made.step(n, t_us=start_us + 100_000 * (n + 1), acked_bytes=bytes_s / 10, rtt_mean_us=rtt_us)
        for n in range(10 * seconds)
    ]
    return made.content([made.head(digest), *steps, made.end(len(steps))])


def flow(*args, **named):
    return read(lines(*args, **named), "T")


def test_figures_by_hand():
    found = figures(EPISODE, [flow(250_000), flow(500_000, rtt_us=60_000)], SharedReward())
    assert found["share"] == pytest.approx(0.75)
    assert found["rtt_ratio"] == pytest.approx((1.25 + 1.5) / 2)
    assert found["loss_percent"] == 0
    assert found["jain"] == pytest.approx(0.9)
    assert found["reward"] < 0
    assert found["reward"] == pytest.approx(sum(value for name, value in found.items() if name.startswith("term_")))


def test_one_flow_has_no_index_of_fairness():
    assert figures(replace(EPISODE, flows=1), [flow(500_000)], SharedReward())["jain"] is None


def test_figures_are_of_the_time_after_the_competing_flows_have_left():
    episode = replace(EPISODE, flows=1, duration_s=20, kind="alone-again", rivals=(Rival("bbr", 1, 0, 8),))
    slow_then_fast = lines(250_000, 13).split(b"\n")[:-2] + [
        made.content([made.step(n, t_us=100_000 * (n + 1), acked_bytes=100_000)])[:-1] for n in range(130, 200)
    ]
    found = figures(episode, [read(b"\n".join(slow_then_fast) + b"\n", "T")], SharedReward())
    assert found["share"] == pytest.approx(1.0)


def test_an_episode_without_a_decision_is_an_error():
    startup = lines(1000).replace(b'"by": "policy"', b'"by": "startup"')
    with pytest.raises(TrajectoryError, match="steady episode 3: no decision"):
        figures(EPISODE, [read(startup, "T")], SharedReward())


def judged(*rewards):
    """Figures of a policy, by kind: one list of rewards for each."""
    return {
        f"kind-{n}": [
            {"reward": one, "share": 1.0, "rtt_ratio": 1.2, "loss_percent": 0.0, "jain": None if k else 1.0}
            for k, one in enumerate(kind)
        ]
        for n, kind in enumerate(rewards)
    }


BASE = ([-1.0, -2.0, -3.0, -4.0], [-1.0, -1.5, -1.0, -1.5])


def moved(*by):
    return judged(*([one + d + 0.01 * n for n, one in enumerate(kind)] for kind, d in zip(BASE, by, strict=True)))


def test_differences_are_taken_episode_by_episode():
    first, mine = rows({"rule": judged(*BASE), "mine": moved(0.5, 0)}, "kind-0")
    assert (first.verdict, first.apart) == (None, {})
    assert mine.apart["reward"].mean == pytest.approx(0.515)
    assert mine.apart["reward"].ci95 < 0.05
    assert mine.apart["jain"].n == 1
    assert mine.verdict == BETTER


@pytest.mark.parametrize(
    ("by", "of_kinds", "of_all"),
    [
        ((0.5, 0.5), [BETTER, BETTER], BETTER),
        ((-0.5, -0.5), [WORSE, WORSE], WORSE),
        ((0.5, -0.015), [BETTER, UNDECIDED], BETTER),
        ((1.0, -0.05), [BETTER, WORSE], UNDECIDED),
        ((-0.015, -0.015), [UNDECIDED, UNDECIDED], UNDECIDED),
    ],
)
def test_verdicts(by, of_kinds, of_all):
    both = {"rule": judged(*BASE), "mine": moved(*by)}
    assert [rows(both, kind)[1].verdict for kind in ("kind-0", "kind-1")] == of_kinds
    assert overall(both)[1].verdict == of_all
    document = as_document(both)
    assert document["overall"][1]["verdict"] == of_all
    assert document["episodes"]["mine"]["kind-0"][2]["reward"] == both["mine"]["kind-0"][2]["reward"]


def test_better_in_all_together_is_not_better_where_one_kind_is_worse():
    base = judged([0.0] * 20, [0.0] * 20)
    mine = judged([1.0, 1.1] * 10, [-0.1, -0.11] * 10)
    (_, row) = overall({"rule": base, "mine": mine})
    assert row.apart["reward"].mean > row.apart["reward"].ci95
    assert row.verdict == UNDECIDED


@given(st.lists(st.floats(-10, 0), min_size=2, max_size=30))
def test_a_policy_is_neither_better_nor_worse_than_itself(rewards):
    both = {"rule": judged(rewards), "again": judged(rewards)}
    assert rows(both, "kind-0")[1].verdict == overall(both)[1].verdict == UNDECIDED


class Runner:
    """Rollouts of made trajectories; stops after so many episodes."""

    def __init__(self, stop_after=None):
        self.ran, self.stop_after = [], stop_after

    def __call__(self, episodes, policy):
        for episode in episodes:
            if len(self.ran) == self.stop_after:
                raise KeyboardInterrupt
            self.ran.append(episode)
            seconds = int(episode.duration_s)
            contents = [
                lines(100_000, seconds, weights.digest(policy), start_us=7_000_000) for _ in range(episode.flows)
            ]
            yield Rollout(episode, [(f"conn-{n}", one) for n, one in enumerate(contents)], 0.1, 7_000_000)


def judge(folder, runner, parts=None, told=lambda _: None):
    episodes = {kind: held_out(kind, 2) for kind in ("steady", "lossy")}
    return judging.judge_all(folder, POLICY, episodes, runner, SharedReward(), parts or {"quic": "a"}, told)


def test_judged_episodes_are_kept_and_the_rest_is_run(tmp_path):
    whole, told = judge(tmp_path / "..", Runner()), []
    with pytest.raises(KeyboardInterrupt):
        judge(tmp_path, Runner(stop_after=3))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])  # killed as it wrote
    runner = Runner()
    assert judge(tmp_path, runner, told=told.append) == whole
    assert (len(runner.ran), told) == (2, [2, 3, 4])
    again = Runner()
    assert judge(tmp_path, again) == whole
    assert again.ran == []


def test_another_sender_is_judged_again(tmp_path):
    judge(tmp_path, Runner())
    runner = Runner()
    judge(tmp_path, runner, {"quic": "b"})
    assert len(runner.ran) == 4
