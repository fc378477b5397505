# SPDX-License-Identifier: Apache-2.0
"""A training in its folder: weights, rollouts, update, checkpoint, and again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from weirlab.store import atomic
from weirlab.store.provenance import versions
from weirtrain import checkpoint, curves
from weirtrain.episodes import Episode, plan
from weirtrain.learner import Learner
from weirtrain.ppo import be_repeatable
from weirtrain.profiles import Profile
from weirtrain.rollout import Rollout, Runner
from weirtrain.weights import digest

CHECKPOINT, CURVES, PAGE = "checkpoint.bin", "curves.csv", "index.html"
# Told after each episode: updates done, episodes of this update done, and the episode; after an update its figures.
Tell = Callable[[int, int, Rollout | None, dict[str, float] | None], None]


class TrainingError(Exception):
    """A training that can't begin or go on: why, and what to do."""


class Training:
    """One training. Its folder has `checkpoint.bin`, from which it goes on; `curves.csv`; `index.html`; and
    `PROFILE.weights`, the policy as it is now."""

    def __init__(self, folder: Path, profile: Profile, seed: int, command: str) -> None:
        be_repeatable()
        self.folder, self.profile, self.command = folder, profile, command
        self.learner = Learner.begin(profile, seed)
        self.commit = versions()["weir"]
        self.rows: list[dict[str, float]] = []

    @classmethod
    def resume(cls, folder: Path, profile: Profile, seed: int, command: str) -> Training:
        """Goes on from a folder's checkpoint. Raises CheckpointError, TrainingError."""
        found = checkpoint.read(folder / CHECKPOINT)
        self = cls(folder, profile, seed, command)
        wanted = {"settings": _plain(profile.settings()), "command": command}
        for name, value in wanted.items():
            if found.get(name) != value:
                raise TrainingError(
                    f"{folder / CHECKPOINT}: its {name} differ: {_difference(found.get(name), value)}; "
                    "go on with the clone and the options that it began with, or begin anew in another folder"
                )  # fmt: skip
        self.commit, self.rows = found["commit"], found["rows"]
        self.learner.restore(found["learner"])
        return self

    @property
    def weights_path(self) -> Path:
        return self.folder / f"{self.profile.name}.weights"

    def weights(self) -> bytes:
        return self.learner.weights_file(self.commit, self.command)

    def begin(self) -> None:
        """Puts the first checkpoint into the folder. Raises TrainingError if there is a training already."""
        if (self.folder / CHECKPOINT).exists():
            raise TrainingError(
                f"{self.folder}: holds a training already; go on with it by --resume, remove it, or give another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep()

    def run(self, runner: Runner, updates: int, tell: Tell) -> None:
        """Trains until so many updates are done. What was kept last stays whatever happens.

        Raises RunError, LabError, TrajectoryError, FloatingPointError, OSError."""
        while (done := self.learner.updates) < updates:
            weights = self.weights()
            first = done * self.profile.episodes
            episodes = [self.episode(first + n) for n in range(self.profile.episodes)]
            rollouts = []
            for rollout in runner(episodes, weights):
                rollouts.append(rollout)
                tell(done, len(rollouts), rollout, None)
            figures = self.learner.learn(rollouts, digest(weights))
            self.rows.append(figures)
            self.keep()
            tell(done + 1, 0, None, figures)

    def episode(self, number: int) -> Episode:
        found = plan(self.profile.name, self.learner.seed, number)
        return replace(found, duration_s=self.profile.episode_s) if self.profile.episode_s else found

    def keep(self) -> None:
        """Writes checkpoint, weights and curves; each replaces the one before as a whole, the checkpoint first."""
        content = {
            "settings": _plain(self.profile.settings()), "command": self.command, "commit": self.commit,
            "rows": self.rows, "learner": self.learner.state(),
        }  # fmt: skip
        checkpoint.write(self.folder / CHECKPOINT, content)
        atomic.write(self.weights_path, self.weights())
        atomic.write(self.folder / CURVES, curves.as_csv(self.rows))

    def write_page(self) -> Path:
        facts = {
            "title": f"Training of {self.profile.name}",
            "description": f"Made by {self.command} at commit {self.commit}.",
            "Updates": self.learner.updates, "Decisions learnt from": self.learner.steps,
            "Settings": self.profile.settings(),
        }  # fmt: skip
        atomic.write(self.folder / PAGE, curves.page(self.rows, facts))
        return self.folder / PAGE


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other training works in this folder meanwhile. Raises TrainingError."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TrainingError(f"{folder}: another training works there; wait for it, or give another --out") from None
        yield
    finally:
        os.close(handle)


def _plain(value: Any) -> Any:
    """As it comes back from a file: no tuples."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
        return ", ".join(f"{key}: {found.get(key)!r}, here {wanted.get(key)!r}" for key in keys)
    return f"{found!r}, here {wanted!r}"
