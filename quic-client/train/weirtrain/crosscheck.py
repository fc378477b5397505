# SPDX-License-Identifier: Apache-2.0
"""The cross-check: stable-baselines3's PPO on the Gymnasium environment, with the settings of a profile.

`python -m weirtrain.crosscheck WEIGHTS STEPS OUT.csv` writes the mean reward of each episode. The weights say what a
state is made of and what the other connections run."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor

from weirtrain import weights
from weirtrain.env import CongestionEnv
from weirtrain.ppo import be_repeatable
from weirtrain.profiles import PROFILES


def main(words: list[str]) -> int:
    path, steps, out = Path(words[0]), int(words[1]), Path(words[2])
    document, _ = weights.read(path.read_bytes())
    profile = PROFILES[document["profile"]]
    be_repeatable()
    env = Monitor(CongestionEnv(profile.name, path))
    ppo = profile.ppo
    model = PPO(
        "MlpPolicy", env, seed=1, n_steps=min(1200, steps), batch_size=ppo.minibatch_steps, n_epochs=ppo.epochs,
        learning_rate=ppo.learning_rate, gamma=ppo.discount, gae_lambda=ppo.decay, clip_range=ppo.clip,
        ent_coef=ppo.entropy_weight, vf_coef=ppo.value_weight, max_grad_norm=ppo.most_gradient, device="cpu",
        policy_kwargs={"net_arch": list(profile.hidden), "log_std_init": profile.log_deviation},
    )  # fmt: skip
    model.learn(steps)
    env.close()
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["episode", "steps", "reward_mean"])
        lengths, totals = env.get_episode_lengths(), env.get_episode_rewards()
        for n, (length, total) in enumerate(zip(lengths, totals, strict=True)):
            writer.writerow([n, length, total / length])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
