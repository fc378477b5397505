# SPDX-License-Identifier: Apache-2.0
"""`./run train crosscheck`: stable-baselines3's PPO and ours on the same Gymnasium environment.

Both learn from one connection, in the same episodes, with the settings of pbq-paper; the other connection runs the
policy that both begin with. Both begin with the same numbers in their networks, and draw their noise from their own
generators. Two differences remain: stable-baselines3 scales advantages in each minibatch and cuts the gradients of
actor and critic together, ours does the first over the update and the second apart. A policy's mean is its last unit
here, without tanh, as stable-baselines3 has it."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from weirlab.metrics.estimate import Estimate, estimate
from weirlab.store import atomic
from weirlab.store.provenance import git_commit
from weirtrain.env import CongestionEnv
from weirtrain.learner import Learner, generator
from weirtrain.policy import Policy
from weirtrain.ppo import Batch, be_repeatable, update
from weirtrain.profiles import PROFILES, Profile
from weirtrain.settings import Ppo
from weirtrain.stretches import advantages

NAMES = {"ours": "our PPO", "stable-baselines3": "stable-baselines3's PPO"}
Curve = list[tuple[float, float]]  # decisions learnt from, mean reward of an interval
Curves = dict[str, list[Curve]]  # by learner, a curve of each seed
PARTS = 6  # of a training in the table: one after another, alike in episodes


def run(folder: Path, episodes: int, episode_s: float, seeds: int, say: Callable[[str], None]) -> Path:
    """Both trainings with each seed, one lab at a time; the page. Files and page grow with each seed. Raises RunError,
    LabError, OSError, FloatingPointError."""
    be_repeatable()
    profile = replace(PROFILES["pbq-paper"], episode_s=float(episode_s), episodes=1)
    profile = profile.changed({"document.output": "linear"})
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / "first.weights"
    found: Curves = {"stable-baselines3": [], "ours": []}
    for seed in range(1, seeds + 1):
        begun = Learner.begin(profile, seed).weights_file(git_commit(), "./run train crosscheck")
        atomic.write(first, begun)
        say(f"seed {seed} of {seeds}")
        found["stable-baselines3"].append(theirs(profile, first, seed, episodes, say))
        found["ours"].append(ours(profile, first, seed, episodes, say))
        atomic.write(folder / "curves.csv", as_csv(found))
        atomic.write(folder / "index.html", page(found, episodes, episode_s))
    return folder / "index.html"


def ours(profile: Profile, first: Path, seed: int, episodes: int, say: Callable[[str], None]) -> Curve:
    """Learning curve of our PPO in the environment, an update after each episode."""
    learner, env = Learner.begin(profile, seed), CongestionEnv(profile.name, first, profile.reward, profile.episode_s)
    noise = generator(seed, "noise")
    curve: Curve = []
    try:
        for episode in range(episodes):
            states, drawn, rewards = acted(env, learner.policy, noise, seed=None if episode else seed)
            batch = batch_of(learner.policy, profile.ppo, states, drawn, rewards)
            update(learner.policy, learner.steps_with, batch, profile.ppo, generator(seed, "update", episode))
            before = curve[-1][0] if curve else 0
            curve.append((before + len(drawn), float(rewards.mean())))
            say(f"  [{episode + 1}/{episodes}] {NAMES['ours']}: reward {curve[-1][1]:.3f}")
    finally:
        env.close()
    return curve


@torch.no_grad()
def acted(
    env: CongestionEnv, policy: Policy, noise: torch.Generator, seed: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An episode by this policy: states [steps + 1, inputs], actions drawn and rewards [steps]. The last decision has
    no result that is known, and is left out."""
    states = [env.reset(seed=seed)[0]]
    drawn: list[float] = []
    rewards: list[float] = []
    while True:
        mean = policy.means(torch.from_numpy(states[-1]).unsqueeze(0)).item()
        action = mean + policy.log_deviation.exp().item() * torch.randn((), generator=noise).item()
        state, reward, _, ended, _ = env.step([action])
        if ended:
            return np.stack(states), np.array(drawn), np.array(rewards)
        states.append(state)
        drawn.append(action)
        rewards.append(reward)


@torch.no_grad()
def batch_of(policy: Policy, ppo: Ppo, states: np.ndarray, drawn: np.ndarray, rewards: np.ndarray) -> Batch:
    """Training data of an episode; an episode is cut, never done."""
    every = torch.from_numpy(states.astype(np.float32))
    values = policy.values(every).double().numpy()
    gains = advantages(rewards * ppo.reward_scale, values, ppo.discount, ppo.decay)
    # Its noise is drawn anew for each action, so that nothing depends on the one before.
    before = np.zeros_like(states[:-1]), np.zeros_like(drawn), np.zeros_like(drawn)
    known = policy.log_probabilities(every[:-1], torch.from_numpy(drawn.astype(np.float32))).numpy()
    return Batch.of(states[:-1], states[:-1], drawn, known, gains, gains + values[:-1], *before)


def theirs(profile: Profile, first: Path, seed: int, episodes: int, say: Callable[[str], None]) -> Curve:
    """Learning curve of stable-baselines3 with the same settings, an update after each episode."""
    from gymnasium.wrappers import TransformReward
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.monitor import Monitor

    warnings.filterwarnings("ignore", "You have specified a mini-batch size")  # ours has a short last one as well
    ppo = profile.ppo
    watched = Monitor(CongestionEnv(profile.name, first, profile.reward, profile.episode_s))
    curve: Curve = []

    class Watch(BaseCallback):
        """Takes down each episode, and ends after so many: how many decisions one has is up to the run."""

        def _on_step(self) -> bool:
            lengths = watched.get_episode_lengths()
            if len(lengths) > len(curve):
                steps = lengths[-1] - 1  # the last decision has no result that is known
                curve.append((sum(lengths) - len(lengths), watched.get_episode_rewards()[-1] / steps))
                say(f"  [{len(curve)}/{episodes}] {NAMES['stable-baselines3']}: reward {curve[-1][1]:.3f}")
            return len(curve) < episodes

    steps = round(profile.episode_s * 1000 / profile.document["interval_ms"]) if profile.episode_s else 1200
    model = PPO(
        "MlpPolicy", TransformReward(watched, lambda reward: reward * ppo.reward_scale), seed=seed, n_steps=steps,
        batch_size=ppo.minibatch_steps, n_epochs=ppo.epochs, learning_rate=ppo.learning_rate, gamma=ppo.discount,
        gae_lambda=ppo.decay, clip_range=ppo.clip, ent_coef=ppo.entropy_weight, vf_coef=ppo.value_weight,
        max_grad_norm=ppo.most_gradient, device="cpu",
        policy_kwargs={"net_arch": list(profile.hidden), "log_std_init": profile.log_deviation},
    )  # fmt: skip
    begin_alike(model.policy, Learner.begin(profile, seed).policy)
    try:
        model.learn(2 * steps * episodes, callback=Watch())
    finally:
        watched.close()
    return curve


@torch.no_grad()
def begin_alike(theirs: nn.Module, ours: Policy) -> None:
    """Gives their networks the numbers of ours."""
    for stack, last, source in (
        (theirs.mlp_extractor.policy_net, theirs.action_net, ours.actor),
        (theirs.mlp_extractor.value_net, theirs.value_net, ours.critic),
    ):
        into = [*(layer for layer in stack if isinstance(layer, nn.Linear)), last]
        for layer, known in zip(into, (one for one in source if isinstance(one, nn.Linear)), strict=True):
            layer.weight.copy_(known.weight)
            layer.bias.copy_(known.bias)


def as_csv(curves: Curves) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["learner", "seed", "episode", "steps", "reward"])
    for name, trainings in curves.items():
        for seed, curve in enumerate(trainings, start=1):
            for episode, (steps, reward) in enumerate(curve, start=1):
                writer.writerow([name, seed, episode, f"{steps:g}", repr(reward)])
    return out.getvalue()


def rewards_of_parts(trainings: list[Curve]) -> dict[str, Estimate]:
    """Mean reward of each part of the episodes over seeds, by the numbers of its episodes."""
    rewards = np.array([[reward for _, reward in curve] for curve in trainings])  # [seeds, episodes]
    parts = np.array_split(np.arange(rewards.shape[1]), min(PARTS, rewards.shape[1]))
    return {f"{part[0] + 1} to {part[-1] + 1}": estimate(rewards[:, part].mean(axis=1).tolist()) for part in parts}


def page(curves: Curves, episodes: int, episode_s: float) -> str:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from weirlab.report import html, labels, plots
    from weirlab.report.model import Figure, Report, table

    title = "Our PPO beside stable-baselines3's"
    seeds = len(curves["ours"])
    told = (
        f"{episodes} episodes of {episode_s:g} virtual seconds on Table 2's link; a thin line for each seed ({seeds}), "
        "a thick one for their mean. Made by ./run train crosscheck."
    )
    with pyplot.rc_context(plots.STYLE):
        figure, ax = pyplot.subplots(figsize=(7, 3))
        for place, (name, trainings) in enumerate(curves.items()):
            look = {"color": plots.STAND_INS[plots.PATH_HUES[place]], "linestyle": plots.look(place)[0]}
            for curve in trainings:
                ax.plot(*zip(*curve, strict=True), **look, linewidth=0.6, alpha=0.5)
            ax.plot(*np.mean(trainings, axis=0).T, **look, label=NAMES[name])
        ax.set_xlabel("decisions learnt from")
        ax.set_title("Reward of an interval (Eq. 3), mean of an episode")
        ax.legend(frameon=False)
        caption = "Reward over decisions"
        drawing = Figure(caption, caption, plots.svg(figure, "reward", caption))
        pyplot.close(figure)
    found = {name: rewards_of_parts(trainings) for name, trainings in curves.items()}
    rows = [[f"episodes {part}", *(labels.shown(found[name][part], 2) for name in curves)] for part in found["ours"]]
    rewards = table(["Reward of an interval", *(NAMES[name] for name in curves)], rows)
    return html.render(Report(title, [drawing, rewards], told))
