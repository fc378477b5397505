# SPDX-License-Identifier: Apache-2.0
"""One step of a training: rollouts into a batch, PPO's update, the weights file after it. Pure but for torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weirtrain import draws, rewards, shared_reward, trajectory, weights
from weirtrain.episodes import Episode
from weirtrain.policy import Place, Policy
from weirtrain.ppo import Batch, optimiser, update
from weirtrain.profiles import Profile
from weirtrain.rollout import Rollout
from weirtrain.settings import SharedReward
from weirtrain.stretches import Preceding, advantages, stretches
from weirtrain.trajectory import Trajectory, TrajectoryError

# A flow that met a full queue from its first packet on never saw its path's own round trip. Its estimate counts up to
# this much more, so that the ranges are of links and not of queues.
MOST_OVER_RTT = 1.05
LEAST_STEPS = 2
MOST_SHARE = 4.0  # in figures
ADVANTAGES = 4  # their place in a Batch
SCORES = ("score", "share", "rtt_mean_ms", "loss_percent")  # reward, rate over the fair share, RTT, bytes lost


def read_all(rollouts: Sequence[Rollout], sha256: str) -> list[tuple[Episode, list[Trajectory]]]:
    """The trajectories of each episode, in the order of their numbers; their times are of the run. Raises
    TrajectoryError."""
    found = []
    for rollout in sorted(rollouts, key=lambda rollout: rollout.episode.number):
        flows = [
            trajectory.read(content, f"episode {rollout.episode.number}, {name}", sha256)
            for name, content in rollout.files
        ]
        for flow in flows:
            flow.numbers["t_us"] -= rollout.start_us
        found.append((rollout.episode, flows))
    return found


def alike(advantages_: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Advantages with a mean square of 1 in each episode [steps]; `numbers` are the episodes' [steps]."""
    found = np.empty_like(advantages_)
    for number in np.unique(numbers):
        own = advantages_[numbers == number]
        found[numbers == number] = own / (np.sqrt(np.mean(own * own)) + 1e-8)
    return found


def shares(one: Trajectory, fair_bytes_s: np.ndarray) -> np.ndarray:
    """Delivery rates over the fair ones [steps]; where a line that varies is out, at most MOST_SHARE."""
    return np.minimum(rewards.rates_bytes_s(one) / fair_bytes_s, MOST_SHARE)


def generator(seed: int, *what: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(draws.number(seed, *what))


@dataclass
class Learner:
    """The policy, its optimiser, and what has been learnt from so far."""

    profile: Profile
    seed: int
    policy: Policy
    steps_with: torch.optim.Adam
    updates: int = 0
    steps: int = 0
    ranges: dict[str, list[float]] | None = None

    @classmethod
    def begin(cls, profile: Profile, seed: int) -> Learner:
        policy = Policy(
            profile.width, profile.hidden, profile.document["output"], profile.log_deviation,
            generator(seed, "networks"), profile.last_bias,
            profile.facts, profile.noise_correlation,
        )  # fmt: skip
        if profile.start is not None:
            names = ("window_inverse", "surplus_share")
            places = (Place(*profile.place(name)) for name in names)
            policy.begin_with(profile.start, *places, profile.document["action_bound"])
        return cls(profile, seed, policy, optimiser(policy, profile.ppo))

    @classmethod
    def rule(cls, profile: Profile) -> Learner:
        """The rule that a training begins with, without the random units that it learns by."""
        found = cls.begin(profile, 0)
        found.policy.without_random_units()
        return found

    def weights_file(self, commit: str, command: str, guarded: bool = True) -> bytes:
        """The weights of this step. Without the guard for a training: it would be held to what it has seen so far."""
        provenance = {"commit": commit, "seed": self.seed, "command": command, "steps": self.steps}
        document = {**self.profile.members(), "ranges": self.ranges or {}, "provenance": provenance}
        if not guarded:
            document["guard"] = None
        layers = [(weight.numpy(), bias.numpy()) for weight, bias in self.policy.layers()]
        return weights.write(document, layers, self.policy.log_deviation.item())

    def learn(self, rollouts: Sequence[Rollout], sha256: str) -> dict[str, float]:
        """Learns from episodes run with the weights of this digest, in the order of their numbers; the figures of this
        update. Raises TrajectoryError for a trajectory that can't be learnt from, FloatingPointError."""
        batch, seen = self.batch(read_all(rollouts, sha256))
        if len(batch.drawn) < LEAST_STEPS:
            raise TrajectoryError(
                f"update {self.updates + 1}: {len(batch.drawn)} steps, expected {LEAST_STEPS} or more"
            )
        figures = update(
            self.policy, self.steps_with, batch, self.profile.ppo, generator(self.seed, "update", self.updates),
            critic_alone=self.updates < self.profile.ppo.critic_first_updates,
        )  # fmt: skip
        self.updates += 1
        self.steps += len(batch.drawn)
        return {"update": self.updates, "steps": self.steps, **seen, **figures}

    @torch.no_grad()
    def batch(self, read: Sequence[tuple[Episode, list[Trajectory]]]) -> tuple[Batch, dict[str, float]]:
        """The policy's steps with their advantages, and means over their intervals."""
        ppo = self.profile.ppo
        columns: list[list[np.ndarray]] = [[] for _ in Batch.WIDTHS]
        results: list[np.ndarray] = []
        numbers: list[np.ndarray] = []
        for episode, one, worth, told, fair, rtt_s in self.judged(read):
            before = Preceding.of(one)
            carried = [before.noise[:, np.newaxis]] if self.policy.correlation else []
            seen = np.concatenate([one.state, told, *carried], axis=1)
            values = self.policy.values(torch.from_numpy(seen.astype(np.float32))).double().numpy()
            facts = np.stack([
                worth, rewards.rates_bytes_s(one) * 8e-6, shares(one, fair),
                one.numbers["rtt_mean_us"] * 1e-3, rewards.loss_shares(one) * 100,
            ])  # fmt: skip
            for stretch in stretches(one):
                acted, after = slice(stretch.first, stretch.last + 1), slice(stretch.first + 1, stretch.last + 2)
                scaled = worth[after] * ppo.reward_scale
                gains = advantages(scaled, values[stretch.first : stretch.last + 2], ppo.discount, ppo.decay)
                parts = (one.state[acted], seen[acted], one.numbers["drawn"][acted],
                         one.numbers["log_probability"][acted], gains, gains + values[acted], before.states[acted],
                         before.drawn[acted], before.there[acted])  # fmt: skip
                for column, part in zip(columns, parts, strict=True):
                    column.append(part)
                results.append(facts[:, after])
                numbers.append(np.full(len(gains), episode.number))
                self.widen(one, acted, rtt_s)
        if not results:
            return Batch.of(*(np.zeros((0, 1)[: width + 1]) for width in Batch.WIDTHS)), {}
        means = np.concatenate(results, axis=1).mean(axis=1)
        names = ("reward", "throughput_mbit_s", "share", "rtt_mean_ms", "loss_percent")
        whole = list(map(np.concatenate, columns))
        if ppo.each_episode_alike:
            whole[ADVANTAGES] = alike(whole[ADVANTAGES], np.concatenate(numbers))
        return Batch.of(*whole), dict(zip(names, map(float, means), strict=True))

    def score(self, rollouts: Sequence[Rollout], sha256: str) -> dict[str, float]:
        """Score of the policy of this digest in these episodes: the means of `scores`. Raises TrajectoryError."""
        return dict(zip(SCORES, map(float, self.scores(rollouts, sha256).mean(axis=0)), strict=True))

    def scores(self, rollouts: Sequence[Rollout], sha256: str) -> np.ndarray:
        """Score of the policy of this digest in each of these episodes, in the order of their numbers: the means of
        SCORES over its intervals [episodes, SCORES]. Raises TrajectoryError."""
        found = []
        for episode, flows in read_all(rollouts, sha256):
            parts = [
                np.stack([worth, shares(one, fair), one.numbers["rtt_mean_us"] * 1e-3,
                          rewards.loss_shares(one) * 100])[:, one.by_policy]
                for _, one, worth, _, fair, _ in self.judged([(episode, flows)])
            ]  # fmt: skip
            steps = np.concatenate(parts, axis=1)
            if not steps.size:
                raise TrajectoryError(f"validation, episode {episode.number}: no decision by the policy")
            found.append(steps.mean(axis=1))
        return np.array(found)

    def judged(
        self, read: Sequence[tuple[Episode, list[Trajectory]]]
    ) -> Iterator[tuple[Episode, Trajectory, np.ndarray, np.ndarray, np.ndarray, float]]:
        """Each trajectory with its episode, the rewards of its intervals [steps], the critic's input beside its states
        [steps, facts], the delivery rate that is its fair share, in bytes per second [steps], and its path's own round
        trip in seconds."""
        reward = self.profile.reward
        for episode, flows in read:
            if isinstance(reward, SharedReward):
                terms = shared_reward.terms_of(flows, episode)
                worths, fair = [one.total(reward) for one in terms], [one.fair_bytes_s for one in terms]
                told = [shared_reward.facts(flow, n, flows, episode) for n, flow in enumerate(flows)]
            else:
                own = [rewards.of_intervals(flow, reward, episode.share_bytes_s) for flow in flows]
                worths = rewards.together(flows, own) if reward.team else own
                fair = [np.full(len(flow), episode.share_bytes_s) for flow in flows]
                told = [np.zeros((len(flow), 0)) for flow in flows]
            for n, flow in enumerate(flows):
                yield episode, flow, worths[n], told[n], fair[n], episode.rtt_of_s(n)

    def widen(self, one: Trajectory, acted: slice, rtt_s: float) -> None:
        """Keeps the ranges of what was trained in, for the guard: of each stretch the middle, since the first intervals
        of a connection know little of its path. `rtt_s` is the path's own round trip."""
        ranges = dict(self.ranges or {})
        measured_s = float(np.median(one.numbers["rtt_least_us"][acted])) * 1e-6
        for name, seen in {
            "rate_greatest_bytes_s": [float(np.median(one.numbers["rate_greatest_bytes_s"][acted]))],
            "rtt_least_s": [rtt_s, min(measured_s, MOST_OVER_RTT * rtt_s)],
        }.items():
            known = [*ranges.get(name, []), *seen]
            ranges[name] = [min(known), max(known)]
        self.ranges = ranges

    def state(self) -> dict[str, Any]:
        """All that the next update depends on beside the rollouts."""
        return {
            "seed": self.seed, "updates": self.updates, "steps": self.steps, "ranges": self.ranges,
            "policy": copy.deepcopy(self.policy.state_dict()),
            "optimiser": copy.deepcopy(self.steps_with.state_dict()),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        self.updates, self.steps, self.ranges = state["updates"], state["steps"], state["ranges"]
        self.policy.load_state_dict(state["policy"])
        self.steps_with.load_state_dict(state["optimiser"])
