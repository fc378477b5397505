# SPDX-License-Identifier: Apache-2.0
"""Runs policies in held-out episodes, each kept as it ends: the same call again runs what is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from weirlab.store import atomic
from weirtrain import trajectory
from weirtrain.episodes import Episode
from weirtrain.held_out import Figures, figures
from weirtrain.rollout import Rollout, Runner
from weirtrain.settings import SharedReward
from weirtrain.weights import digest


def judge_all(
    folder: Path, policy: bytes, episodes: Mapping[str, Sequence[Episode]], runner: Runner, reward: SharedReward,
    parts: Mapping[str, str], tell: Callable[[int], None],
) -> dict[str, list[Figures]]:  # fmt: skip
    """Figures of a policy in episodes by kind. `parts` are digests of all else that figures depend on
    (`rollout.parts_of`): with others, all episodes are run again. `tell` is called with the number of episodes judged.

    Raises what the runner does, TrajectoryError, OSError."""
    wanted = {name_of(episode, reward): episode for kind in episodes.values() for episode in kind}
    path = folder / f"judged-{_key(policy, parts)}.jsonl"
    known = _kept(path, wanted)
    atomic.write(path, "".join(_line(name, known[name]) for name in known))
    tell(len(known))
    missing = [episode for name, episode in wanted.items() if name not in known]
    if missing:
        with open(path, "a", encoding="utf-8") as file:
            for rollout in runner(missing, policy):
                name = name_of(rollout.episode, reward)
                known[name] = figures_of(rollout, policy, reward)
                file.write(_line(name, known[name]))
                file.flush()
                tell(len(known))
    return {kind: [known[name_of(episode, reward)] for episode in ones] for kind, ones in episodes.items()}


def figures_of(rollout: Rollout, policy: bytes, reward: SharedReward) -> Figures:
    """Figures of an episode that was run. Raises TrajectoryError."""
    episode = rollout.episode
    flows = [
        trajectory.read(content, f"{episode.kind} episode {episode.number}, {name}", digest(policy))
        for name, content in rollout.files
    ]
    for flow in flows:
        flow.numbers["t_us"] -= rollout.start_us
    return figures(episode, flows, reward)


def name_of(episode: Episode, reward: SharedReward) -> str:
    """Name of an episode's figures: a digest of its parameters and the reward's weights."""
    return hashlib.sha256(json.dumps([asdict(episode), asdict(reward)]).encode()).hexdigest()[:16]


def _key(policy: bytes, parts: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([digest(policy), dict(sorted(parts.items()))]).encode()).hexdigest()[:16]


def _line(name: str, found: Figures) -> str:
    return json.dumps({"episode": name, **found}) + "\n"


def _kept(path: Path, wanted: Mapping[str, Episode]) -> dict[str, Figures]:
    """Figures of wanted episodes in a file of an earlier call. A line cut short is left out."""
    found: dict[str, Figures] = {}
    for line in path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []:
        if line.endswith("\n"):
            own = json.loads(line)
            if (name := own.pop("episode")) in wanted:
                found[name] = own
    return found
