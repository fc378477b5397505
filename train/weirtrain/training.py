# SPDX-License-Identifier: Apache-2.0
"""A training in its folder: weights, rollouts, update, now and then a validation, checkpoint, and again."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weirlab.store import atomic
from weirlab.store.provenance import git_commit
from weirtrain import checkpoint, curves, weights
from weirtrain.episodes import for_validation, plan
from weirtrain.learner import Learner
from weirtrain.ppo import be_repeatable
from weirtrain.profiles import Profile
from weirtrain.rollout import Rollout, Runner
from weirtrain.weights import digest

CHECKPOINT, CURVES, VALIDATIONS, PAGE = "checkpoint.bin", "curves.csv", "validation.csv", "index.html"
PAGE_EVERY = 10  # updates; the plots take as long as a short lab run
# Called after each episode of an update: updates done, episodes of this one done, and the episode; after an update or a
# validation its figures.
Tell = Callable[[int, int, Rollout | None, dict[str, float] | None], None]


# Between the commits of a training resumed at another one.
THEN = ", then "


class TrainingError(Exception):
    """A training that can't begin or go on: why, and what to do."""


class Training:
    """One training. Its folder has `checkpoint.bin`, from which it goes on; `curves.csv`; `index.html`; and
    `PROFILE.weights`, the policy that was best in validations, or as it is now for a profile without them."""

    def __init__(self, folder: Path, profile: Profile, seed: int, command: str) -> None:
        be_repeatable()
        self.folder, self.profile, self.command = folder, profile, command
        self.learner = Learner.begin(profile, seed)
        self.commit = git_commit()
        self.rows: list[dict[str, float]] = []
        self.validations: list[dict[str, float]] = []
        self.best: bytes | None = None

    @classmethod
    def resume(cls, folder: Path, profile: Profile, seed: int, command: str) -> Training:
        """Goes on from a folder's checkpoint. Raises CheckpointError, TrainingError."""
        found = checkpoint.read(folder / CHECKPOINT)
        self = cls(folder, profile, seed, command)
        pairs = {
            "settings": (found.get("settings"), _plain(profile.settings())),
            "command": (_of_any_length(found.get("command")), _of_any_length(command)),
        }
        for name, (before, now) in pairs.items():
            if before != now:
                raise TrainingError(
                    f"{folder / CHECKPOINT}: other {name}: {_difference(before, now)}; "
                    "go on with the clone and the options that it began with, or begin anew with another --out"
                )
        self.rows = found["rows"]
        # Weights that came of two versions of the lab or the sender can be made again by neither, so both are named.
        if self.commit not in found["commit"].split(THEN):
            self.commit = found["commit"] + THEN + self.commit
        else:
            self.commit = found["commit"]
        self.validations, self.best = found["validations"], found["best"]
        self.learner.restore(found["learner"])
        for draft in folder.glob(".*-*"):  # of a process that was killed as it wrote
            draft.unlink()
        atomic.write_all(self.results())  # it may have been killed between the checkpoint and these
        return self

    @property
    def weights_path(self) -> Path:
        return self.folder / f"{self.profile.name}.weights"

    def weights(self) -> bytes:
        """The training's result so far. Its ranges are those of the whole training, whichever policy was the best: what
        the training begins with has none of its own."""
        if self.best is None:
            return self.learner.weights_file(self.commit, self.command)
        document, layers = weights.read(self.best)
        document["ranges"] = self.learner.ranges or {}
        document["provenance"]["commit"] = self.commit
        return weights.write(document, layers, document.pop("log_deviation"))

    @property
    def best_update(self) -> int | None:
        """After which update the result was made; None without validations."""
        best = max(self.validations, key=lambda row: row["score"], default=None)
        return None if best is None else int(best["update"])

    def begin(self) -> None:
        """Puts the first checkpoint into the folder. Raises TrainingError if there is a training already."""
        if (self.folder / CHECKPOINT).exists():
            raise TrainingError(
                f"{self.folder}: holds a training already; go on with it by --resume, remove it, or give another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep()

    def run(self, runner: Runner, updates: int, tell: Tell) -> None:
        """Trains until so many updates are done. The last checkpoint survives any failure.

        Raises RunError, LabError, TrajectoryError, FloatingPointError, OSError."""
        self.validate(runner, tell)
        while (done := self.learner.updates) < updates:
            weights = self.learner.weights_file(self.commit, self.command, guarded=False)
            first = done * self.profile.episodes
            episodes = [
                plan(self.profile.name, self.learner.seed, first + n, self.profile.episode_s)
                for n in range(self.profile.episodes)
            ]
            rollouts = []
            for rollout in runner(episodes, weights):
                rollouts.append(rollout)
                tell(done, len(rollouts), rollout, None)
            figures = self.learner.learn(rollouts, digest(weights))
            self.rows.append(figures)
            self.keep()
            if self.learner.updates % PAGE_EVERY == 0:
                self.write_page()
            tell(done + 1, 0, None, figures)
            self.validate(runner, tell)

    def validate(self, runner: Runner, tell: Tell) -> None:
        """Where one is due: what the policy is worth without noise. The best one is kept."""
        settings, done = self.profile.validation, self.learner.updates
        if settings is None or done % settings.every or any(row["update"] == done for row in self.validations):
            return
        weights = self.learner.weights_file(self.commit, self.command, guarded=False)
        episodes = for_validation(self.profile.name, settings.episodes, self.profile.episode_s)
        found = {"update": done, **self.learner.score(list(runner(episodes, weights)), digest(weights))}
        if all(found["score"] > row["score"] for row in self.validations):
            self.best = self.learner.weights_file(self.commit, self.command)
        self.validations.append(found)
        self.keep()
        tell(done, 0, None, found)

    def keep(self) -> None:
        """Writes checkpoint, weights and curves, the checkpoint first; none is replaced until all are on the disk."""
        content = {
            "settings": _plain(self.profile.settings()), "command": self.command, "commit": self.commit,
            "rows": self.rows, "validations": self.validations, "best": self.best, "learner": self.learner.state(),
        }  # fmt: skip
        atomic.write_all({self.folder / CHECKPOINT: checkpoint.content(content), **self.results()})

    def results(self) -> dict[Path, bytes | str]:
        """Files that can be made again from a checkpoint."""
        found: dict[Path, bytes | str] = {
            self.weights_path: self.weights(), self.folder / CURVES: curves.as_csv(self.rows, curves.COLUMNS),
        }  # fmt: skip
        if self.profile.validation:
            found[self.folder / VALIDATIONS] = curves.as_csv(self.validations, curves.VALIDATION_COLUMNS)
        return found

    def write_page(self) -> Path:
        facts = {
            "title": f"Training of {self.profile.name}",
            "description": f"{self.learner.updates} updates, {self.learner.steps} decisions learnt from. Made by "
            f"{self.command} at commit {self.commit}.",
            "Settings": self.profile.settings(),
        }  # fmt: skip
        atomic.write(self.folder / PAGE, curves.page(self.rows, self.validations, facts))
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


def _of_any_length(command: Any) -> Any:
    """Without its number of updates, which --resume may change."""
    return re.sub(r" --updates \d+", "", command) if isinstance(command, str) else command


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
        return ", ".join(f"{key}: there {found.get(key)!r}, here {wanted.get(key)!r}" for key in keys)
    return f"there {found!r}, here {wanted!r}"
