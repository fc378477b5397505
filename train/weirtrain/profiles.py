# SPDX-License-Identifier: Apache-2.0
"""The two profiles: what their weights files say beside the network, and how they are trained.

Where the paper is silent, docs/design/pbq.md has the reason for a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from weirtrain.settings import Ppo, Reward, SharedReward, Start, Validation
from weirtrain.shared_reward import FACTS

# Rate, RTT and window beside the connection's own; loss as it is. Shift and scale bring each to about -1 to 1.
NORMALISED = {
    "window_bdp": (1.0, 0.5),
    "interval_ratio": (1.0, 1.0),
    "rate_ratio": (0.5, 2.0),
    "rtt_mean_ratio": (1.0, 0.7),
    "rtt_last_ratio": (1.0, 0.7),
    "loss_share": (0.0, 10.0),
    "queued_packets": (6.0, 0.1),
    "in_flight_share": (0.5, 2.0),
    "window_inverse": (0.0, 5.0),
    "surplus_share": (0.0, 5.0),
    "ce_share": (0.0, 10.0),
}
# The same in plain units and with fixed scales, for a window of 20 packets, 2 Mbit/s and 30 to 100 ms: an ablation.
PLAIN = {
    "window_packets": (10.0, 0.1),
    "interval_s": (0.1, 10.0),
    "rate_bytes_s": (125_000.0, 8e-6),
    "rtt_mean_s": (0.06, 20.0),
}
PBQ_INPUTS = (
    "window_bdp", "interval_ratio", "rate_ratio", "rtt_mean_ratio", "loss_share", "ce_share", "in_flight_share",
    "window_inverse", "surplus_share",
)  # fmt: skip
PAPER_INPUTS = ("window_bdp", "interval_ratio", "rate_ratio", "rtt_mean_ratio", "loss_share")


@dataclass(frozen=True)
class Profile:
    """Configuration of one kind of policy. `document` goes into its weights files as it is. `episodes` of an update are
    run with the same weights: the number is a part of the training, and `--jobs` is not. `episode_s` is how long each
    is; None: what ranges.toml says. `last_bias` is the bias of the actor's last unit at first. `normalised` has shift
    and scale of inputs that differ from those of NORMALISED."""

    name: str
    document: dict[str, Any]
    inputs: tuple[str, ...]
    reward: Reward | SharedReward
    ppo: Ppo
    updates: int
    episodes: int
    hidden: tuple[int, ...] = (64,)
    log_deviation: float = -0.5
    last_bias: float = 0.0
    guard: dict[str, int] | None = field(default=None)
    start: Start | None = None
    validation: Validation | None = None
    episode_s: float | None = None
    normalised: dict[str, tuple[float, float]] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        """A weights file's members but for layers, deviation, ranges and provenance."""
        shift, scale = zip(*((NORMALISED | PLAIN | self.normalised)[name] for name in self.inputs), strict=True)
        normalisation = {"shift": list(shift), "scale": list(scale), "clip": 5}
        own = {"profile": self.name, "inputs": list(self.inputs), "normalisation": normalisation, "guard": self.guard}
        return {**own, **self.document}

    @property
    def noise_correlation(self) -> float:
        """Of an action's noise with that of the action before."""
        return self.document.get("noise_correlation", 0.0)

    @property
    def facts(self) -> int:
        """Number of the critic's inputs beside a state: facts of the link, and the noise before."""
        return FACTS * isinstance(self.reward, SharedReward) + (self.noise_correlation > 0)

    def place(self, name: str) -> tuple[int, float, float]:
        """Where an input of the last interval stands in a state, its shift and its scale."""
        before = len(self.inputs) * (self.document["history"] - 1)
        return before + self.inputs.index(name), *NORMALISED[name]

    @property
    def width(self) -> int:
        """Numbers in a state."""
        return len(self.inputs) * self.document["history"]

    def changed(self, changes: Mapping[str, Any]) -> Profile:
        """The same with other settings, by the names that they have in `settings` (`ppo.learning_rate`)."""
        found = self
        for name, value in changes.items():
            group, _, member = name.rpartition(".")
            if not group:
                found = replace(found, **{member: value})
            elif group == "document":
                found = replace(found, document=found.document | {member: value})
            else:
                found = replace(found, **{group: replace(getattr(found, group), **{member: value})})
        return found

    def settings(self) -> dict[str, Any]:
        """All of it as plain data: a training goes on with the settings that it began with."""
        return asdict(self)


PROFILES = {
    "pbq-paper": Profile(
        name="pbq-paper",
        document={
            "interval_ms": 100, "interval_least_rtts": 0, "history": 1, "memory_intervals": 0, "output": "tanh",
            "action_bound": 1, "window_packets": [2, 1000], "pacing": "bbr", "start": "initial-window",
            "growth": "always",
        },
        inputs=PAPER_INPUTS,
        # Choices made on Table 2's link alone, and others: docs/results/train/README.md.
        reward=Reward(alpha=1.0, beta=1.0, gamma=1.5, eta=1.0, team=True),
        ppo=Ppo(learning_rate=1e-3, reward_scale=0.01),
        updates=50,
        episodes=3,
        episode_s=20.0,
        log_deviation=-1.5,
        last_bias=-0.2,
        normalised={"rtt_mean_ratio": (1.3, 3.0)},
    ),
    "pbq": Profile(
        name="pbq",
        document={
            "interval_ms": 50, "interval_least_rtts": 1, "history": 4, "memory_intervals": 200, "output": "tanh",
            "action_bound": 0.5, "window_packets": [2, 20000], "pacing": "window", "start": "after-startup",
            "growth": "unless-dry", "noise_correlation": 0.99,
            "rtt_probe": {"after_s": 8, "intervals": 1, "share": 0.5}, "competing": True, "ramp": True,
        },
        inputs=PBQ_INPUTS,
        reward=SharedReward(),
        # Ten seconds of intervals of 50 ms: docs/notebook/2026-11-train.md.
        ppo=Ppo(
            discount=0.995, decay=0.985, learning_rate=1e-4, critic_learning_rate=1e-3, epochs=5, minibatch_steps=2048,
            reward_scale=0.005, critic_first_updates=3, each_episode_alike=True,
        ),
        updates=24,
        episodes=48,
        # With noise drawn anew each time, a deviation of 0.2 made windows jump and fill queues: the policy learnt to
        # stay below that, and left the link half empty without noise. The best deviation for correlated noise is open.
        log_deviation=-1.9,
        guard={"after": 20, "back_after": 20},
        start=Start(packets=2.0, share=0.0, gain=0.5),
        validation=Validation(every=8, episodes=48),
    ),
}  # fmt: skip
