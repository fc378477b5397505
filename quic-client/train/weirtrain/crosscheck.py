# SPDX-License-Identifier: Apache-2.0
"""`./run train crosscheck`: stable-baselines3's PPO on the Gymnasium environment, and our PPO on the same scenario.

Both have the settings of pbq-paper; their networks begin with other random numbers. There, one connection learns and
the other runs the weights that ours begins with; in our training both connections run the policy and both are learnt
from. `steps` are decisions learnt from, so that the curves can be laid beside each other."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from weirlab.store import atomic
from weirtrain import rollout
from weirtrain.env import CongestionEnv
from weirtrain.ppo import be_repeatable
from weirtrain.profiles import PROFILES, Profile
from weirtrain.training import Training

SEED = 1
NAMES = {"ours": "our PPO", "stable-baselines3": "stable-baselines3's PPO"}
Curve = list[tuple[float, float]]  # decisions learnt from, mean reward of an interval


def run(folder: Path, episodes: int, episode_s: float, say: Callable[[str], None]) -> Path:
    """Both trainings, one lab at a time; the page. Raises RunError, LabError, TrajectoryError, OSError."""
    profile = replace(PROFILES["pbq-paper"], episode_s=float(episode_s), episodes=1)
    training = Training(folder / "ours", profile, SEED, "./run train crosscheck")
    training.folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "first.weights", training.weights())
    found: dict[str, Curve] = {"stable-baselines3": theirs(profile, folder / "first.weights", episodes, say)}

    def tell(updates: int, part: int, _rollout: object, figures: dict[str, float] | None) -> None:
        if figures is not None:
            say(f"  [{updates}/{episodes}] {NAMES['ours']}: reward {figures['reward']:.3f}")

    training.run(rollout.here(profile.name, 1, folder / "failed"), episodes, tell)
    found["ours"] = [(row["steps"], row["reward"]) for row in training.rows]
    atomic.write(folder / "curves.csv", as_csv(found))
    atomic.write(folder / "index.html", page(found, episodes, episode_s))
    return folder / "index.html"


def theirs(profile: Profile, first: Path, episodes: int, say: Callable[[str], None]) -> Curve:
    """What stable-baselines3 makes of the same settings, an update after each episode."""
    from gymnasium.wrappers import TransformReward
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.monitor import Monitor

    be_repeatable()
    warnings.filterwarnings("ignore", "You have specified a mini-batch size")  # ours has a short last one as well
    ppo = profile.ppo
    watched = Monitor(CongestionEnv(profile.name, first, profile.reward, profile.episode_s))
    curve: Curve = []

    class Watch(BaseCallback):
        """Takes down each episode, and ends after so many: how many decisions one has is up to the run."""

        def _on_step(self) -> bool:
            lengths = watched.get_episode_lengths()
            if len(lengths) > len(curve):
                curve.append((sum(lengths), watched.get_episode_rewards()[-1] / lengths[-1]))
                say(f"  [{len(curve)}/{episodes}] {NAMES['stable-baselines3']}: reward {curve[-1][1]:.3f}")
            return len(curve) < episodes

    steps = round(profile.episode_s * 1000 / profile.document["interval_ms"]) if profile.episode_s else 1200
    model = PPO(
        "MlpPolicy", TransformReward(watched, lambda reward: reward * ppo.reward_scale), seed=SEED, n_steps=steps,
        batch_size=ppo.minibatch_steps, n_epochs=ppo.epochs, learning_rate=ppo.learning_rate, gamma=ppo.discount,
        gae_lambda=ppo.decay, clip_range=ppo.clip, ent_coef=ppo.entropy_weight, vf_coef=ppo.value_weight,
        max_grad_norm=ppo.most_gradient, device="cpu",
        policy_kwargs={"net_arch": list(profile.hidden), "log_std_init": profile.log_deviation},
    )  # fmt: skip
    with torch.no_grad():  # the mean at first is ours
        model.policy.action_net.bias.fill_(profile.last_bias)
    try:
        model.learn(2 * steps * episodes, callback=Watch())
    finally:
        watched.close()
    return curve


def as_csv(curves: dict[str, Curve]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["learner", "episode", "steps", "reward"])
    for name, curve in curves.items():
        writer.writerows([name, n, f"{steps:g}", repr(reward)] for n, (steps, reward) in enumerate(curve, start=1))
    return out.getvalue()


def page(curves: dict[str, Curve], episodes: int, episode_s: float) -> str:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from weirlab.report import markup, plots

    title = "Our PPO beside stable-baselines3's"
    told = f"{episodes} episodes of {episode_s:g} virtual seconds on Table 2's link. Made by ./run train crosscheck."
    parts = markup.heading({"title": title, "description": told})
    with pyplot.rc_context(plots.STYLE):
        figure, ax = pyplot.subplots(figsize=(7, 3))
        for place, (name, curve) in enumerate(curves.items()):
            ax.plot(*zip(*curve, strict=True), color=plots.STAND_INS[plots.PATH_HUES[place]],
                    linestyle=plots.look(place)[0], label=NAMES[name])  # fmt: skip
        ax.set_xlabel("decisions learnt from")
        ax.set_title("Reward of an interval (Eq. 3), mean of an episode")
        ax.legend(frameon=False)
        parts.append(markup.drawing("Reward over decisions", plots.svg(figure, "reward", "Reward over decisions")))
        pyplot.close(figure)
    return markup.document(title, parts)
